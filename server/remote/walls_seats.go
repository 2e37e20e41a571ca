package remote

import (
	"context"
	"net/http"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/bulkhead-dev/sandbox"
)

// Connections bound the number of open connections. Each may cost the daemon 128
// KiB of data that a program inside does not read, and 64 KiB beside.
type Connections struct {
	Handle int // of one open sandbox; zero is 512
	Caller int // of all of one caller; zero is 2048
	All    int // zero is 4096
}

// seats are the places for connections.
type seats struct {
	each Connections
	all  *semaphore.Weighted

	mu      sync.Mutex
	callers map[string]*caller
}

// A caller is a client that has sandboxes open.
type caller struct {
	seats   *semaphore.Weighted
	handles int // guarded by the seats' mutex
}

func newSeats(c Connections) *seats {
	for _, b := range []struct {
		at    *int
		usual int
	}{{&c.Handle, 512}, {&c.Caller, 2048}, {&c.All, 4096}} {
		if *b.at <= 0 {
			*b.at = b.usual
		}
	}
	return &seats{each: c, all: semaphore.NewWeighted(int64(c.All)), callers: map[string]*caller{}}
}

// caller returns the name of the request's caller.
func (h *Handler) caller(r *http.Request) string {
	if h.o.Caller == nil {
		return ""
	}
	return h.o.Caller(r)
}

// of returns the places for one more open sandbox of a caller. The caller has to
// call leave when the sandbox is closed.
func (s *seats) of(name string) (p *places, leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.callers[name]
	if c == nil {
		c = &caller{seats: semaphore.NewWeighted(int64(s.each.Caller))}
		s.callers[name] = c
	}
	c.handles++
	return &places{semaphore.NewWeighted(int64(s.each.Handle)), c.seats, s.all}, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if c.handles--; c.handles == 0 {
			delete(s.callers, name)
		}
	}
}

// places are the semaphores that a connection of one open sandbox takes a seat
// of, in this order: the sandbox's, its caller's, and the common one.
type places [3]*semaphore.Weighted

// wait takes a place as soon as there is one; the error is that of ctx.
func (p *places) wait(ctx context.Context) (leave func(), err error) {
	for i, s := range p {
		if err := s.Acquire(ctx, 1); err != nil {
			p.leave(i)
			return nil, err
		}
	}
	return func() { p.leave(len(p)) }, nil
}

// take takes a place, or returns an error when there is none.
func (p *places) take(op string) (leave func(), err error) {
	for i, s := range p {
		if !s.TryAcquire(1) {
			p.leave(i)
			return nil, &sandbox.Error{
				Code: sandbox.CodeBudgetExceeded, Op: op, Retryable: true,
				Message: "there are as many connections " + [...]string{"to the sandbox", "of the caller", "through the daemon"}[i] + " as there may be",
				Hint:    "close some",
			}
		}
	}
	return func() { p.leave(len(p)) }, nil
}

func (p *places) leave(n int) {
	for _, s := range p[:n] {
		s.Release(1)
	}
}
