//go:build linux

package server

import (
	"os"

	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// passBacklog is how many connections the kernel keeps for a listener that
// was given away and whose new owner does not accept.
const passBacklog = 1024

// pass opens the stream of a listener that the client is to have.
func (c *conn) pass(f wire.Frame) error {
	m, err := wire.DecodePass(f.Payload)
	if err != nil {
		return err
	}
	if c.side == nil {
		return c.refuse(f.Stream, wire.KindUnsupported, "the guest has no channel for descriptors")
	}
	g := &gateway{conn: c, id: f.Stream, shut: make(chan struct{})}
	c.begin(g.id, g, false)
	go g.give(m)
	return nil
}

// give makes a listening socket, hands it over, and keeps no descriptor of
// it: its address is free when the client closes its own, however that comes.
// What is left is the stream, by whose end the client knows of ours.
func (g *gateway) give(m wire.Pass) {
	defer g.conn.finished(g.id, false)
	if err := g.open(m.At, passBacklog); err != nil {
		g.answer(wire.TypeFailed, connectFailure(err).Encode())
		return
	}
	defer g.conn.srv.own.add(g.file)()
	local, _ := endpointsOf(g.file)
	err := g.conn.side.pass.Send(wire.KindListener, m.Ticket, []*os.File{g.file}, sideWithin)
	g.close()
	if err != nil {
		g.answer(wire.TypeFailed, failure(wire.KindResource, err).Encode())
		return
	}
	g.answer(wire.TypeListening, wire.Listening{At: local}.Encode())
	<-g.shut
	g.answer(wire.TypeDone, nil)
}

// passDial opens the stream of a connection that the client is to have.
func (c *conn) passDial(f wire.Frame) error {
	m, err := wire.DecodePass(f.Payload)
	if err != nil {
		return err
	}
	if c.side == nil {
		return c.refuse(f.Stream, wire.KindUnsupported, "the guest has no channel for descriptors")
	}
	return c.link(f.Stream, func(l *link) { l.give(m) })
}

// give connects, hands the socket over, and keeps no descriptor of it.
func (l *link) give(m wire.Pass) {
	defer l.conn.finished(l.id, false)
	file, err := l.connect(m.At)
	if err != nil {
		l.answer(wire.TypeFailed, connectFailure(err).Encode())
		return
	}
	local, _ := endpointsOf(file)
	err = l.conn.side.pass.Send(wire.KindConnection, m.Ticket, []*os.File{file}, sideWithin)
	l.drop() // of the socket, nothing but the descriptor
	file.Close()
	if err != nil {
		l.answer(wire.TypeFailed, failure(wire.KindResource, err).Encode())
		return
	}
	l.answer(wire.TypeConnected, wire.Connected{Local: local, Remote: m.At}.Encode())
}
