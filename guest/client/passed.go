package client

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// roomLook is between two looks at whether a full listener has room again.
const roomLook = 20 * time.Millisecond

// A passed is a listening socket inside that is ours: the stream that tells
// when the guest ends, the taker of the descriptor, and the listener.
type passed struct {
	c      *Client
	asked  wire.Endpoint
	id     uint32
	ticket uint32

	reply    reply
	standing bool          // guarded by the reader
	at       wire.Endpoint // readable once the reply came
	ended    chan struct{} // closed when the last answer came or the guest was lost

	arrival arrival
	l       *net.TCPListener
	part    share

	mu       sync.Mutex
	serving  *net.TCPListener // l, unless it was closed
	err      error            // what Accept returns, once it is over
	over     chan struct{}    // closed with err
	deadline time.Time        // of Accept
}

// canPass reports whether a listener at an endpoint can be had as a socket.
func (c *Client) canPass(at wire.Endpoint) bool {
	return at.Family != wire.FamilyUnix && c.side.stands() && c.hello.Has(wire.FeaturePass) && tellsNetworks()
}

// listenPassed asks for a listening socket and makes sure of what comes.
func (c *Client) listenPassed(ctx context.Context, at wire.Endpoint, addr string) (net.Listener, error) {
	p := &passed{
		c: c, asked: at, arrival: newArrival(), part: share{most: maxPassed}, reply: reply{came: make(chan struct{})},
		ended: make(chan struct{}), over: make(chan struct{}),
	}
	var err error
	if p.ticket, err = c.side.ask(p); err != nil {
		return nil, err
	}
	err = request(ctx, c, "listen", wire.TypePass, wire.Pass{At: at, Ticket: p.ticket}.Encode(), p)
	if err != nil {
		return nil, forwardError(err, "listen", "cannot listen at "+addr+" in the sandbox")
	}
	if err := p.begin(ctx); err != nil {
		p.abandon()
		return nil, err
	}
	return p, nil
}

func (p *passed) opened(id uint32) { p.id = id }
func (p *passed) answer() *reply   { return &p.reply }
func (p *passed) never()           { p.c.side.forget(p.ticket) }

// take implements taker.
func (p *passed) take(m wire.Message) error { return p.arrival.take(m, m.Kind == wire.KindListener) }

// none implements taker.
func (p *passed) none() { p.arrival.none() }

// begin opens the socket.
func (p *passed) begin(ctx context.Context) error {
	fd, err := p.arrival.wait(ctx, "listen")
	if err != nil {
		return err
	}
	if fd < 0 {
		if err := p.ending(); err != nil {
			return err
		}
		p.c.end(wire.Violation("the listening socket was not handed over"))
		return p.c.Err()
	}
	l, err := openListening(fd, p.at)
	if err != nil {
		return p.c.handedError(err, "listen", "the listening socket cannot be opened on the host")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		l.Close()
		return p.err
	}
	p.l, p.serving = l, l
	return nil
}

// handedError is the error about a socket that was handed over and could not be
// opened. One that was not asked for ends the connection.
func (c *Client) handedError(err error, op, message string) error {
	var violation *wire.ProtocolError
	if errors.As(err, &violation) {
		c.end(err)
		return c.Err()
	}
	return &sandbox.Error{
		Code: sandbox.CodeExecution, Op: op, Retryable: true, Message: message,
		Hint: "raise the limit of open files of this process", Err: err,
	}
}

// frame implements stream; it is called by the reader only.
func (p *passed) frame(f wire.Frame) (last bool, err error) {
	switch {
	case f.Type == wire.TypeListening && !p.standing:
		m, err := wire.DecodeListening(f.Payload)
		if err == nil && !meets(m.At, p.asked) {
			err = wire.Violation("a listener at another address than was asked for")
		}
		if err != nil {
			return false, err
		}
		p.standing, p.at = true, m.At
		close(p.reply.came)
		return false, nil
	case f.Type == wire.TypeFailed:
		m, err := wire.DecodeFailed(f.Payload)
		if err != nil {
			return false, err
		}
		p.finish(refusal{m})
		return true, nil
	case f.Type == wire.TypeDone && p.standing:
		p.finish(net.ErrClosed)
		return true, nil
	}
	return false, wire.Violation("unexpected frame of a listener")
}

