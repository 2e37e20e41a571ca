package client

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// Listen listens at an address inside the sandbox: those of Dial, where port 0
// stands for any that is free. An IPv6 address means IPv6 alone. What connects
// there is a program in the sandbox: treat it so. With a network other than
// "none", an address that is not a loopback one can also be reached from that
// network.
//
// Where the guest can hand over the listening socket, programs inside connect
// to this process itself, by the kernel both share: "tcp" with Options.Offer or
// Options.Descriptors, on a kernel that can tell our network from theirs (5.14
// or later), when it is another. Accept returns *net.TCPConn then, and the
// listener has SetDeadline; at most 4096 connections of it are open at once.
// Elsewhere frames carry the connections, at most 256 of a listener at once,
// those that wait for Accept included. Further ones wait in the kernel inside.
//
// Closing the listener drops the connections that were not accepted, frees the
// address before it returns, and leaves accepted connections alone. The end of
// the Client ends both; a connection of the one kind reads CodeUnavailable
// then, one of the other net.ErrClosed, and its peer a reset. A Unix socket's
// path must not exist, and is removed in the end.
//
// Errors are those of Dial; an address in use is CodeBusy and
// errors.Is syscall.EADDRINUSE. Accept fails with *net.OpError.
func (c *Client) Listen(ctx context.Context, network, addr string) (net.Listener, error) {
	targets, err := parseEndpoints("listen", network, addr)
	if err != nil {
		return nil, c.named(err)
	}
	var first error
	for _, at := range targets {
		g, err := c.listenAt(ctx, at, addr)
		if err == nil {
			return g, nil
		}
		if first == nil {
			first = err
		}
		if code := sandbox.CodeOf(err); code != sandbox.CodeExecution && code != sandbox.CodeBusy || ctx.Err() != nil {
			break
		}
	}
	return nil, c.named(first)
}

func (c *Client) listenAt(ctx context.Context, at wire.Endpoint, addr string) (net.Listener, error) {
	if err := c.canForward(ctx, "listen"); err != nil {
		return nil, err
	}
	if c.canPass(at) {
		return c.listenPassed(ctx, at, addr)
	}
	g := newListener(c, at.Family)
	if err := request(ctx, c, "listen", wire.TypeListen, wire.Listen{At: at, Max: maxAccepted}.Encode(), g); err != nil {
		return nil, forwardError(err, "listen", "cannot listen at "+addr+" in the sandbox")
	}
	return g, nil
}

// A listener is the host's side of a listening socket inside.
type listener struct {
	c      *Client
	id     uint32
	family wire.Family

	reply    reply
	standing bool     // guarded by the reader
	addr     net.Addr // readable once the reply came
	open     int      // connections that have not ended; guarded by the reader

	mu     sync.Mutex
	change sync.Cond
	queue  []*link // not accepted
	err    error   // what Accept returns
	closed bool

	ended chan struct{} // closed when the last answer came or the guest was lost
}

func newListener(c *Client, family wire.Family) *listener {
	g := &listener{c: c, family: family, reply: reply{came: make(chan struct{})}, ended: make(chan struct{})}
	g.change.L = &g.mu
	return g
}

func (g *listener) opened(id uint32) { g.id = id }
func (g *listener) answer() *reply   { return &g.reply }
func (g *listener) never()           {}

// frame implements stream; it is called by the reader only.
func (g *listener) frame(f wire.Frame) (last bool, err error) {
	switch {
	case f.Type == wire.TypeListening && !g.standing:
		m, err := wire.DecodeListening(f.Payload)
		if err == nil && m.At.Family != g.family {
			err = wire.Violation("a listener of another family than was asked for")
		}
		if err != nil {
			return false, err
		}
		g.standing, g.addr = true, address(m.At)
		close(g.reply.came)
		return false, nil
	case f.Type == wire.TypeFailed:
		m, err := wire.DecodeFailed(f.Payload)
		if err != nil {
			return false, err
		}
		g.retire(f.Stream)
		g.finish(refusal{m})
		return true, nil
	case f.Type == wire.TypeDone && g.standing:
		g.retire(f.Stream)
		g.finish(net.ErrClosed)
		return true, nil
	}
	return false, wire.Violation("unexpected frame of a listener")
}

