//go:build linux

package server

import (
	"errors"
	"os"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

const (
	// maxForwards bounds the forwarded connections of all clients at once,
	// and with it the memory that their windows can take. A listener counts
	// as one connection, and as another one while it waits for the next.
	maxForwards = 1024
	// connectWithin bounds the way to a connection.
	connectWithin = 30 * time.Second
	// lingerWithin bounds how long what a client sent before it closed a
	// connection may wait to be taken in.
	lingerWithin = 10 * time.Second
)

// A link is one forwarded connection, dialled or accepted. Two goroutines
// carry it; neither holds a thread while it waits.
type link struct {
	conn    *conn
	id      uint32
	inbox   *wire.Inbox   // what is on its way inward
	credits *wire.Credits // for what goes outward
	linger  time.Duration // see lingerWithin

	mu      sync.Mutex
	file    *os.File // the socket, nil before there is one
	dropped bool     // drop was called
	sentAll bool     // the client sends no more
	unheard bool     // the client reads no more
	gone    bool     // the client has gone: the link falls with its connection
}

func newLink(c *conn) *link {
	return &link{
		conn: c, linger: lingerWithin,
		inbox: wire.NewInboxOf(wire.ConnWindow), credits: wire.NewCreditsOf(wire.ConnWindow),
	}
}

// dial opens the stream of a connection to an endpoint inside.
func (c *conn) dial(f wire.Frame) error {
	m, err := wire.DecodeDial(f.Payload)
	if err != nil {
		return err
	}
	return c.link(f.Stream, func(l *link) { l.runDialled(m.To) })
}

// link opens the stream of a connection that run makes.
func (c *conn) link(id uint32, run func(*link)) error {
	select {
	case c.srv.forwards <- struct{}{}:
	default:
		return c.refuse(id, wire.KindResource, "too many forwarded connections at once")
	}
	l := newLink(c)
	l.id = id
	c.begin(l.id, l, false)
	go func() {
		defer func() { <-c.srv.forwards }()
		run(l)
	}()
	return nil
}

// runDialled connects and carries the connection to its end.
func (l *link) runDialled(to wire.Endpoint) {
	defer l.conn.finished(l.id, false)
	file, err := l.connect(to)
	if err != nil {
		l.answer(wire.TypeFailed, connectFailure(err).Encode())
		return
	}
	local, remote := endpointsOf(file)
	if remote.Family != to.Family || remote.Nameless() {
		remote = to // it has broken already
	}
	l.answer(wire.TypeConnected, wire.Connected{Local: local, Remote: remote}.Encode())
	l.carry(file)
}

// connectFailure tells why there is no connection. A socket that cannot be
// had is another matter than an endpoint that does not answer.
func connectFailure(err error) *wire.Failed {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = unix.ETIMEDOUT
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOMEM), errors.Is(err, unix.ENOBUFS):
		return failure(wire.KindResource, err)
	}
	return failure(wire.KindInternal, err)
}

func (l *link) answer(t wire.Type, payload []byte) {
	l.mu.Lock()
	gone := l.gone
	l.mu.Unlock()
	if gone {
		return
	}
	// A failed write is the connection's end, which its reader sees too.
	_ = l.conn.w.Write(wire.Frame{Type: t, Stream: l.id, Payload: payload})
}

// adopt takes the socket of the link, bounded until it is connected, or
// refuses it because the link was dropped meanwhile.
func (l *link) adopt(file *os.File) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dropped {
		return false
	}
	l.file = file
	return file.SetDeadline(time.Now().Add(connectWithin)) == nil
}

// settle takes the bound of the connecting away.
func (l *link) settle() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.dropped {
		_ = l.file.SetDeadline(time.Time{}) // worked before
	}
}

// drop ends the link at once, whatever it is doing. It does not wait.
func (l *link) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dropped = true
	l.credits.Close(errDetached)
	l.inbox.Discard() // first, so that what still comes is not out of place
	l.inbox.Close(errDetached)
	if l.file != nil {
		_ = l.file.SetDeadline(time.Now()) // closed already is fine
	}
}

// disconnect implements stream. No last answer follows: it would say that
// the program inside had ended the connection.
func (l *link) disconnect() {
	l.mu.Lock()
	l.gone = true
	l.mu.Unlock()
	l.drop()
}

// event implements stream.
func (l *link) event(f wire.Frame) error {
	switch f.Type {
	case wire.TypeData:
		if f.Channel() != wire.Inward {
			return wire.Violation("data on a channel that is not open")
		}
		if len(f.Payload) > 0 {
			if err := l.inbox.Put(f.Payload); err != nil {
				return err
			}
		}
		if f.EOF() {
			l.inbox.Close(nil)
			l.heard(&l.sentAll)
		}
		return nil
	case wire.TypeCredit:
		if f.Channel() != wire.Outward {
			return wire.Violation("credit for a channel that is not open")
		}
		m, err := wire.DecodeCredit(f.Payload)
		if err != nil {
			return err
		}
		return l.credits.Grant(m.N)
	case wire.TypeStop:
		if f.Channel() != wire.Outward {
			return wire.Violation("stop of a channel that is not open")
		}
		l.credits.Close(errDetached)
		l.heard(&l.unheard)
		return nil
	case wire.TypeKill:
		_, err := wire.DecodeKill(f.Payload)
		l.drop()
		return err
	}
	return wire.Violation("unexpected frame type on a stream")
}

// heard notes that the client has ended one direction. When it has ended
// both, what it sent is still delivered, for a while.
func (l *link) heard(what *bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*what = true
	if l.file == nil || l.dropped {
		return
	}
	if l.unheard {
		_ = l.file.SetReadDeadline(time.Now())
	}
	if l.unheard && l.sentAll {
		_ = l.file.SetWriteDeadline(time.Now().Add(l.linger))
	}
}

// carry moves bytes until both directions have ended, closes the socket and
// sends the last answer.
func (l *link) carry(file *os.File) {
	delivered := make(chan struct{})
	go func() {
		defer close(delivered)
		l.pumpInward(file)
	}()
	err := l.pumpOutward(file)
	if err != nil {
		l.drop() // the connection broke: what is on its way inward is lost
	}
	<-delivered
	l.mu.Lock()
	if l.dropped {
		reset(file)
	}
	l.mu.Unlock()
	file.Close()
	if err != nil {
		l.answer(wire.TypeFailed, failure(wire.KindInternal, err).Encode())
		return
	}
	l.answer(wire.TypeDone, nil)
}
