//go:build linux

package server

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// A gateRig is a gate and the commands that have started through it, in order.
type gateRig struct {
	*gate
	started []string
}

// newGateRig returns a gate for two at once at which commands count as starting
// for ever.
func newGateRig() *gateRig {
	r := &gateRig{gate: newGate(1)}
	r.youth, r.maxYouth = time.Hour, time.Hour
	return r
}

// ask has a command enter.
func (r *gateRig) ask(name string, of *queue) *pass {
	p := &pass{queue: of, busy: func() bool { return true }}
	p.start = func() { r.started = append(r.started, name) }
	if r.enter(p) {
		p.start()
	}
	return p
}

func (r *gateRig) want(t *testing.T, names ...string) {
	t.Helper()
	if !slices.Equal(r.started, names) {
		t.Errorf("started: %v, want %v", r.started, names)
	}
}

func TestGateKeepsTheOrder(t *testing.T) {
	r, q := newGateRig(), &queue{}
	a, b := r.ask("a", q), r.ask("b", q)
	c, d := r.ask("c", q), r.ask("d", q)
	r.ask("e", q)
	r.want(t, "a", "b")
	r.leave(b)
	r.want(t, "a", "b", "c")
	r.leave(b) // twice makes no room
	r.want(t, "a", "b", "c")
	r.leave(a)
	r.want(t, "a", "b", "c", "d")
	r.ask("f", q) // behind e
	r.leave(c)
	r.leave(d)
	r.want(t, "a", "b", "c", "d", "e", "f")
	if r.crowded() {
		t.Error("nobody waits")
	}
}

func TestGateLetsClientsTakeTurns(t *testing.T) {
	r, greedy, modest := newGateRig(), &queue{}, &queue{}
	ps := []*pass{r.ask("a1", greedy), r.ask("a2", greedy), r.ask("a3", greedy), r.ask("a4", greedy), r.ask("a5", greedy)}
	r.ask("b1", modest)
	for _, p := range ps[:4] {
		r.leave(p)
	}
	r.want(t, "a1", "a2", "a3", "b1", "a4", "a5")
}

func TestGateForgetsWhoWithdraws(t *testing.T) {
	r, q := newGateRig(), &queue{}
	a, b := r.ask("a", q), r.ask("b", q)
	c, d := r.ask("c", q), r.ask("d", q)
	if !r.withdraw(c) || r.withdraw(c) {
		t.Error("c waited, and can withdraw once")
	}
	if r.withdraw(a) {
		t.Error("a has started and withdraws")
	}
	if r.withdraw(&pass{}) {
		t.Error("withdrawn without having been there")
	}
	r.leave(c) // has no place to give
	r.want(t, "a", "b")
	r.leave(a)
	r.want(t, "a", "b", "d")
	r.leave(b)
	r.leave(d)
	r.ask("e", q)
	r.want(t, "a", "b", "d", "e")
}

func TestGateClosesForGood(t *testing.T) {
	r, q := newGateRig(), &queue{}
	a := r.ask("a", q)
	r.ask("b", q)
	r.ask("c", q)
	r.close()
	r.leave(a)
	r.ask("d", q)
	r.mature()
	r.want(t, "a", "b")
}

// TestGateIsNotHeldUp checks that a waiting command starts though none before
// it ends: soon when those wait for something, later when they work.
func TestGateIsNotHeldUp(t *testing.T) {
	for name, busy := range map[string]bool{"idle": false, "busy": true} {
		t.Run(name, func(t *testing.T) {
			g, q := newGate(1), &queue{}
			const commands = 20
			turn := make(chan time.Time, commands)
			begun := time.Now()
			for range commands {
				p := &pass{queue: q, start: func() { turn <- time.Now() }, busy: func() bool { return busy }}
				if g.enter(p) {
					p.start()
				}
			}
			var last time.Time
			for i := range commands {
				select {
				case last = <-turn:
				case <-time.After(30 * time.Second):
					t.Fatalf("%d of %d have had their turn", i, commands)
				}
			}
			if least := time.Duration(commands/g.width-1) * maxYouth; busy && last.Sub(begun) < least {
				t.Errorf("commands that work have held up the others for %v, less than %v", last.Sub(begun), least)
			}
		})
	}
}

