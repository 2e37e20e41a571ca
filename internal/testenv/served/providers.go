package served

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/container"
	"github.com/bulkhead-dev/sandbox/images"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/provider/fake"
)

// sandbox makes the provider that is asked for, with a state folder.
func (r *Rig) wall(o Options, mo *manager.Options) {
	r.T.Helper()
	switch o.Wall {
	case "docker":
		r.docker(mo)
	case "local":
		w := dockertest.NewLocal(r.T)
		set, err := provider.New(w.P)
		r.must(err)
		r.State, mo.Providers, mo.Images = w.State, set, nowhere{}
		mo.Host = manager.Host{CPUs: runtime.NumCPU(), Memory: 8 << 30, Sensitive: []string{w.State.Path()},
			Guest: func() (sandbox.GuestRef, error) { return w.Guest, nil }}
	default:
		st, err := statedir.Open(filepath.Join(r.T.TempDir(), "state"))
		r.must(err)
		r.Engine = fake.NewEngine(fake.Options{Name: "local", Programs: o.Programs, Deadline: testenv.Patience})
		set, err := provider.New(answering{r.Engine.Provider()})
		r.must(err)
		r.State, mo.Providers, mo.Images = st, set, nowhere{}
		mo.Host = manager.Host{CPUs: 2, Memory: 8 << 30, Guest: func() (sandbox.GuestRef, error) {
			return sandbox.GuestRef{Dir: "/guest", Digest: strings.Repeat("0", 64)}, nil
		}}
	}
	mo.State = r.State
}

// docker is the real engine. What is made carries the label of the rig's state
// folder and is removed with the test.
func (r *Rig) docker(mo *manager.Options) {
	w := dockertest.New(r.T)
	set, err := provider.New(w.P)
	r.must(err)
	api, err := container.Dial()
	r.must(err)
	r.T.Cleanup(func() { api.Close() })
	r.State, mo.Providers = w.State, set
	mo.Images = images.Source{Store: images.New(api, images.Config{LockDir: filepath.Join(w.State.Locks(), "images")})}
	mo.Host = manager.Host{CPUs: runtime.NumCPU(), Memory: 8 << 30, Sensitive: []string{w.State.Path(), "/run/docker.sock"},
		Guest: func() (sandbox.GuestRef, error) { return w.Guest, nil }}
}

// nowhere has no images, which such providers do not need.
type nowhere struct{}

func (nowhere) Volumes(context.Context, string) ([]string, error) { return nil, nil }
func (nowhere) Current(context.Context, string, []string) (string, error) {
	return "", errors.New("no images")
}

func (nowhere) Ensure(context.Context, string, []string) (string, error) {
	return "", errors.New("no images")
}

// answering is a provider whose handles tell whether they still answer, as
// those of real sandboxes do: only such a handle is kept from line to line.
type answering struct{ *fake.Provider }

type answerer struct{ sandbox.Sandbox }

func (answerer) Ping(context.Context) error { return nil }

// Files is not hidden by the handle around it.
func (a answerer) Files(ctx context.Context) (sandbox.Files, error) {
	return a.Sandbox.(sandbox.FileServer).Files(ctx)
}

func (a answering) Open(ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
	box, err := a.Provider.Open(ctx, s)
	if err != nil {
		return nil, err
	}
	return answerer{box}, nil
}

// waitAtMost is how long a test waits for what has to come.
const waitAtMost = 2 * time.Minute
