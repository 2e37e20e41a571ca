package docker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
	"github.com/bulkhead-dev/sandbox/provider/docker"
)

// patience is far more than anything here takes, on any machine.
const patience = time.Minute

// A lateEngine says of a container what was so, as often as left says.
type lateEngine struct {
	docker.Engine
	before sandbox.Info
	left   *atomic.Int32
}

func (e lateEngine) Inspect(ctx context.Context, name string) (sandbox.Info, error) {
	if e.left.Add(-1) >= 0 {
		return e.before, nil
	}
	return e.Engine.Inspect(ctx, name)
}

// TestFallNoticedLate opens a sandbox that has fallen while the engine, which
// is busy, still calls it running.
func TestFallNoticedLate(t *testing.T) {
	t.Parallel()
	for what, fall := range map[string]func(ctx context.Context, w *dockertest.Rig, name string) error{
		"killed": func(ctx context.Context, w *dockertest.Rig, name string) error { return w.Engine.Kill(ctx, name) },
		"restarted": func(ctx context.Context, w *dockertest.Rig, name string) error {
			if err := w.Engine.Kill(ctx, name); err != nil {
				return err
			}
			soon(w.T, patience, "the engine notices", func() bool {
				info, err := w.Engine.Inspect(ctx, name)
				return err == nil && info.Status == sandbox.StatusStopped
			})
			return w.Engine.Start(ctx, name)
		},
	} {
		t.Run(what, func(t *testing.T) {
			overSocket(t, "late"+what, overRelayToo(what, "killed"), func(t *testing.T, w *dockertest.Rig, s sandbox.Spec) {
				ctx := context.Background()
				before, err := w.Engine.Inspect(ctx, s.Name)
				must(t, err)
				must(t, fall(ctx, w, s.Name))
				late := lateEngine{w.Engine, before, new(atomic.Int32)}
				late.left.Store(6)
				sb, err := docker.New(late, docker.Options{Sockets: w.State, World: w.World}).Open(ctx, s)
				must(t, err)
				defer sb.Close()
				if out, code := sh(t, sb, "echo back"); out != "back" || code != 0 {
					t.Errorf("%q, %d", out, code)
				}
			})
		})
	}
}

// TestFallNoticedVeryLate opens a sandbox whose guest has ended while the engine
// goes on calling it running for longer than one that is only slow to answer is
// given.
func TestFallNoticedVeryLate(t *testing.T) {
	t.Parallel()
	w := dockertest.New(t)
	sb, s := w.Open("verylate")
	must(t, sb.Close())
	ctx := context.Background()
	before, err := w.Engine.Inspect(ctx, s.Name)
	must(t, err)
	must(t, w.Engine.Kill(ctx, s.Name))
	late := lateEngine{w.Engine, before, new(atomic.Int32)}
	late.left.Store(80) // about ten to a second
	again, err := docker.New(late, docker.Options{Sockets: w.State, World: w.World, Ready: patience}).Open(ctx, s)
	must(t, err)
	defer again.Close()
	if out, code := sh(t, again, "echo back"); out != "back" || code != 0 {
		t.Errorf("%q, %d", out, code)
	}
}

// TestFallNoticedNever holds that an engine that keeps to it is an error in
// bounded time.
func TestFallNoticedNever(t *testing.T) {
	t.Parallel()
	w := dockertest.New(t)
	sb, s := w.Open("never")
	must(t, sb.Close())
	ctx, done := context.WithTimeout(context.Background(), patience)
	defer done()
	before, err := w.Engine.Inspect(ctx, s.Name)
	must(t, err)
	must(t, w.Engine.Kill(ctx, s.Name))
	late := lateEngine{w.Engine, before, new(atomic.Int32)}
	late.left.Store(1 << 30)
	_, err = docker.New(late, docker.Options{Sockets: w.State, World: w.World, Ready: 6 * time.Second}).Open(ctx, s)
	if sandbox.CodeOf(err) != sandbox.CodeUnavailable || ctx.Err() != nil {
		t.Errorf("got %v, %v", err, ctx.Err())
	}
}