// TestGateLooksAtOnce checks that a command does not wait at all for others
// that started long ago.
func TestGateLooksAtOnce(t *testing.T) {
	r, q := newGateRig(), &queue{}
	a := r.ask("a", q)
	b := r.ask("b", q)
	r.youth, r.maxYouth = time.Nanosecond, time.Minute
	b.busy = func() bool { return false }
	a.since, b.since = time.Now().Add(-time.Second), time.Now().Add(-time.Second)
	r.ask("c", q)
	r.want(t, "a", "b", "c")
}

// TestGateManyAtOnce has many clients come, go and withdraw at once: each
// command starts exactly once or withdraws, and never too many are starting.
func TestGateManyAtOnce(t *testing.T) {
	g := newGate(1)
	g.youth, g.maxYouth = time.Hour, time.Hour
	var starting, started, withdrawn atomic.Int64
	var all sync.WaitGroup
	const clients, each = 8, 500
	for c := range clients {
		q := &queue{}
		for i := range each {
			all.Add(1)
			p := &pass{queue: q, busy: func() bool { return true }}
			p.start = func() {
				if n := starting.Add(1); n > int64(g.width) {
					t.Errorf("%d start at once", n)
				}
				started.Add(1)
				go func() {
					defer all.Done()
					starting.Add(-1)
					g.leave(p)
				}()
			}
			go func() {
				if g.enter(p) {
					p.start()
				}
				if (i+c)%3 == 0 && g.withdraw(p) {
					withdrawn.Add(1)
					all.Done()
				}
			}()
		}
	}
	all.Wait()
	if n := started.Load() + withdrawn.Load(); n != clients*each {
		t.Errorf("%d started and %d withdrew, of %d", started.Load(), withdrawn.Load(), clients*each)
	}
	if len(g.young) > 0 {
		t.Errorf("%d are starting for ever", len(g.young))
	}
}

// TestKillOfOneThatWaits holds that a command which is killed, or whose
// client goes, before its turn is answered at once and never starts.
func TestKillOfOneThatWaits(t *testing.T) {
	for name, end := range map[string]func(m *command){
		"kill":            func(m *command) { m.kill(0) },
		"kill politely":   func(m *command) { m.kill(time.Hour) },
		"the client goes": func(m *command) { m.disconnect() },
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := socketPair(t)
			c := testConn()
			c.w = wire.NewWriter(ours)
			c.srv.gate, c.srv.keepsTrees = newGate(1), true
			c.srv.gate.youth, c.srv.gate.maxYouth = time.Hour, time.Hour
			var before []*pass
			for range c.srv.gate.width {
				p := &pass{queue: &queue{}, busy: func() bool { return true }}
				c.srv.gate.enter(p)
				before = append(before, p)
			}
			// A start of it would crash: there is no shim.
			if err := c.start(wire.Frame{Stream: 7, Payload: wire.Start{Args: []string{"true"}}.Encode()}); err != nil {
				t.Fatal(err)
			}
			m := c.streams[7].(*command)
			end(m)
			f, err := wire.NewReader(theirs, 0).Next()
			if err != nil || f.Type != wire.TypeFailed || f.Stream != 7 {
				t.Fatalf("answer: %+v, %v", f, err)
			}
			if got, err := wire.DecodeFailed(f.Payload); err != nil || got.Kind != wire.KindCalledOff {
				t.Errorf("failure: %+v, %v", got, err)
			}
			for _, p := range before {
				c.srv.gate.leave(p)
			}
			c.wg.Wait()
			if n := c.srv.running.Load(); n != 0 || len(c.streams) > 0 {
				t.Errorf("%d commands are left, %d streams", n, len(c.streams))
			}
		})
	}
}

// TestResizeOfOneThatFailed sends events to a command that has no streams.
func TestResizeOfOneThatFailed(t *testing.T) {
	var none *streams
	if err := none.resize(1, 1); err != nil {
		t.Error(err)
	}
}
