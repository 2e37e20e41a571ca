package client

import (
	"context"
	"errors"
	"net"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/wire"
)

const (
	// maxLinks bounds the connections of a client that were dialled and have
	// not ended. A guest that never ends one makes it grow no further.
	maxLinks = 1024
	// maxAccepted bounds the open connections of one listener, those that
	// wait for Accept included.
	maxAccepted = 256
	// connectWithin bounds the answer to a Dial or Listen. The guest itself
	// gives up after half a minute.
	connectWithin = 45 * time.Second
)

// Dial connects to an address inside the sandbox: "tcp", "tcp4" or "tcp6" with
// host and port, or "unix" with an absolute path. The guest connects in its own
// namespaces, so 127.0.0.1 is the sandbox's and not the host's, and with
// network "none" there is nothing else. Names are not resolved, there or here:
// the host is an IP address, or "localhost", which stands for 127.0.0.1 and,
// when that fails, for ::1.
//
// The connection has the semantics of a [net.TCPConn] or [net.UnixConn]:
// CloseWrite and CloseRead end one direction, deadlines end in
// os.ErrDeadlineExceeded, methods may be called at once, and Close delivers
// what was written before, in the background. It buffers at most
// wire.ConnWindow bytes of what is not read; a reader that does not read stalls
// its own connection only. Its addresses are those inside, as the guest
// reported them. It ends when the Client does.
//
// Where the guest has a channel for descriptors, a connection of TCP is the
// socket inside itself: the guest has no part in what it carries, and the buffers
// are those of the kernel.
//
// Errors are of code
//
//   - CodeExecution, errors.Is syscall.ECONNREFUSED and so on: the kernel
//     inside refused;
//   - CodeExecution, Retryable: too many connections;
//   - CodeValidation: network or address make no sense (Field says which);
//   - CodeUnsupported: the guest cannot forward;
//   - CodeUnavailable, CodeTimeout: the guest was lost, or ctx ended first.
//
// Reads and writes fail with *net.OpError as those of package net do, and
// with CodeUnavailable in its chain when the guest was lost.
func (c *Client) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	targets, err := parseEndpoints("dial", network, addr)
	if err != nil {
		return nil, c.named(err)
	}
	var first error
	for _, to := range targets {
		l, err := c.dial(ctx, to, addr)
		if err == nil {
			return l, nil
		}
		if first == nil {
			first = err
		}
		if sandbox.CodeOf(err) != sandbox.CodeExecution || ctx.Err() != nil {
			break // the second address would fare no better
		}
	}
	return nil, c.named(first)
}

func (c *Client) dial(ctx context.Context, to wire.Endpoint, addr string) (net.Conn, error) {
	if err := c.canForward(ctx, "dial"); err != nil {
		return nil, err
	}
	if c.canPassDial(to) {
		return c.dialPassed(ctx, to, addr)
	}
	if !c.takeLink() {
		return nil, tooManyLinks()
	}
	l := newLink(c, to.Family)
	l.over = c.giveLink
	if err := request(ctx, c, "dial", wire.TypeDial, wire.Dial{To: to}.Encode(), l); err != nil {
		return nil, forwardError(err, "dial", "cannot connect to "+addr+" in the sandbox")
	}
	return l, nil
}

// canForward reports why there is no forwarding here, if so.
func (c *Client) canForward(ctx context.Context, op string) error {
	if !c.hello.Has(wire.FeatureForward) {
		return &sandbox.Error{
			Code: sandbox.CodeUnsupported, Op: op, Message: "the guest of the sandbox cannot forward connections",
			Hint: "recreate the sandbox to get the current guest",
		}
	}
	if ctx.Err() != nil {
		return contextError(ctx, op)
	}
	return nil
}

// takeLink counts a connection that is about to be dialled.
func (c *Client) takeLink() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.links >= maxLinks {
		return false
	}
	c.links++
	return true
}

func (c *Client) giveLink() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.links--
}

// An opening is a stream whose request is answered by a success or by
// Failed, and that lives on after a success.
type opening interface {
	stream
	opened(id uint32) // the request was sent
	answer() *reply
	never()   // the request was not sent: there is no stream
	abandon() // the caller does not wait for the answer any more
}

// A reply is the first answer of the guest to a request.
type reply struct {
	came chan struct{} // closed when it is there
	err  error         // why it was none; readable once came is closed
}

// A refusal is a Failed answer.
type refusal struct{ m wire.Failed }

func (r refusal) Error() string { return wire.Quote(r.m.Text) }

// request opens s and waits for its answer. A guest that gives none loses
// the connection; the end of ctx abandons the request only.
func request(ctx context.Context, c *Client, op string, t wire.Type, payload []byte, s opening) error {
	silent := time.AfterFunc(connectWithin, func() { c.end(silentError()) })
	defer silent.Stop()
	id, err := c.open(ctx, t, payload, s)
	if id == 0 {
		s.never()
	}
	if err != nil {
		return err
	}
	s.opened(id)
	select {
	case <-s.answer().came:
		return s.answer().err
	case <-ctx.Done():
		s.abandon()
		return contextError(ctx, op)
	}
}

// accepted takes a connection that came in at a listener. It is called by
// the reader only.
func (c *Client) accepted(f wire.Frame) error {
	m, err := wire.DecodeAccepted(f.Payload)
	if err != nil {
		return err
	}
	c.delivering.Lock()
	defer c.delivering.Unlock()
	c.mu.Lock()
	s, stands := c.streams[m.Listener]
	_, taken := c.streams[f.Stream]
	c.mu.Unlock()
	g, _ := s.(*listener)
	if !stands {
		g = c.retired.find(m.Listener)
	}
	if g == nil || taken || f.Stream < wire.FirstAccepted {
		return wire.Violation("a connection for a listener that never stood")
	}
	l, err := g.admit(f.Stream, m)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.streams[f.Stream] = l
	c.mu.Unlock()
	g.offer(l)
	return nil
}

// forwardError fills a refusal in with what was to be done, and leaves
// other errors alone.
func forwardError(err error, op, message string) error {
	var r refusal
	if !errors.As(err, &r) {
		return err
	}
	e := &sandbox.Error{Code: sandbox.CodeExecution, Op: op, Field: "addr", Message: message}
	switch r.m.Kind {
	case wire.KindUnsupported, wire.KindInvalid:
		return requestError(r.m)
	case wire.KindResource:
		e.Retryable, e.Hint = true, "close connections, or raise the limits of the sandbox"
	}
	e.Err = socketError(r.m)
	switch e.Err {
	case errRefused:
		e.Retryable, e.Hint = true, "nothing listens there: start the server first"
	case errInUse:
		e.Code, e.Retryable, e.Hint = sandbox.CodeBusy, true, "something listens there already: take another address, or end it"
	case errTimedOut:
		e.Retryable = true
	}
	return e
}
