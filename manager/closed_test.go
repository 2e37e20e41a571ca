//go:build linux

package manager_test

import (
	"context"
	"syscall"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestClosedFromOutside ends the proxy in the middle of everything: nothing
// passes from then on, and nothing of it is left.
func TestClosedFromOutside(t *testing.T) {
	t.Run("plane", func(t *testing.T) {
		onForts(t, func(f *fort) {
			before := f.load()
			p := f.poll()
			f.plane.Close()
			p.shut("000")
			f.left(before)
			p.end()
			f.refusesToRun(sandbox.CodeUnavailable)
		})
	})
	t.Run("way", func(t *testing.T) {
		onForts(t, func(f *fort) {
			before := f.load()
			p := f.poll()
			f.CloseWays()
			p.shut("000")
			f.left(before)
			f.again()
			p.next(3, "000") // the old credentials lead nowhere, at the old port
			p.end()
		})
	})
	t.Run("handle", func(t *testing.T) {
		onForts(t, func(f *fort) {
			before := f.load()
			p := f.poll()
			f.CloseHandles()
			f.over(p)
			f.left(before)
			f.again()
		})
	})
}

// over holds that the command has ended and nothing comes from it any more.
func (f *fort) over(p *poller) {
	f.t.Helper()
	p.ended()
	f.nothingUnderWay()
}

// TestClosedWithTheSandbox ends the sandbox in the middle of everything.
func TestClosedWithTheSandbox(t *testing.T) {
	ctx := context.Background()
	kill := func(f *fort) {
		f.lendTo(func(sb sandbox.Sandbox) { must(f.t, syscall.Kill(sb.Info().PID, syscall.SIGKILL)) })
	}
	for what, end := range map[string]func(*fort){
		"killed":    kill,
		"stopped":   func(f *fort) { must(f.t, f.rig.engine.Kill(ctx, f.name)) },
		"removed":   func(f *fort) { must(f.t, f.rig.engine.Remove(ctx, f.name)) },
		"restarted": func(f *fort) { kill(f); must(f.t, f.rig.engine.Start(ctx, f.name)) },
	} {
		t.Run(what, func(t *testing.T) {
			onForts(t, func(f *fort) {
				if f.rig == nil && what != "killed" {
					return // a local sandbox knows no other end
				}
				before := f.load()
				p := f.poll()
				end(f)
				f.over(p)
				if p.err == nil {
					f.t.Error("a command whose sandbox fell counts as ended by itself")
				}
				f.left(before)
				f.again()
			})
		})
	}
	t.Run("paused", func(t *testing.T) {
		for _, kind := range []string{"docker", "relay"} {
			t.Run(kind, func(t *testing.T) {
				if kind == "relay" {
					testenv.Exhaustive(t, "another way to the guest of a container")
				}
				f := newFort(t, kind)
				before := f.load()
				p := f.poll()
				must(t, f.rig.engine.Pause(ctx, f.name))
				f.still()
				must(t, f.rig.engine.Unpause(ctx, f.name))
				p.next(3, "200") // and its rules are what they were
				p.end()
				f.again()
				must(t, f.Close())
				f.left(before)
			})
		}
	})
}

// still holds that no more requests come than one that was under way.
func (f *fort) still() {
	f.t.Helper()
	before := f.net.Hits(testenv.Files)
	for range 100 {
		info, err := f.rig.engine.Inspect(context.Background(), f.name)
		if err != nil || info.Status != sandbox.StatusPaused {
			f.t.Fatalf("%+v, %v", info, err)
		}
	}
	if n := f.net.Hits(testenv.Files) - before; n > 1 {
		f.t.Errorf("%d requests came from a frozen sandbox", n)
	}
}
