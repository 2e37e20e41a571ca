package compat

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
)

// ErrDone ends a stream that has had all that it is about.
var ErrDone = errors.New("the stream has ended")

// Follow sends a request of /v1 whose answer is a stream of events, and calls on for
// each. A comment of the stream, which keeps connections alive, is an event without
// a name. Follow returns when the stream ends, on returns an error, or ctx ends; the
// error [ErrDone] of on ends the stream without an error.
func (c *Call) Follow(ctx context.Context, r *http.Request, on func(event string, data []byte) error) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	f := &follower{on: on, end: end}
	c.API.ServeHTTP(f, r.WithContext(ctx))
	if err := f.Err(); err != nil {
		return err
	}
	if errors.Is(f.failed, ErrDone) {
		return nil
	}
	return f.failed
}

// A follower is the answer of /v1 with server-sent events.
type follower struct {
	Answer
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
		p = rest
		f.take(bytes.TrimSuffix(f.line, []byte("\r")))
		if f.failed != nil {
			f.end()
			return 0, f.failed
		}
		f.line = f.line[:0]
	}
	return n, nil
}

// take reads one line.
func (f *follower) take(line []byte) {
	if len(line) == 0 {
		if f.event != "" {
			f.failed = f.on(f.event, f.data)
		}
		f.event, f.data = "", f.data[:0]
		return
	}
	name, value, _ := strings.Cut(string(line), ":")
	value = strings.TrimPrefix(value, " ")
	switch name {
	case "":
		f.failed = f.on("", nil)
	case "event":
		f.event = value
	case "data":
		f.data = append(f.data, value...)
	}
}

// FlushError is for [http.ResponseController].
func (f *follower) FlushError() error { return nil }
