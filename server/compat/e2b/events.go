package e2b

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"
)

// follow sends a request of /v1 whose answer is a stream of events. It returns when
// the stream ends, on returns an error, or ctx ends.
func (c *call) follow(ctx context.Context, r *http.Request, on func(event string, data []byte) error) error {
	return ours(c.v1().Follow(ctx, r, func(event string, data []byte) error {
		if event == "" {
			return nil // keepalive messages of the protocol are sent by themselves
		}
		return on(event, data)
	}))
}

// json returns a request of /v1 with a JSON body.
func (c *call) json(ctx context.Context, method, path string, in any) (*http.Request, error) {
	return c.v1().JSON(ctx, method, path, nil, in)
}

// Bounds of the time between two keepalive messages.
const (
	slowestPing = 90 * time.Second
	fastestPing = time.Second
)

// A sender sends the messages of a stream, from any goroutine, and keepalive
// messages between them, so that proxies leave the connection open.
type sender[T any] struct {
	mu     sync.Mutex
	to     *connect.ServerStream[T]
	last   time.Time
	stop   chan struct{}
	done   sync.WaitGroup
	failed error
}

// newSender returns a sender, which the caller closes. end is called when a message
// cannot be sent.
func newSender[T any](h http.Header, to *connect.ServerStream[T], keepalive *T, end func()) (*sender[T], error) {
	every := slowestPing
	if text := h.Get(headerPing); text != "" {
		n, err := seconds(text)
		if err != nil {
			return nil, connect.NewError(connect.CodeInvalidArgument, errors.New(headerPing+" is no number of seconds"))
		}
		every = min(max(n, fastestPing), slowestPing)
	}
	s := &sender[T]{to: to, last: time.Now(), stop: make(chan struct{})}
	s.done.Go(func() {
		t := time.NewTicker(every)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				if s.send(keepalive) != nil {
					end()
					return
				}
			case <-s.stop:
				return
			}
		}
	})
	return s, nil
}

func (s *sender[T]) send(m *T) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil {
		s.failed = s.to.Send(m)
	}
	return s.failed
}

// close ends the keepalive messages.
func (s *sender[T]) close() {
	close(s.stop)
	s.done.Wait()
}
