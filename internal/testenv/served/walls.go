package daemontest

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/docker/docker/client"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/container"
	"github.com/bulkhead-dev/sandbox/hardening"
	"github.com/bulkhead-dev/sandbox/hostpath"
	"github.com/bulkhead-dev/sandbox/images"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/provider/docker"
	"github.com/bulkhead-dev/sandbox/provider/fake"
)

// wall makes the provider that is asked for.
func (r *Rig) wall(o Options, mo *manager.Options) {
	r.T.Helper()
	switch o.Wall {
	case "docker":
		r.docker(mo)
	default:
		r.Engine = fake.NewEngine(fake.Options{Name: "local", Programs: o.Programs})
		set, err := provider.New(answering{r.Engine.Provider()})
		r.must(err)
		mo.Providers, mo.Images = set, nowhere{}
		mo.Host = manager.Host{CPUs: 2, Memory: 8 << 30, Guest: func() (sandbox.GuestRef, error) {
			return sandbox.GuestRef{Dir: "/guest", Digest: strings.Repeat("0", 64)}, nil
		}}
	}
}

// nowhere has no images, which such walls do not need.
type nowhere struct{}

func (nowhere) Current(context.Context, string, []string) (string, error) {
	return "", errors.New("no images")
}

func (nowhere) Ensure(context.Context, string, []string) (string, error) {
	return "", errors.New("no images")
}

// answering is a provider whose handles tell whether they still answer, as
// those of real walls do: only such a handle is kept from line to line.
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

// docker is the real engine. What is made carries the label of the rig's state
// folder and is removed with the test.
func (r *Rig) docker(mo *manager.Options) {
	testenv.Require(r.T, "docker")
	testenv.Require(r.T, "root")
	api, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	r.must(err)
	engine := container.New(api, container.Deadlines{Query: 5 * time.Second})
	r.T.Cleanup(func() { r.clean(engine); engine.Close(); api.Close() })
	sensitive := []string{r.State.Path(), "/run/docker.sock"}
	p := docker.New(engine, docker.Options{Sockets: r.State, Instance: r.State.Instance(), World: func() hardening.World {
		return hardening.World{Canonical: hostpath.Canonical, Sensitive: sensitive, Workspaces: []string{r.State.Workspaces()}}
	}})
	set, err := provider.New(p)
	r.must(err)
	mo.Providers = set
	mo.Images = images.Source{Store: images.New(api, images.Config{LockDir: filepath.Join(r.State.Locks(), "images")})}
	mo.Host = manager.Host{CPUs: runtime.NumCPU(), Memory: 8 << 30, Sensitive: sensitive,
		Guest: sync.OnceValues(func() (sandbox.GuestRef, error) { return r.State.InstallGuest(testenv.Guest(r.T)) })}
}

func (r *Rig) clean(engine *container.Engine) {
	ctx, done := context.WithTimeout(context.Background(), 2*time.Minute)
	defer done()
	infos, err := engine.List(ctx, sandbox.Filter{Instance: r.State.Instance()})
	if err != nil {
		r.T.Error(err)
	}
	for _, info := range infos {
		if err := engine.Remove(ctx, info.ID); err != nil {
			r.T.Error(err)
		}
	}
}
