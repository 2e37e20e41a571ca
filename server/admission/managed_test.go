package admission_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/provider/fake"
	"github.com/bulkhead-dev/sandbox/server/admission"
	"github.com/bulkhead-dev/sandbox/tenant"
)

// noImages is an image source for providers that need none.
type noImages struct{}

func (noImages) Volumes(context.Context, string) ([]string, error) { return nil, nil }
func (noImages) Current(context.Context, string, []string) (string, error) {
	return "", errors.New("no images")
}
func (noImages) Ensure(context.Context, string, []string) (string, error) {
	return "", errors.New("no images")
}

// A rig is a manager with its admission; both can be started again, on the
// existing sandboxes.
type rig struct {
	t        testing.TB
	state    *statedir.Dir
	wall     sandbox.Provider
	settings *config.Settings
	*manager.Manager
	*admission.Admission
}

func newRig(t testing.TB, settings string) *rig {
	t.Helper()
	parsed, err := config.Parse("test", []byte(settings))
	must(t, err)
	state, err := statedir.Open(filepath.Join(t.TempDir(), "state"))
	must(t, err)
	r := &rig{t: t, state: state, wall: fake.New(fake.Options{Name: "local"}), settings: parsed}
	r.start()
	return r
}

func (r *rig) start() {
	r.t.Helper()
	var err error
	r.Admission, err = admission.New(admission.Options{
		Keeper: tenant.New(time.Now), Rules: admission.Rules(func() *config.Settings { return r.settings }), Turns: turns,
	})
	must(r.t, err)
	set, err := provider.New(r.wall)
	must(r.t, err)
	log := logrus.New()
	log.SetOutput(io.Discard)
	r.Manager, err = manager.New(manager.Options{
		Settings: r.settings, State: r.state, Providers: set, Images: noImages{}, Log: log, Accounting: r.Admission,
		Host: manager.Host{CPUs: 4, Memory: 8 << 30, Guest: func() (sandbox.GuestRef, error) {
			return sandbox.GuestRef{Dir: "/guest", Digest: strings.Repeat("0", 64)}, nil
		}},
	})
	must(r.t, err)
	r.t.Cleanup(func() { r.Manager.Close() })
	must(r.t, r.Reconcile(r.t.Context(), r.Manager))
}

