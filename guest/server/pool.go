//go:build linux

package server

import (
	"sync"
	"time"
)

const (
	// maxIdle stages are kept for the next commands while there is work.
	maxIdle = 16
	// quiet is how long no command may have ended before the pool shrinks
	// to one stage.
	quiet = 2 * time.Second
)

// A pool keeps stages ready. Its methods are safe for concurrent use.
type pool struct {
	start func() (*stageProc, error)
	rest  func() // called when the pool has shrunk

	mu      sync.Mutex
	idle    []*stageProc
	filling bool
	closed  bool
	trim    *time.Timer
}

func newPool(start func() (*stageProc, error), rest func()) *pool {
	p := &pool{start: start, rest: rest}
	p.trim = time.AfterFunc(time.Hour, p.shrink)
	p.trim.Stop()
	return p
}

// take returns a stage, one that is ready if there is one.
func (p *pool) take() (*stageProc, error) {
	p.mu.Lock()
	n := len(p.idle)
	if n == 0 {
		p.mu.Unlock()
		return p.start()
	}
	s := p.idle[n-1]
	p.idle = p.idle[:n-1]
	if n == 1 {
		p.fill()
	}
	p.mu.Unlock()
	return s, nil
}

// put gives a stage back whose command and descendants are gone.
func (p *pool) put(s *stageProc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle) >= maxIdle {
		s.close()
		return
	}
	p.idle = append(p.idle, s)
	p.trim.Reset(quiet)
}

// warm makes sure that one stage is ready or on its way.
func (p *pool) warm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) == 0 {
		p.fill()
	}
}

// fill starts a stage in the background. A failure is left to the next
// take, which has somebody to tell. Precondition: mu is held.
func (p *pool) fill() {
	if p.filling || p.closed {
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

// forget drops the stage pid, which has died while it was idle.
func (p *pool) forget(pid int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, s := range p.idle {
		if s.pid == pid {
			s.close()
			p.idle = append(p.idle[:i], p.idle[i+1:]...)
			break
		}
	}
	if len(p.idle) == 0 {
		p.fill()
	}
}

// shrink lets go of all stages but one.
func (p *pool) shrink() {
	p.mu.Lock()
	for len(p.idle) > 1 {
		p.idle[0].close()
		p.idle = p.idle[1:]
	}
	p.mu.Unlock()
	p.rest()
}

// close lets go of all stages.
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
