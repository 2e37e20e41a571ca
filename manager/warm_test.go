package manager_test

import (
	"context"
	"io"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/images"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/provider/docker"
)

// countedEngine counts what is asked of the engine about containers.
type countedEngine struct {
	docker.Engine
	n *atomic.Int64
}

func (c countedEngine) Ping(ctx context.Context) error {
	c.n.Add(1)
	return c.Engine.Ping(ctx)
}

func (c countedEngine) Inspect(ctx context.Context, name string) (sandbox.Info, error) {
	c.n.Add(1)
	return c.Engine.Inspect(ctx, name)
}

func (c countedEngine) List(ctx context.Context, f sandbox.Filter) ([]sandbox.Info, error) {
	c.n.Add(1)
	return c.Engine.List(ctx, f)
}

// countedImages counts what is asked of the engine about images.
type countedImages struct {
	*client.Client
	n *atomic.Int64
}

func (c countedImages) ImageInspect(ctx context.Context, ref string, opts ...client.ImageInspectOption) (image.InspectResponse, error) {
	c.n.Add(1)
	return c.Client.ImageInspect(ctx, ref, opts...)
}

// watched has the managers of r find images as a program does that stays.
func (r *rig) watched(n *atomic.Int64) {
	r.wrap = func(e docker.Engine) docker.Engine { return countedEngine{e, n} }
	r.change = func(o *manager.Options) {
		api := countedImages{r.dial(), n}
		w := images.Source{Store: images.New(api, images.Config{LockDir: filepath.Join(r.state.Locks(), "images")})}.Watched()
		r.t.Cleanup(func() { w.Close() })
		o.Images = w
	}
}

// warmCalls are requests for a sandbox that is there, by name.
func warmCalls(m *manager.Manager) map[string]func(context.Context) error {
	req := manager.Request{Who: who("warm"), MustExist: true}
	files := func(do func(context.Context, manager.Share) error) func(context.Context) error {
		return func(ctx context.Context) error {
			return m.Files(ctx, req, func(s manager.Share) error { return do(ctx, s) })
		}
	}
	return map[string]func(context.Context) error{
		"exec": func(ctx context.Context) error {
			r := req
			r.Command.Args = []string{"/bin/true"}
			_, err := m.Capture(ctx, r)
			return err
		},
		"stat": files(func(ctx context.Context, s manager.Share) error {
			_, err := s.Stat(ctx, "/workspace/f")
			return err
		}),
		"read": files(func(ctx context.Context, s manager.Share) error {
			f, err := s.Read(ctx, "/workspace/f", 0, -1)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = io.Copy(io.Discard, f)
			return err
		}),
		"find": func(ctx context.Context) error {
			name, err := m.Name(who("warm"), nil)
			if err != nil {
				return err
			}
			row, err := m.Find(ctx, "", name, "")
			if err == nil && row.Status != sandbox.StatusRunning {
				return &sandbox.Error{Code: sandbox.CodeNotFound, Message: "the sandbox is " + string(row.Status)}
			}
			return err
		},
		"name": func(context.Context) error {
			_, err := m.Name(who("warm"), nil)
			return err
		},
	}
}

// TestWarmAsksNoEngine holds that requests for a sandbox which is there ask the
// engine nothing, and that they find out all the same when it is gone.
func TestWarmAsksNoEngine(t *testing.T) {
	r := newRig(t)
	var n atomic.Int64
	r.watched(&n)
	m := r.manager("")
	_, made := mustRun(t, m, "warm", "head -c 4096 /dev/zero > /workspace/f")
	calls := warmCalls(m)
	warm := func() {
		for what, call := range calls {
			if err := call(t.Context()); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
	}
	for range 3 {
		warm()
	}
	// The stream is opened beside the calls.
	asked := int64(-1)
	for end := time.Now().Add(20 * time.Second); asked != 0 && time.Now().Before(end); {
		before := n.Load()
		warm()
		asked = n.Load() - before
	}
	if asked != 0 {
		t.Errorf("warm requests ask the engine %d times", asked)
	}

	must(t, r.engine.Remove(t.Context(), made.Name))
	for what, call := range calls {
		if err := call(t.Context()); what != "name" && !sandbox.IsNotFound(err) {
			t.Errorf("%s of a sandbox that was removed beside: %v", what, err)
		}
	}
}

// BenchmarkWarm measures requests for a sandbox that is there: as they are, and
// with the engine asked for the image each time.
func BenchmarkWarm(b *testing.B) {
	for _, source := range []string{"watched", "asked"} {
		r := newRig(b)
		if source == "watched" {
			r.watched(&atomic.Int64{})
		}
		m := r.manager("")
		mustRun(b, m, "warm", "head -c 4096 /dev/zero > /workspace/f")
		for what, call := range warmCalls(m) {
			b.Run(what+"/"+source, func(b *testing.B) {
				for b.Loop() {
					if err := call(b.Context()); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
