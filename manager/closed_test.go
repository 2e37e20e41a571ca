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
	onForts(t, func(f *fort) {
		before := f.load()
		f.part("handle", &before, func() {
			p := f.poll()
			f.CloseHandles()
			f.over(p)
			f.left(before)
			f.again()
		})
		f.part("way", &before, func() {
			p := f.poll()
			f.CloseEgress()
			p.shut("000")
			f.left(before)
			f.again()
			p.next(3, "000") // the old credentials lead nowhere, at the old port
			p.end()
		})
		f.part("plane", &before, func() {
			p := f.poll()
			f.plane.Close()
			p.shut("000")
			f.left(before)
			p.end()
			f.refusesToRun(sandbox.CodeUnavailable)
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
		f.withSandbox(func(sb sandbox.Sandbox) { must(f.t, syscall.Kill(sb.Info().PID, syscall.SIGKILL)) })
	}
	onForts(t, func(f *fort) {
		before := f.load()
		for _, way := range []struct {
			name string
			end  func()
		}{
			{"killed", func() { kill(f) }},
			{"stopped", func() { must(f.t, f.rig.engine.Kill(ctx, f.name)) }},
			{"restarted", func() { kill(f); must(f.t, f.rig.engine.Start(ctx, f.name)) }},
			{"removed", func() { must(f.t, f.rig.engine.Remove(ctx, f.name)) }},
		} {
			if f.rig == nil && way.name != "killed" {
				continue // a local sandbox knows no other end
			}
			f.part(way.name, &before, func() {
				p := f.poll()
				way.end()
				f.over(p)
				if p.err == nil {
					f.t.Error("a command whose sandbox fell counts as ended by itself")
				}
				f.left(before)
				f.again()
			})
		}
		if f.rig == nil {
			return
		}
		f.part("paused", &before, func() {
			p := f.poll()
			must(f.t, f.rig.engine.Pause(ctx, f.name))
			f.still()
			must(f.t, f.rig.engine.Unpause(ctx, f.name))
			p.next(3, "200") // and its rules are what they were
			p.end()
			f.again()
		})
		must(f.t, f.Close())
		f.left(before)
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
