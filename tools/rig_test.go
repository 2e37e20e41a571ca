package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"strings"
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

// A rig is the tools of a session on some provider.
type rig struct {
	*Kit
	t          testing.TB
	all        *Tools
	supervisor *running.Supervisor
	manager    *manager.Manager
	state      *statedir.Dir
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

// answering has sandboxes that report whether they run, as providers with a
// guest do: the manager keeps their handles from call to call, and so their
// shells.
type answering struct{ sandbox.Provider }

func (p answering) Open(ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
	sb, err := p.Provider.Open(ctx, s)
	if err != nil {
		return nil, err
	}
	return standing{sb}, nil
}

type standing struct{ sandbox.Sandbox }

func (standing) Ping(context.Context) error { return nil }

func (s standing) Files(ctx context.Context) (sandbox.Files, error) {
	return s.Sandbox.(sandbox.FileServer).Files(ctx)
}

// newRig has a provider in memory.
func newRig(t testing.TB, settings string, change ...func(*Options)) *rig {
	t.Helper()
	return raised(t, rigOptions(t, settings), change...)
}

func rigOptions(t testing.TB, settings string) manager.Options {
	t.Helper()
	state, err := statedir.Open(filepath.Join(t.TempDir(), "state"))
	must(t, err)
	parsed, err := config.Parse("test", []byte(settings))
	must(t, err)
	set, err := provider.New(answering{fake.New(fake.Options{Name: "local"})})
	must(t, err)
	return manager.Options{
		Settings: parsed, State: state, Providers: set, Images: nowhere{},
		Host: manager.Host{CPUs: 2, Memory: 8 << 30, Guest: func() (sandbox.GuestRef, error) {
			return sandbox.GuestRef{Dir: "/guest", Digest: strings.Repeat("0", 64)}, nil
		}},
	}
}

// raised is a rig on a manager of these options.
func raised(t testing.TB, o manager.Options, change ...func(*Options)) *rig {
	t.Helper()
	log := logrus.New()
	log.SetOutput(io.Discard)
	o.Log = log
	r := &rig{t: t, state: o.State}
	var err error
	r.manager, err = manager.New(o)
	must(t, err)
	t.Cleanup(func() { r.manager.Close() })
	r.supervisor = running.New(running.Options{Manager: running.Managed(r.manager)})
	to := Options{Manager: r.manager, Running: r.supervisor, Log: log}
	for _, c := range change {
		c(&to)
	}
	r.all = New(to)
	t.Cleanup(func() {
		ctx, done := context.WithTimeout(context.Background(), time.Minute)
		defer done()
		if err := errors.Join(r.all.Close(ctx), r.supervisor.Close(ctx)); err != nil {
			t.Error(err)
		}
	})
	r.Kit = r.kit(Session{Who: someone("a")})
	return r
}

func someone(session string) config.Who { return config.Who{Agent: "main", Session: session} }

func (r *rig) kit(s Session) *Kit {
	r.t.Helper()
	k, err := r.all.For(r.t.Context(), s)
	must(r.t, err)
	return k
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// deadline is a context that a test cannot hang on.
func deadline(t testing.TB) context.Context {
	ctx, done := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(done)
	return ctx
}

// in is an input.
func in(t testing.TB, v map[string]any) json.RawMessage {
	t.Helper()
	b, err := json.Marshal(v)
	must(t, err)
	return b
}

// obj are the fields of an input.
type obj = map[string]any

// call calls a tool that has to answer.
func (r *rig) call(tool string, v obj) Answer {
	r.t.Helper()
	a, err := r.Call(deadline(r.t), tool, in(r.t, v), nil)
	if err != nil {
		r.t.Fatalf("%s %v: %v", tool, v, err)
	}
	return a
}

// refused calls a tool that has to refuse.
func (r *rig) refused(code sandbox.Code, tool string, v obj) *sandbox.Error {
	r.t.Helper()
	a, err := r.Call(deadline(r.t), tool, in(r.t, v), nil)
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Code != code {
		r.t.Fatalf("%s %v: got %v, %v, want %s", tool, v, a.Text, err, code)
	}
	return e
}

// data is the structured answer.
func data[T any](t testing.TB, a Answer) T {
	t.Helper()
	d, ok := a.Data.(T)
	if !ok {
		t.Fatalf("the answer is a %T", a.Data)
	}
	return d
}

// write makes a file.
func (r *rig) write(path, content string) {
	r.t.Helper()
	r.call("write", obj{"path": path, "content": content})
}

// content is that of a file, by a command.
func (r *rig) content(path string) string {
	r.t.Helper()
	var out string
	must(r.t, r.manager.Files(deadline(r.t), manager.Request{Who: someone("a")}, func(s manager.Share) error {
		f, err := s.Read(deadline(r.t), path, 0, -1)
		if err != nil {
			return err
		}
		defer f.Close()
		b, err := io.ReadAll(f)
		out = string(b)
		return err
	}))
	return out
}

// sandboxed are settings with a part of those of sandboxes.
func sandboxed(provider, more string) string {
	return `{"agents": {"defaults": {"sandbox": {"provider": "` + provider + `"` + more + `}}}}`
}

// bytes makes a file of any bytes.
func (r *rig) bytes(path string, content []byte) {
	r.t.Helper()
	must(r.t, r.manager.Files(deadline(r.t), manager.Request{Who: someone("a")}, func(s manager.Share) error {
		return s.Write(deadline(r.t), path, bytes.NewReader(content), sandbox.WriteOptions{})
	}))
}
