//go:build linux

package server

import (
	"sync"
	"time"
)

const (
	// maxIdle shims are kept for the next commands while there is work.
	maxIdle = 64
	// quiet is how long no command, and no line of a shell, may have ended
	// before the pool shrinks to one shim.
	quiet = 2 * time.Second
)

// A pool keeps shims for the next commands: one at rest, and after many
// commands at once as many as they were, for a while. Its methods are safe
// for concurrent use.
type pool struct {
	start func() (*shimProc, error)
	rest  func() // called when the pool has shrunk

	opened chan struct{} // closed by open: nothing is taken before

	mu      sync.Mutex
	idle    []*shimProc
	filling bool
	closed  bool
	trim    *time.Timer
	armed   bool // trim runs
	busy    bool // a shim came back, or other work ended, since it was armed
}

func newPool(start func() (*shimProc, error), rest func()) *pool {
	p := &pool{start: start, rest: rest, opened: make(chan struct{})}
	p.trim = time.AfterFunc(time.Hour, p.shrink)
	p.trim.Stop()
	return p
}

// open lets shims be taken. It is called once.
func (p *pool) open() { close(p.opened) }

// ready returns a shim if there is one, or nil.
func (p *pool) ready() *shimProc {
	select {
	case <-p.opened:
	default:
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.idle)
	if n == 0 {
		return nil
	}
	s := p.idle[n-1]
	p.idle = p.idle[:n-1]
	return s
}

// take returns a shim, one that is ready if there is one. Before the pool is
// open it waits.
func (p *pool) take() (*shimProc, error) {
	<-p.opened
	if s := p.ready(); s != nil {
		return s, nil
	}
	return p.start()
}

// put gives a shim back whose command and descendants are gone.
func (p *pool) put(s *shimProc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle) >= maxIdle {
		s.close()
		return
	}
	p.idle = append(p.idle, s)
	p.note()
}

// worked notes the end of work that needed no shim, such as a line of a
// shell: memory is given back after that too.
func (p *pool) worked() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.note()
	}
}

// note puts off the shrinking, or arms it. The caller holds mu.
func (p *pool) note() {
	p.busy = true
	if !p.armed { // and not each time: a timer costs more than all the rest here
		p.armed = true
		p.trim.Reset(quiet)
	}
}

// warm makes sure that one shim is ready or on its way. It ignores a failure,
// which the next take returns to its caller.
func (p *pool) warm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.filling || p.closed || len(p.idle) > 0 {
		return
	}
	p.filling = true
	go func() {
		s, err := p.start()
		p.mu.Lock()
		p.filling = false
		p.mu.Unlock()
		if err == nil {
			p.put(s)
		}
	}()
}

// forget drops the shim pid, which has died while it was idle.
func (p *pool) forget(pid int) {
	p.drop(pid)
	p.warm()
}

// drop is forget that puts no shim in its place.
func (p *pool) drop(pid int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, s := range p.idle {
		if s.pid == pid {
			s.close()
			p.idle = append(p.idle[:i], p.idle[i+1:]...)
			break
		}
	}
}

// shrink lets go of all shims but one once it is quiet.
func (p *pool) shrink() {
	p.mu.Lock()
	if p.busy && !p.closed {
		p.busy = false
		p.trim.Reset(quiet)
		p.mu.Unlock()
		return
	}
	p.armed = false
	for len(p.idle) > 1 {
		p.idle[0].close()
		p.idle = p.idle[1:]
	}
	p.mu.Unlock()
	p.rest()
}

// close lets go of all shims.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.trim.Stop()
	for _, s := range p.idle {
		s.close()
	}
	p.idle = nil
}
