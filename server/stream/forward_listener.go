package stream

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/bulkhead-dev/sandbox"
)

// Bounds of what a daemon can make its client hold.
const (
	maxOpen     = 4096             // connections at once
	maxQueue    = 512              // of connections that wait for Accept, before the broken ones are dropped
	closeWithin = 10 * time.Second // for the address to be free
)

// A forwardListener is the client's side: a net.Listener whose connections
// arrive in the sandbox. It is safe for concurrent use.
type forwardListener struct {
	s  *session
	at net.Addr

	stands    chan struct{} // closed when at is known
	closed    chan struct{} // closed when the daemon has closed the listener
	atEnd     sync.Once
	hangingUp sync.Once

	mu     sync.Mutex
	change sync.Cond
	queue  []*conn // not accepted
	err    error   // the error of Accept
	shut   bool    // Close was called
}

var _ net.Listener = (*forwardListener)(nil)

// OpenForward returns the listener at the other end of ws, which owns ws from
// then on. The end of ctx ends the wait for the daemon, that of life the
// listener with all its connections. The error is a *sandbox.Error, and ws is
// closed then.
func OpenForward(ctx, life context.Context, ws *websocket.Conn, o Options) (*forwardListener, error) {
	l := &forwardListener{s: newSession(ws, o), stands: make(chan struct{}), closed: make(chan struct{})}
	l.change.L = &l.mu
	l.s.idle = l.settle
	go func() {
		defer context.AfterFunc(life, l.hangUp)()
		l.s.read(l)
		l.fails(l.s.failure())
		l.isClosed()
	}()
	go l.s.beat()
	ctx, cancel := context.WithTimeout(ctx, l.s.o.RequestWithin)
	defer cancel()
	select {
	case <-l.stands:
		return l, nil
	case <-l.s.over:
		return nil, l.s.failure()
	case <-ctx.Done():
		l.hangUp()
		return nil, &sandbox.Error{Code: sandbox.CodeTimeout, Op: op, Message: "the daemon has not answered", Retryable: true, Err: ctx.Err()}
	}
}

// reported implements side.
func (l *forwardListener) reported(c forwardControl) error {
	var failed error
	if c.Error != nil {
		failed = c.Error.Err()
	}
	switch {
	case c.Type == typeListening && c.At != nil && l.at == nil:
		l.at = c.At.plain()
		close(l.stands)
	case l.at == nil:
		return violation("it does not say where it listens")
	case c.Type == typeEnded && failed != nil:
		l.fails(failed)
	case c.Type == typeClosed:
		l.isClosed()
	default:
		return violation("a text that is not the daemon's")
	}
	return nil
}

// opened implements side.
func (l *forwardListener) opened(f forwardFrame) error {
	local, remote, err := decodeEnds(f.content)
	if err != nil {
		return err
	}
	l.s.mu.Lock()
	next, open := l.s.last+1, len(l.s.conns)
	l.s.mu.Unlock()
	switch {
	case l.at == nil || f.number != next:
		return violation("a connection before its turn")
	case open >= maxOpen:
		return violation("more connections than a listener may have")
	}
	c := newConn(l.s, f.number, local, remote)
	if err := l.s.add(c); err != nil {
		return err
	}
	l.offer(c)
	return nil
}

// offer queues a connection for Accept. It drops queued connections that have
// broken to make room: a program inside can make any number of them.
func (l *forwardListener) offer(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		_ = c.Close() // no Accept will return it
		return
	}
	if len(l.queue) >= maxQueue {
		l.queue = slices.DeleteFunc(l.queue, func(c *conn) bool {
			if c.gone.Load() {
				_ = c.Close()
			}
			return c.gone.Load()
		})
	}
	l.queue = append(l.queue, c)
	l.change.Signal()
}

// fails makes Accept return err, unless it already fails.
func (l *forwardListener) fails(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
	}
	l.change.Broadcast()
}

// isClosed records that the daemon has closed the listener.
func (l *forwardListener) isClosed() {
	l.atEnd.Do(func() { close(l.closed) })
	l.settle()
}

// settle ends the WebSocket when neither the listener nor a connection needs
// it any more.
func (l *forwardListener) settle() {
	select {
	case <-l.closed:
	default:
		return
	}
	l.s.mu.Lock()
	open := len(l.s.conns)
	l.s.mu.Unlock()
	if open == 0 {
		l.hangingUp.Do(func() {
			go func() { _ = l.s.ws.Close(websocket.StatusNormalClosure, "") }() // a daemon that does not answer is cut
		})
	}
}

// Accept implements net.Listener.
func (l *forwardListener) Accept() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		switch {
		case len(l.queue) > 0:
			c := l.queue[0]
			l.queue = slices.Delete(l.queue, 0, 1)
			return c, nil
		case l.err != nil:
			return nil, l.fail("accept", l.err)
		}
		l.change.Wait()
	}
}

// Close implements net.Listener. It drops what was not accepted, waits until
// the address is free, at most some seconds, and leaves connections that were
// accepted alone.
func (l *forwardListener) Close() error {
	l.mu.Lock()
	if l.shut {
		l.mu.Unlock()
		return l.fail("close", net.ErrClosed)
	}
	l.shut, l.err = true, net.ErrClosed
	for _, c := range l.queue {
		_ = c.Close() // no Accept will return it
	}
	l.queue = nil
	l.change.Broadcast()
	l.mu.Unlock()
	_ = l.s.tell(forwardControl{Type: typeClose}) // when it cannot be sent the session is over
	timer := time.NewTimer(closeWithin)
	defer timer.Stop()
	select {
	case <-l.closed:
	case <-timer.C:
		l.hangUp()
	}
	return nil
}

// hangUp ends the listener and all its connections at once.
func (l *forwardListener) hangUp() { _ = l.s.ws.CloseNow() } // the reader returns the error

// Addr implements net.Listener: the address inside.
func (l *forwardListener) Addr() net.Addr { return l.at }

func (l *forwardListener) fail(what string, err error) error {
	return &net.OpError{Op: what, Net: l.at.Network(), Source: l.at, Err: err}
}