// retire has the client remember a listener that stood.
func (g *listener) retire(id uint32) {
	if g.standing {
		g.c.retired.add(id, g)
	}
}

// lost implements stream.
func (g *listener) lost(err error) { g.finish(err) }

// finish ends the listener; it is called once, by the reader.
func (g *listener) finish(err error) {
	if !g.standing {
		g.reply.err = err
		close(g.reply.came)
	}
	g.mu.Lock()
	if g.err == nil {
		g.err = forwardError(err, "accept", "the listener inside the sandbox has ended")
	}
	g.change.Broadcast()
	g.mu.Unlock()
	close(g.ended)
}

// admit makes the link of a connection that the guest says has come in, if
// it may. The reader holds the delivery of frames.
func (g *listener) admit(id uint32, m wire.Accepted) (*link, error) {
	switch {
	case !g.standing:
		return nil, wire.Violation("a connection for a listener that never stood")
	case g.open >= maxAccepted:
		return nil, wire.Violation("more connections than the listener may have")
	case m.Local.Family != g.family || m.Remote.Family != g.family:
		return nil, wire.Violation("a connection of another family than its listener")
	}
	g.open++
	l := newLink(g.c, g.family)
	l.over = func() { g.open-- }
	l.opened(id)
	l.connect(m.Local, m.Remote)
	return l, nil
}

// offer queues a link for Accept, or drops it where none is accepted any more.
// Those that broke while they waited make room: a program inside can make any
// number of them.
func (g *listener) offer(l *link) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		l.abandon()
		return
	}
	if len(g.queue) >= maxAccepted {
		g.queue = slices.DeleteFunc(g.queue, (*link).hasEnded)
	}
	g.queue = append(g.queue, l)
	g.change.Signal()
}

func (l *link) hasEnded() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// Accept implements net.Listener.
func (g *listener) Accept() (net.Conn, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for {
		switch {
		case g.err != nil:
			return nil, g.fail("accept", g.err)
		case len(g.queue) > 0:
			l := g.queue[0]
			g.queue = slices.Delete(g.queue, 0, 1)
			return l, nil
		}
		g.change.Wait()
	}
}

// abandon gives up a listener that no caller waits for any more.
func (g *listener) abandon() {
	if g.shut() {
		go g.kill()
	}
}

// shut ends Accept and drops what was not accepted. It reports whether this
// was the first call.
func (g *listener) shut() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.closed = true
	if g.err == nil {
		g.err = net.ErrClosed
	}
	for _, l := range g.queue {
		l.abandon()
	}
	g.queue = nil
	g.change.Broadcast()
	return true
}

// kill tells the guest to close the socket. An error is the connection's
// end, which closes it too.
func (g *listener) kill() {
	select {
	case <-g.ended:
		return
	default:
	}
	f := killFrame(0)
	f.Stream = g.id
	_ = g.c.send(context.Background(), f)
}

// Close implements net.Listener. It waits until the address is free again,
// at most some seconds.
func (g *listener) Close() error {
	if !g.shut() {
		return g.fail("close", net.ErrClosed)
	}
	g.kill()
	timer := time.NewTimer(closeWithin)
	defer timer.Stop()
	select {
	case <-g.ended:
	case <-timer.C:
	}
	return nil
}

// Addr implements net.Listener: the address inside.
func (g *listener) Addr() net.Addr { return g.addr }

func (g *listener) fail(op string, err error) error {
	return &net.OpError{Op: op, Net: networkOf(g.family), Source: g.addr, Err: g.c.named(err)}
}
