package sdk

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/stream"
)

// closeWithin bounds how long Close waits for the daemon.
const closeWithin = 30 * time.Second

// A handle is an open sandbox behind a daemon.
type handle struct {
	p    *Provider
	id   string
	info sandbox.Info
	can  can
	talk *stream.Talk

	ctx context.Context // ends when the handle is closed or lost
	end context.CancelFunc

	closing sync.Once
	closed  chan struct{} // closed when the talk has ended
	answer  error         // of the close; readable once closed is closed
}

// Open implements sandbox.Provider.
func (p *Provider) Open(ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
	ctx, cancel := context.WithTimeout(ctx, p.o.Change)
	defer cancel()
	conn, _, err := p.c.Socket(ctx, "open", p.path("/open"), nil)
	if err != nil {
		return nil, err
	}
	t := stream.NewTalk(conn, p.o.Stream)
	var o stream.Opened
	if err = t.Send(stream.SpecOf(s)); err == nil {
		err = t.Receive(ctx, &o)
	}
	if err == nil && o.Error != nil {
		err = o.Error.Err()
	}
	if err != nil {
		t.End(false)
		if ctx.Err() != nil && sandbox.CodeOf(err) == sandbox.CodeUnavailable {
			err = providerEnded("open", ctx.Err())
		}
		return nil, err
	}
	h := &handle{p: p, id: o.Handle, info: sandbox.Info(o.Box), can: can{o.Dial, o.Listen, o.Files}, talk: t, closed: make(chan struct{})}
	h.ctx, h.end = context.WithCancel(context.Background())
	go h.watch()
	return h.able(), nil
}

// watch waits for the end of the handle.
func (h *handle) watch() {
	defer close(h.closed)
	defer h.end()
	var c stream.Closed
	if err := h.talk.Receive(context.Background(), &c); err != nil {
		h.answer = err
	} else if c.Error != nil {
		h.answer = c.Error.Err()
	}
	h.talk.End(false)
}

// Info implements sandbox.Sandbox.
func (h *handle) Info() sandbox.Info { return h.info }

// Close implements sandbox.Sandbox. It returns when the daemon has closed the
// sandbox. A daemon that has gone has closed it too, or will.
func (h *handle) Close() error {
	h.closing.Do(func() {
		if h.ctx.Err() != nil {
			return // lost before
		}
		_ = h.talk.Send(stream.Closing{Close: true}) // when it cannot be sent the watch ends
	})
	timer := time.NewTimer(closeWithin)
	defer timer.Stop()
	select {
	case <-h.closed:
	case <-timer.C:
		h.talk.End(false)
		<-h.closed
	}
	h.p.c.Close()
	if sandbox.CodeOf(h.answer) == sandbox.CodeUnavailable {
		return nil
	}
	return h.answer
}

func (h *handle) path(rest string) string { return stream.Prefix + "/handles/" + h.id + rest }

// within bounds ctx by the life of the handle.
func (h *handle) within(ctx context.Context, op string) (context.Context, context.CancelFunc, error) {
	if h.ctx.Err() != nil {
		return nil, nil, closedError(op)
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, providerEnded(op, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(h.ctx, cancel)
	return ctx, func() { stop(); cancel() }, nil
}

// call makes a request about the sandbox.
func (h *handle) call(ctx context.Context, q Request, out any) error {
	bound, done, err := h.within(ctx, q.Op)
	if err != nil {
		return err
	}
	defer done()
	err = h.p.call(bound, h.p.o.Query, q, out)
	return h.honest(ctx, q.Op, err)
}

// honest says that the handle has ended where that is the reason.
func (h *handle) honest(ctx context.Context, op string, err error) error {
	if err != nil && h.ctx.Err() != nil && ctx.Err() == nil && sandbox.CodeOf(err) == sandbox.CodeTimeout {
		return closedError(op)
	}
	return err
}

// Start implements sandbox.Sandbox.
func (h *handle) Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	r, err := stream.RequestOf(c)
	if err != nil {
		return nil, err
	}
	return h.run(ctx, "start", h.path("/start"), r, c)
}

func (h *handle) run(ctx context.Context, op, path string, r stream.Request, c sandbox.Command) (sandbox.Process, error) {
	bound, done, err := h.within(ctx, op)
	if err != nil {
		return nil, err
	}
	conn, _, err := h.p.c.Socket(bound, op, path, nil)
	done()
	if err != nil {
		return nil, h.honest(ctx, op, err)
	}
	p, err := stream.Open(ctx, conn, h.p.o.Stream, r, c)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Usage implements sandbox.Sandbox.
func (h *handle) Usage(ctx context.Context) (sandbox.Usage, error) {
	var u stream.Usage
	err := h.call(ctx, Request{Op: "usage", Method: http.MethodGet, Path: h.path("/usage")}, &u)
	return sandbox.Usage(u), err
}

// A shell is one that is open behind a daemon.
type shell struct {
	h *handle
	s stream.Shell

	mu     sync.Mutex
	closed bool
}

// OpenShell implements sandbox.Sandbox.
func (h *handle) OpenShell(ctx context.Context, o sandbox.ShellOptions) (sandbox.Shell, error) {
	r, err := stream.RequestOf(sandbox.Command{Env: o.Env})
	if err != nil {
		return nil, err
	}
	s := &shell{h: h}
	err = h.call(ctx, Request{
		Op: "open shell", Method: http.MethodPost, Path: h.path("/shells"),
		JSON: stream.NewShell{ID: o.ID, Env: r.Env, Dir: stream.Text(o.Dir)},
	}, &s.s)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// ID implements sandbox.Shell.
func (s *shell) ID() string { return s.s.ID }

// Program implements sandbox.Shell.
func (s *shell) Program() string { return s.s.Program }

// Run implements sandbox.Shell.
func (s *shell) Run(ctx context.Context, line string, c sandbox.Command) (sandbox.Process, error) {
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return nil, &sandbox.Error{Code: sandbox.CodeNotFound, Op: "run line", Message: "the shell is closed"}
	}
	r, err := stream.RequestOf(c)
	if err != nil {
		return nil, err
	}
	r.Line = stream.Text(line)
	return s.h.run(ctx, "run line", s.h.path("/shells/"+s.s.Ticket+"/run"), r, c)
}

// Close implements sandbox.Shell.
func (s *shell) Close() error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.mu.Unlock()
	if !first || s.h.ctx.Err() != nil {
		return nil // a closed handle has closed its shells
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	err := s.h.call(ctx, Request{Op: "close shell", Method: http.MethodDelete, Path: s.h.path("/shells/" + s.s.Ticket)}, nil)
	if errors.Is(err, &sandbox.Error{Code: sandbox.CodeUnavailable}) && s.h.ctx.Err() != nil {
		return nil
	}
	return err
}