// meets reports whether a listener is where it should be.
func meets(at, asked wire.Endpoint) bool {
	port := at.Port == asked.Port || asked.Port == 0 && at.Port != 0
	return at.Family == asked.Family && at.Host == asked.Host && port
}

// lost implements stream.
func (p *passed) lost(err error) { p.finish(err) }

// finish ends the stream; it is called once, by the reader.
func (p *passed) finish(err error) {
	if !p.standing {
		p.c.side.forget(p.ticket)
		p.reply.err = err
		close(p.reply.came)
	}
	p.stop(forwardError(err, "accept", "the listener inside the sandbox has ended"))
	close(p.ended)
}

// stop closes the socket, and reports whether this was the first call.
func (p *passed) stop(err error) bool {
	p.mu.Lock()
	if p.err != nil {
		p.mu.Unlock()
		return false
	}
	l := p.serving
	p.err, p.serving = err, nil
	close(p.over)
	p.mu.Unlock()
	p.arrival.drop()
	if l != nil {
		closeListening(l)
	}
	return true
}

// abandon implements opening.
func (p *passed) abandon() {
	p.stop(net.ErrClosed)
	go p.kill()
}

// kill tells the guest to forget the listener. An error is the connection's
// end, with which it does.
func (p *passed) kill() {
	select {
	case <-p.ended:
		return
	default:
	}
	f := killFrame(0)
	f.Stream = p.id
	_ = p.c.send(context.Background(), f)
}

// Accept implements net.Listener. The connection is a *net.TCPConn.
func (p *passed) Accept() (net.Conn, error) {
	for {
		if err := p.reserve(); err != nil {
			return nil, p.fail("accept", err)
		}
		conn, err := p.l.AcceptTCP()
		if err == nil && p.admit(conn) {
			return conn, nil
		}
		p.c.inbound.release(&p.part)
		if over := p.ending(); over != nil {
			err = p.fail("accept", over)
		}
		if err != nil {
			return nil, err
		}
	}
}

// reserve waits until the listener may have one more connection.
func (p *passed) reserve() error {
	for !p.c.inbound.reserve(&p.part) {
		p.mu.Lock()
		late := !p.deadline.IsZero() && !time.Now().Before(p.deadline)
		p.mu.Unlock()
		if late {
			return os.ErrDeadlineExceeded
		}
		select {
		case <-p.over:
			return p.ending()
		case <-time.After(roomLook):
		}
	}
	return nil
}

// admit notes a connection, or drops it and reports false. A process inside
// with a copy of the listener could move it to another address of its network,
// and could make the close of its connections wait: admit prevents both.
func (p *passed) admit(conn *net.TCPConn) bool {
	local, ok := conn.LocalAddr().(*net.TCPAddr)
	if ok && conn.SetLinger(-1) == nil && p.isAt(local.AddrPort()) && p.c.inbound.add(&p.part, conn) {
		return true
	}
	breakOff(conn)
	return false
}

// isAt reports whether a connection to an address is one of this listener.
func (p *passed) isAt(local netip.AddrPort) bool {
	host, _ := netip.AddrFromSlice([]byte(p.at.Host))
	return local.Port() == p.at.Port && (host.IsUnspecified() || local.Addr().Unmap() == host.Unmap())
}

// ending returns why the listener is over, nil when it is not.
func (p *passed) ending() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// SetDeadline ends Accept calls at t, as that of a [net.TCPListener] does.
func (p *passed) SetDeadline(t time.Time) error {
	if err := p.ending(); err != nil {
		return p.fail("set", err)
	}
	p.mu.Lock()
	p.deadline = t
	p.mu.Unlock()
	return p.l.SetDeadline(t)
}

// Close implements net.Listener. The address is free when it returns.
func (p *passed) Close() error {
	if !p.stop(net.ErrClosed) {
		return p.fail("close", net.ErrClosed)
	}
	go p.kill()
	return nil
}

// Addr implements net.Listener: the address inside.
func (p *passed) Addr() net.Addr { return address(p.at) }

func (p *passed) fail(op string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Source: p.Addr(), Err: p.c.named(err)}
}
