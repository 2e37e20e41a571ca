//go:build linux

package server

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

// forwardBacklog is how many connections the kernel keeps for a listener
// that does not accept.
const forwardBacklog = 128

// A gateway is a listener whose connections are forwarded to the client.
type gateway struct {
	conn  *conn
	id    uint32
	slots chan struct{} // holds a token for each open connection

	once sync.Once
	shut chan struct{} // closed when it is to end
	gone atomic.Bool   // the client has gone: the listener falls with its connection

	file *os.File
	path string      // of a Unix socket, else empty
	made unix.Stat_t // the inode at path
}

// listen opens the stream of a listener at an endpoint inside.
func (c *conn) listen(f wire.Frame) error {
	m, err := wire.DecodeListen(f.Payload)
	if err != nil {
		return err
	}
	select {
	case c.srv.forwards <- struct{}{}:
	default:
		return c.refuse(f.Stream, wire.KindResource, "too many forwarded connections at once")
	}
	g := &gateway{conn: c, id: f.Stream, slots: make(chan struct{}, m.Max), shut: make(chan struct{})}
	c.begin(g.id, g, false)
	go func() {
		defer func() { <-c.srv.forwards }()
		g.run(m.At)
	}()
	return nil
}

// event implements stream.
func (g *gateway) event(f wire.Frame) error {
	if f.Type != wire.TypeKill {
		return wire.Violation("unexpected frame type on a stream")
	}
	_, err := wire.DecodeKill(f.Payload)
	g.end()
	return err
}

func (g *gateway) end() { g.once.Do(func() { close(g.shut) }) }

// disconnect implements stream.
func (g *gateway) disconnect() {
	g.gone.Store(true)
	g.end()
}

// run listens until the client ends it, and sends the last answer.
func (g *gateway) run(at wire.Endpoint) {
	defer g.conn.finished(g.id, false)
	if err := g.open(at, forwardBacklog); err != nil {
		g.answer(wire.TypeFailed, connectFailure(err).Encode())
		return
	}
	over := make(chan struct{})
	go func() { // wakes an accept that waits
		select {
		case <-g.shut:
			_ = g.file.SetReadDeadline(time.Now())
		case <-over:
		}
	}()
	defer g.conn.srv.own.add(g.file)()
	local, _ := endpointsOf(g.file)
	g.answer(wire.TypeListening, wire.Listening{At: local}.Encode())
	err := g.accept()
	close(over)
	g.close()
	if err != nil {
		g.answer(wire.TypeFailed, failure(wire.KindInternal, err).Encode())
		return
	}
	g.answer(wire.TypeDone, nil)
}

func (g *gateway) answer(t wire.Type, payload []byte) {
	if g.gone.Load() {
		return
	}
	// A failed write is the connection's end, which its reader sees too.
	_ = g.conn.w.Write(wire.Frame{Type: t, Stream: g.id, Payload: payload})
}

// open makes the listening socket.
func (g *gateway) open(at wire.Endpoint, backlog int) error {
	sa, family := sockaddr(at)
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	switch family {
	case unix.AF_INET6:
		// An address is what it says: all of IPv6 is not also all of IPv4.
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1)
		fallthrough
	case unix.AF_INET:
		if err == nil {
			err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
		}
	}
	if err == nil {
		err = unix.Bind(fd, sa)
	}
	if err != nil {
		unix.Close(fd)
		return err
	}
	g.file = os.NewFile(uintptr(fd), "listener")
	if family == unix.AF_UNIX {
		g.path = at.Host
		err = unix.Lstat(g.path, &g.made)
	}
	if err == nil {
		err = unix.Listen(fd, backlog)
	}
	if err != nil {
		g.close()
	}
	return err
}

// close ends the socket, and removes its path if that is still ours. Code
// inside may put something else there in between, as it may at any time:
// we can remove nothing that it could not remove itself.
func (g *gateway) close() {
	g.file.Close()
	if g.path == "" {
		return
	}
	var st unix.Stat_t
	if unix.Lstat(g.path, &st) == nil && st.Ino == g.made.Ino && st.Dev == g.made.Dev {
		_ = unix.Unlink(g.path)
	}
}

// accept takes connections until the client ends it, at most as many at once as
// there are slots: the others wait in the kernel, or are refused there.
func (g *gateway) accept() error {
	raw, err := g.file.SyscallConn()
	if err != nil {
		return err
	}
	for {
		if !g.reserve() {
			return nil
		}
		fd, from, err := acceptFrom(raw.Read)
		if err == nil && g.admit(fd, from) {
			continue
		}
		g.release()
		switch {
		case err == nil || err == unix.ECONNABORTED || err == unix.EINTR:
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		case err == unix.EMFILE || err == unix.ENFILE || err == unix.ENOMEM || err == unix.ENOBUFS:
			select {
			case <-time.After(10 * time.Millisecond): // until some are given back
			case <-g.shut:
			}
		default:
			return err
		}
	}
}

// acceptFrom accepts one connection. It returns the peer's address, because the
// kernel no longer knows that of a connection that has broken meanwhile.
func acceptFrom(rawRead func(func(uintptr) bool) error) (fd int, from wire.Endpoint, err error) {
	waitErr := rawRead(func(l uintptr) bool {
		var sa unix.Sockaddr
		fd, sa, err = unix.Accept4(int(l), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		from = endpoint(sa)
		return err != unix.EAGAIN
	})
	if waitErr != nil {
		err = waitErr
	}
	return fd, from, err
}

// reserve waits for the right to one more connection; it reports false when
// the listener is to end.
func (g *gateway) reserve() bool {
	select {
	case <-g.shut:
		return false
	case g.slots <- struct{}{}:
	}
	select {
	case <-g.shut:
		<-g.slots
		return false
	case g.conn.srv.forwards <- struct{}{}:
		return true
	}
}

func (g *gateway) release() {
	<-g.slots
	<-g.conn.srv.forwards
}

// admit carries the connection fd with a stream of its own. It reports false,
// and closes fd, when there can be none. Accepted has been sent when admit
// returns, because the client must receive none after the listener's end.
func (g *gateway) admit(fd int, from wire.Endpoint) bool {
	if g.path == "" {
		atOnce(fd, unix.AF_INET)
	}
	l := newLink(g.conn)
	l.file = os.NewFile(uintptr(fd), "accepted")
	if !g.conn.beginAccepted(l) {
		l.file.Close()
		return false
	}
	local, _ := endpointsOf(l.file)
	l.answer(wire.TypeAccepted, wire.Accepted{Listener: g.id, Local: local, Remote: from}.Encode())
	go func() {
		// The client counts until the last answer, so the slot is given
		// back after it.
		defer g.release()
		defer g.conn.finished(l.id, false)
		l.carry(l.file)
	}()
	return true
}
