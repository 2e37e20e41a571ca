//go:build linux

package server

import (
	"sync"
	"time"
)

const (
	// startersPerProcessor is how many commands of each processor start at
	// once. One runs, and one is there when that waits or ends.
	startersPerProcessor = 2
	// youth is how long a command counts as starting that does not keep a
	// processor busy, and how often that is looked at.
	youth = time.Millisecond
	// maxYouth is how long any command counts as starting.
	maxYouth = 10 * time.Millisecond
)

// A gate lets commands start in the order in which they came, few at a time.
// Many short commands at once are then served one after the other, and each
// takes about as long as the next one; if all ran at once they would push
// each other off the processors and out of their caches, and some would take
// many times as long as others.
//
// A command counts as starting until it ends, and no longer than [maxYouth]
// from its turn; when its program waits for something, [youth] is enough. So
// long commands delay no others, and each one gets its turn whatever those
// before it do. Clients take turns, so that one that asks for very much waits
// for itself alone.
//
// A gate costs nothing but a lock while fewer commands start than may. Its
// methods are safe for concurrent use.
type gate struct {
	width           int
	youth, maxYouth time.Duration

	mu      sync.Mutex
	young   []*pass  // that start
	queues  []*queue // in which commands wait, the next one first
	look    *time.Timer
	looking bool // look runs, as it does whenever commands wait
	closed  bool
}

// A queue is where the commands of one client wait. Its zero value is empty.
type queue struct{ waiting []*pass }

// A pass is a command at the gate. The gate guards what is not said to be
// anybody's.
type pass struct {
	queue *queue
	start func()      // is called when it is its turn, unless that is at once
	busy  func() bool // reports whether the program keeps a processor busy

	state passState
	since time.Time // of its turn
}

// A passState is how far a command has come.
type passState uint8

const (
	outside passState = iota // has never been at the gate
	waiting
	starting
	passed // runs, has ended, or never will start
)

func newGate(processors int) *gate {
	g := &gate{width: startersPerProcessor * max(processors, 1), youth: youth, maxYouth: maxYouth}
	g.look = time.AfterFunc(time.Hour, g.mature)
	g.look.Stop()
	return g
}

// enter reports whether p may start at once. If not, its start is called when
// it is its turn, on the goroutine that makes way. After enter there must be a
// leave.
func (g *gate) enter(p *pass) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if len(g.young) >= g.width && len(g.queues) == 0 {
		g.dismiss(now) // look has not run, because no command waited
	}
	if len(g.young) < g.width && len(g.queues) == 0 && !g.closed {
		g.begin(p, now)
		return true
	}
	p.state = waiting
	if len(p.queue.waiting) == 0 {
		g.queues = append(g.queues, p.queue)
	}
	p.queue.waiting = append(p.queue.waiting, p)
	if !g.looking && !g.closed {
		g.looking = true
		g.look.Reset(g.youth)
	}
	return false
}

// crowded reports whether a command waits.
func (g *gate) crowded() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.queues) > 0
}

// leave tells that the command of p has ended or could not be started.
func (g *gate) leave(p *pass) {
	g.mu.Lock()
	if p.state == starting {
		p.state = passed
		for i, y := range g.young {
			if y == p {
				g.young = append(g.young[:i], g.young[i+1:]...)
				break
			}
		}
	}
	next := g.next(nil)
	g.mu.Unlock()
	start(next)
}

// withdraw reports whether p still waited. It will not start then.
func (g *gate) withdraw(p *pass) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p.state != waiting {
		return false
	}
	p.state = passed // and is dropped when its turn comes
	return true
}

// close lets no more commands start.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	g.look.Stop()
}

// mature makes room for those who wait. It is called from time to time as
// long as there are some.
func (g *gate) mature() {
	g.mu.Lock()
	g.dismiss(time.Now())
	next := g.next(nil)
	if g.looking = len(g.queues) > 0 && !g.closed; g.looking {
		g.look.Reset(g.youth)
	}
	g.mu.Unlock()
	start(next)
}

// dismiss removes the commands that have been starting for long enough.
// Precondition: mu is held.
func (g *gate) dismiss(now time.Time) {
	kept := g.young[:0]
	for _, p := range g.young {
		if age := now.Sub(p.since); age < g.youth || age < g.maxYouth && p.busy() {
			kept = append(kept, p)
			continue
		}
		p.state = passed
	}
	clear(g.young[len(kept):])
	g.young = kept
}

// begin counts p among those that start. Precondition: mu is held.
func (g *gate) begin(p *pass, now time.Time) {
	p.state, p.since = starting, now
	g.young = append(g.young, p)
}

// next adds to list whose turn it is. Precondition: mu is held.
func (g *gate) next(list []*pass) []*pass {
	if len(g.queues) == 0 || g.closed {
		return list
	}
	now := time.Now()
	for len(g.young) < g.width && len(g.queues) > 0 {
		q := g.queues[0]
		g.queues = g.queues[1:]
		p := q.waiting[0]
		q.waiting[0], q.waiting = nil, q.waiting[1:]
		if len(q.waiting) > 0 {
			g.queues = append(g.queues, q)
		}
		if p.state == waiting {
			g.begin(p, now)
			list = append(list, p)
		}
	}
	return list
}

// start starts those whose turn it is.
func start(list []*pass) {
	for _, p := range list {
		p.start()
	}
}
