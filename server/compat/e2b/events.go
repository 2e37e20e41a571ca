package e2b

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
)

// A follower is the answer of /v1 with server-sent events: on calls it for each.
// It returns an error to end the stream.
type follower struct {
	answer
	on     func(event string, data []byte) error
	end    context.CancelFunc // of the request
	failed error

	event string
	data  []byte
	line  []byte
}

// Write implements [http.ResponseWriter].
func (f *follower) Write(p []byte) (int, error) {
	f.WriteHeader(http.StatusOK)
	if f.status >= 400 {
		return f.body.Write(p)
	}
	if f.failed != nil {
		return 0, f.failed
	}
	n := len(p)
	for len(p) > 0 {
		line, rest, whole := bytes.Cut(p, []byte("\n"))
		f.line = append(f.line, line...)
		if !whole {
			break
		}
		if p = rest; f.take(f.line) != nil {
			return 0, f.failed
		}
		f.line = f.line[:0]
	}
	return n, nil
}

// take reads one line.
func (f *follower) take(line []byte) error {
	line = bytes.TrimSuffix(line, []byte("\r"))
	if len(line) == 0 {
		if f.event != "" {
			f.failed = f.on(f.event, f.data)
		}
		if f.failed != nil {
			f.end()
		}
		f.event, f.data = "", f.data[:0]
		return f.failed
	}
	name, value, _ := strings.Cut(string(line), ":")
	value = strings.TrimPrefix(value, " ")
	switch name {
	case "event":
		f.event = value
	case "data":
		f.data = append(f.data, value...)
	}
	return nil
}

// FlushError is for [http.ResponseController].
func (f *follower) FlushError() error { return nil }

// errDone ends a stream that has had all that it is about.
var errDone = errors.New("the stream has ended")

// follow sends a request of /v1 whose answer is a stream of events. It returns when
// the stream ends, on returns an error, or ctx ends.
func (c *call) follow(ctx context.Context, r *http.Request, on func(event string, data []byte) error) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	f := &follower{on: on, end: end}
	c.api.ServeHTTP(f, r.WithContext(ctx))
	if err := f.err(); err != nil {
		return err
	}
	if errors.Is(f.failed, errDone) {
		return nil
	}
	return f.failed
}

// json returns a request of /v1 with a JSON body.
func (c *call) json(ctx context.Context, method, path string, in any) (*http.Request, error) {
	data, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	r := c.request(ctx, method, path, nil, bytes.NewReader(data))
	r.ContentLength = int64(len(data))
	r.Header.Set("Content-Type", "application/json")
	return r, nil
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
