package running_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/provider/fake"
	"github.com/bulkhead-dev/sandbox/tools/running"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// A rig is a [running.Supervisor] on a manager whose provider is in memory.
type rig struct {
	*running.Supervisor
	t      *testing.T
	engine *fake.Engine
	clock  *clock
}

const plain = `{"agents": {"defaults": {"sandbox": {"provider": "local"}}}}`

// nowhere has no images, which such providers do not need.
type nowhere struct{}

func (nowhere) Volumes(context.Context, string) ([]string, error) { return nil, nil }
func (nowhere) Current(context.Context, string, []string) (string, error) {
	return "", errors.New("no images")
}
func (nowhere) Ensure(context.Context, string, []string) (string, error) {
	return "", errors.New("no images")
}

// answering is a provider whose handles report whether they still answer, as
// those of real providers do: only such a handle is kept from line to line.
type answering struct{ *fake.Provider }

type answerer struct{ sandbox.Sandbox }

func (answerer) Ping(context.Context) error { return nil }

func (a answering) Open(ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
	box, err := a.Provider.Open(ctx, s)
	if err != nil {
		return nil, err
	}
	return answerer{box}, nil
}

func newRig(t *testing.T, settings string, change ...func(*running.Options)) *rig {
	t.Helper()
	state, err := statedir.Open(filepath.Join(t.TempDir(), "state"))
	must(t, err)
	parsed, err := config.Parse("test", []byte(settings))
	must(t, err)
	r := &rig{t: t, engine: fake.NewEngine(fake.Options{Name: "local"}), clock: &clock{}}
	set, err := provider.New(answering{r.engine.Provider()})
	must(t, err)
	log := logrus.New()
	log.SetOutput(io.Discard)
	m, err := manager.New(manager.Options{
		Settings: parsed, State: state, Providers: set, Images: nowhere{}, Log: log,
		Host: manager.Host{CPUs: 2, Memory: 8 << 30, Guest: func() (sandbox.GuestRef, error) {
			return sandbox.GuestRef{Dir: "/guest", Digest: strings.Repeat("0", 64)}, nil
		}},
	})
	must(t, err)
	t.Cleanup(func() { m.Close() })
	o := running.Options{Manager: running.Managed(m), Log: log, Now: r.clock.now}
	for _, c := range change {
		c(&o)
	}
	r.Supervisor = running.New(o)
	t.Cleanup(func() {
		ctx, done := context.WithTimeout(context.Background(), time.Minute)
		defer done()
		if err := r.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return r
}

// A clock can be set ahead.
type clock struct {
	mu    sync.Mutex
	ahead time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.ahead)
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func someone(session string) config.Who {
	return config.Who{Tenant: "acme", Agent: "main", Session: session}
}

func request(session string, args ...string) manager.Request {
	return manager.Request{Who: someone(session), Command: sandbox.Command{Args: args}}
}

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(done)
	return ctx
}

// start starts a command, which has to succeed.
func (r *rig) start(session string, args ...string) running.Status {
	r.t.Helper()
	s, err := r.Start(deadline(r.t), request(session, args...), running.StartOptions{})
	must(r.t, err)
	return s
}

// until polls from the beginning until ok says so, or the command is over.
func (r *rig) until(session, id string, ok func(running.Poll) bool) running.Poll {
	r.t.Helper()
	ctx := deadline(r.t)
	from, all := int64(0), running.Poll{}
	for {
		p, err := r.Poll(ctx, someone(session), id, running.PollOptions{From: from, Wait: 10 * time.Second})
		must(r.t, err)
		from = p.Next
		all.Status, all.Next, all.Dropped, all.Chunks = p.Status, p.Next, all.Dropped+p.Dropped, append(all.Chunks, p.Chunks...)
		if ok != nil && ok(all) || p.Status.State != running.StateRunning && !p.More {
			return all
		}
		if ctx.Err() != nil {
			r.t.Fatalf("nothing comes: %+v", all)
		}
	}
}

// line runs a line in a shell of the session.
func (r *rig) line(session, id, text string) (string, manager.Outcome, error) {
	r.t.Helper()
	var out bytes.Buffer
	o, err := r.Line(deadline(r.t), manager.Request{Who: someone(session)}, id, manager.Line{Text: text, Stdout: &out, Stderr: &out})
	return strings.TrimSpace(out.String()), o, err
}

// codeIs holds that err is of a code.
func codeIs(t *testing.T, err error, want sandbox.Code) {
	t.Helper()
	if got := sandbox.CodeOf(err); got != want {
		t.Errorf("%q, want %q: %v", got, want, err)
	}
}