func turns() admission.Turns {
	return admission.Turns{Slots: 64, Waiting: 4096, Hold: time.Second}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (r *rig) ready(tenant, session string) error {
	_, err := r.Ready(r.t.Context(), manager.Request{Who: config.Who{Tenant: tenant, Agent: "main", Session: session}})
	return err
}

// standing returns the sandboxes of a tenant.
func (r *rig) standing(tenant string) []manager.Row {
	r.t.Helper()
	l, err := r.List(r.t.Context(), manager.ListOptions{Tenant: tenant})
	must(r.t, err)
	return l.Containers
}

const bounded = `{
	"agents": {"defaults": {"sandbox": {"provider": "local", "docker": {"memory": "1g", "cpus": 0.5}}}},
	"tenants": {"defaults": {"sandboxes": 5, "memory": "100g"}}
}`

// TestSessionsAtOnceStayWithinTheQuota has 64 callers request sandboxes for as
// many sessions, by every operation that makes one.
func TestSessionsAtOnceStayWithinTheQuota(t *testing.T) {
	r := newRig(t, bounded)
	var got, refused atomic.Int64
	var wg sync.WaitGroup
	for n := range 64 {
		wg.Go(func() {
			err := r.ready("acme", fmt.Sprint("s", n))
			var e *tenant.Exceeded
			switch {
			case err == nil:
				got.Add(1)
			case sandbox.CodeOf(err) == sandbox.CodeBudgetExceeded && errors.As(err, &e):
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := len(r.standing("acme")); got.Load() != 5 || refused.Load() != 59 || n != 5 {
		t.Errorf("%d got one, %d were refused, %d are there; want 5, 59 and 5", got.Load(), refused.Load(), n)
	}
	want := tenant.Want{Sandboxes: 5, Memory: 5 << 30, NanoCPUs: 5 * 5e8, Disk: 5 * (64 << 40)}
	if held := r.Held("acme"); held != want {
		t.Errorf("held is %+v, want %+v", held, want)
	}
	must(t, r.ready("other", "s"))
}

func TestRemovedSandboxMakesRoom(t *testing.T) {
	r := newRig(t, bounded)
	for n := range 5 {
		must(t, r.ready("acme", fmt.Sprint("s", n)))
	}
	must(t, r.ready("acme", "s0")) // is there already
	if err := r.ready("acme", "more"); sandbox.CodeOf(err) != sandbox.CodeBudgetExceeded {
		t.Fatalf("got %v, want the quota to be used up", err)
	}
	out := r.Recreate(t.Context(), r.standing("acme")[:1])
	if len(out.Removed) != 1 {
		t.Fatalf("%+v", out)
	}
	must(t, r.ready("acme", "more"))
}

// TestRestartCountsWhatIsThere holds that after a restart as much is held as
// before.
func TestRestartCountsWhatIsThere(t *testing.T) {
	r := newRig(t, bounded)
	for n := range 5 {
		must(t, r.ready("acme", fmt.Sprint("s", n)))
	}
	before := r.Held("acme")
	r.start()
	if after := r.Held("acme"); after != before {
		t.Errorf("held is %+v after a restart, and was %+v", after, before)
	}
	if err := r.ready("acme", "more"); sandbox.CodeOf(err) != sandbox.CodeBudgetExceeded {
		t.Errorf("got %v, want the quota to be used up", err)
	}
	// A sandbox that another program removes is found by inspection.
	must(t, r.wall.Remove(t.Context(), r.standing("acme")[0].Name))
	must(t, r.Reconcile(t.Context(), r.Manager))
	must(t, r.ready("acme", "more"))
}

// failing is a provider that cannot make sandboxes for a while.
type failing struct {
	sandbox.Provider
	on atomic.Bool
}

func (f *failing) Create(ctx context.Context, s sandbox.Spec) (sandbox.Info, error) {
	if f.on.Load() {
		return sandbox.Info{}, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "create", Message: "it does not work today"}
	}
	return f.Provider.Create(ctx, s)
}

func TestSandboxThatCouldNotBeMadeHoldsNothing(t *testing.T) {
	r := newRig(t, bounded)
	wall := &failing{Provider: r.wall}
	r.wall = wall
	r.start()
	wall.on.Store(true)
	for n := range 10 {
		if err := r.ready("acme", fmt.Sprint("s", n)); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
			t.Fatalf("got %v, want the sandbox's error", err)
		}
	}
	wall.on.Store(false)
	if held := r.Held("acme"); held.Sandboxes != 0 || held.Memory != 0 {
		t.Errorf("%+v is held for what is not there", held)
	}
	must(t, r.ready("acme", "s0"))
}

// TestEveryCommandCounts runs commands without a server, as a background command
// or a call over another protocol would.
func TestEveryCommandCounts(t *testing.T) {
	r := newRig(t, `{"agents": {"defaults": {"sandbox": {"provider": "local"}}}, "tenants": {"defaults": {"commands": 2}}}`)
	run := func(ctx context.Context, started chan<- sandbox.Process, session string) error {
		_, err := r.Run(ctx, manager.Request{
			Who: config.Who{Tenant: "acme", Agent: "main", Session: session}, Command: sandbox.Command{Args: []string{"sleep", "3600"}},
			Started: func(p sandbox.Process) { started <- p },
		})
		return err
	}
	ctx, cancel := context.WithCancel(t.Context())
	started := make(chan sandbox.Process, 2)
	var wg sync.WaitGroup
	for n := range 2 {
		wg.Go(func() {
			if err := run(ctx, started, fmt.Sprint("s", n)); sandbox.CodeOf(err) != sandbox.CodeExecution {
				t.Errorf("got %v, want the end of the test", err)
			}
		})
	}
	for range 2 {
		select {
		case <-started:
		case <-time.After(time.Minute):
			t.Fatal("the commands do not begin")
		}
	}
	if err := run(t.Context(), started, "s0"); sandbox.CodeOf(err) != sandbox.CodeBudgetExceeded {
		t.Errorf("got %v for the third, want the quota to be used up", err)
	}
	cancel()
	wg.Wait()
	if held := r.Held("acme"); held.Commands != 0 {
		t.Errorf("%+v is held after the end", held)
	}
}
