package client

import (
	"context"
	"net"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// A passDial is the stream of a request for the socket of a connection, and the
// taker of its descriptor.
type passDial struct {
	c      *Client
	to     wire.Endpoint
	id     uint32
	ticket uint32

	reply reply
	at    wire.Connected // readable once the reply came

	arrival arrival
}

// canPassDial reports whether a connection to an endpoint can be had as a socket.
func (c *Client) canPassDial(to wire.Endpoint) bool {
	return to.Family != wire.FamilyUnix && c.side.stands() && c.hello.Has(wire.FeaturePassDial) && tellsNetworks()
}

// dialPassed asks for the socket of a connection and makes sure of what comes.
func (c *Client) dialPassed(ctx context.Context, to wire.Endpoint, addr string) (net.Conn, error) {
	if !c.inbound.reserve(&c.dialled) {
		return nil, tooManyLinks()
	}
	conn, err := c.passedConn(ctx, to, addr)
	if err == nil && !c.inbound.add(&c.dialled, conn.socket) {
		breakOff(conn.socket)
		err = c.Err()
	}
	if err != nil {
		c.inbound.release(&c.dialled)
		return nil, err
	}
	return conn, nil
}

func (c *Client) passedConn(ctx context.Context, to wire.Endpoint, addr string) (*passedConn, error) {
	p := &passDial{c: c, to: to, arrival: newArrival(), reply: reply{came: make(chan struct{})}}
	var err error
	if p.ticket, err = c.side.ask(p); err != nil {
		return nil, err
	}
	err = request(ctx, c, "dial", wire.TypePassDial, wire.Pass{At: to, Ticket: p.ticket}.Encode(), p)
	if err != nil {
		return nil, forwardError(err, "dial", "cannot connect to "+addr+" in the sandbox")
	}
	return p.connected(ctx)
}

func (p *passDial) opened(id uint32) { p.id = id }
func (p *passDial) answer() *reply   { return &p.reply }
func (p *passDial) never()           { p.c.side.forget(p.ticket) }

// take implements taker.
func (p *passDial) take(m wire.Message) error {
	return p.arrival.take(m, m.Kind == wire.KindConnection)
}

// none implements taker.
func (p *passDial) none() { p.arrival.none() }

// frame implements stream; it is called by the reader only.
func (p *passDial) frame(f wire.Frame) (last bool, err error) {
	switch f.Type {
	case wire.TypeConnected:
		m, err := wire.DecodeConnected(f.Payload)
		if err == nil && (m.Local.Family != p.to.Family || m.Remote != p.to) {
			err = wire.Violation("a connection to another address than was asked for")
		}
		if err != nil {
			return false, err
		}
		p.at = m
		close(p.reply.came)
		return true, nil
	case wire.TypeFailed:
		m, err := wire.DecodeFailed(f.Payload)
		if err != nil {
			return false, err
		}
		p.c.side.forget(p.ticket)
		p.finish(refusal{m})
		return true, nil
	}
	return false, wire.Violation("unexpected answer")
}

// lost implements stream.
func (p *passDial) lost(err error) { p.finish(err) }

func (p *passDial) finish(err error) {
	p.arrival.drop()
	p.reply.err = err
	close(p.reply.came)
}

// abandon implements opening.
func (p *passDial) abandon() {
	p.arrival.drop()
	f := killFrame(0)
	f.Stream = p.id
	go func() { _ = p.c.send(context.Background(), f) }() // an error is the connection's end, with which the request ends
}

// connected returns the connection of the socket.
func (p *passDial) connected(ctx context.Context) (*passedConn, error) {
	fd, err := p.arrival.wait(ctx, "dial")
	if err != nil {
		return nil, err
	}
	if fd < 0 {
		p.c.end(wire.Violation("the socket of the connection was not handed over"))
		return nil, p.c.Err()
	}
	socket, err := openConnected(fd, p.to)
	if err != nil {
		return nil, p.c.handedError(err, "dial", "the socket of the connection cannot be opened on the host")
	}
	return newPassedConn(p.c, socket, address(p.at.Local), address(p.at.Remote))
}

func tooManyLinks() error {
	return &sandbox.Error{
		Code: sandbox.CodeExecution, Op: "dial", Field: "addr", Retryable: true,
		Message: "too many connections into the sandbox at once", Hint: "close some first",
	}
}
