package admission

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/registry"
	"github.com/bulkhead-dev/sandbox/server/auth"
	"github.com/bulkhead-dev/sandbox/tenant"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// local is a user of this machine.
var local = auth.Caller{Role: token.Admin, Local: true}

// limited returns rules by which every tenant has the limits.
func limited(limits tenant.Limits) func(string) config.TenantRules {
	return func(string) config.TenantRules { return config.TenantRules{Limits: limits, Weight: 1} }
}

// always returns turns that do not change.
func always(slots, waiting int, hold time.Duration) func() Turns {
	return func() Turns { return Turns{slots, waiting, hold} }
}

func admission(t testing.TB, o Options) *Admission {
	t.Helper()
	if o.Keeper == nil {
		o.Keeper = tenant.New(time.Now)
	}
	if o.Turns == nil {
		o.Turns = always(1000, 1000, 100*time.Millisecond)
	}
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// bearing returns a caller with a token, whose id and ancestors are ids.
func bearing(tenant string, quotas map[string]tenant.Limits, ids ...string) auth.Caller {
	var line []token.Token
	for _, id := range ids {
		t := token.Token{ID: id, Claims: token.Claims{Role: token.Tenant, Tenant: tenant}}
		if q, ok := quotas[id]; ok {
			t.Quota = &q
		}
		line = append(line, t)
	}
	t := line[0]
	t.Above = line[1:]
	return auth.Caller{Role: t.Role, Token: &t, Tenant: tenant}
}

// wantExceeded holds that err reports an exhausted quota.
func wantExceeded(t testing.TB, err error, kind tenant.Kind, account string) {
	t.Helper()
	var e *tenant.Exceeded
	if sandbox.CodeOf(err) != sandbox.CodeBudgetExceeded || !errors.As(err, &e) || e.Quota != kind.String() || e.Account != account {
		t.Errorf("got %v, want the quota of %s of %q to be exceeded", err, kind, account)
	}
}

func wantHeld(t testing.TB, a *Admission, tenant string, want tenant.Want) {
	t.Helper()
	if got := a.Held(tenant); got != want {
		t.Errorf("%s holds %+v, want %+v", tenant, got, want)
	}
}

// An inventory is a list of sandboxes.
type inventory struct {
	mu    sync.Mutex
	there map[string]manager.Footprint
	asked func() // while it looks; may be nil
	err   error

	looks    int                            // how often it was asked for all
	recorded func() (registry.Stamp, error) // RecordStamp
}

func (i *inventory) RecordStamp() (registry.Stamp, error) { return i.recorded() }

func (i *inventory) Footprints(_ context.Context, known func(string) bool) ([]manager.Footprint, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.looks++
	out := []manager.Footprint{}
	for name, f := range i.there {
		if known(name) {
			f = manager.Footprint{Name: name, Tenant: f.Tenant}
		}
		out = append(out, f)
	}
	if i.asked != nil {
		i.asked()
	}
	return out, i.err
}

func (i *inventory) put(f manager.Footprint) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.there == nil {
		i.there = map[string]manager.Footprint{}
	}
	i.there[f.Name] = f
}

func (i *inventory) take(name string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.there, name)
}

// plain returns the footprint of a sandbox of 1 GiB and one processor, without a
// workspace.
func plain(tenant string, n int) manager.Footprint {
	return manager.Footprint{Name: fmt.Sprintf("sbx-%s-%d", tenant, n), Kind: sandbox.KindSandbox, Tenant: tenant, Memory: 1 << 30, NanoCPUs: 1e9}
}

// mustHold holds f as a sandbox that was made.
func mustHold(t testing.TB, ctx context.Context, a *Admission, f manager.Footprint) {
	t.Helper()
	settle, err := a.Hold(ctx, f)
	if err != nil {
		t.Fatal(err)
	}
	settle(true)
}

func reconcile(t testing.TB, a *Admission, i *inventory) {
	t.Helper()
	if err := a.Reconcile(t.Context(), i); err != nil {
		t.Fatal(err)
	}
}
