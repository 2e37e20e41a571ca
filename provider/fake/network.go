package fake

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"

	"github.com/bulkhead-dev/sandbox"
)

// Bounds of the loopback.
const (
	firstPort = 32768 // of those that are given away
	backlog   = 128   // connections that wait to be accepted
)

// A network is the loopback of one run of a sandbox.
type network struct {
	mu        sync.Mutex
	closed    bool
	next      uint16
	listeners map[uint16]*listener
	conns     map[*conn]bool
}

func newNetwork() *network {
	return &network{next: firstPort, listeners: map[uint16]*listener{}, conns: map[*conn]bool{}}
}

// A listener is a listening port of the loopback interface.
type listener struct {
	n        *network
	h        *handle
	addr     netip.AddrPort
	incoming chan *conn
	once     sync.Once
	done     chan struct{}
}

// A conn is one end of a connection.
type conn struct {
	net.Conn
	n             *network
	h             *handle
	local, remote netip.AddrPort
}

func (c *conn) LocalAddr() net.Addr  { return net.TCPAddrFromAddrPort(c.local) }
func (c *conn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.remote) }

// Close implements [net.Conn].
func (c *conn) Close() error {
	c.n.mu.Lock()
	delete(c.n.conns, c)
	c.n.mu.Unlock()
	return c.Conn.Close()
}

// loopback takes an address apart. Only the loopback is there.
func (h *handle) loopback(op, kind, addr string) (netip.AddrPort, error) {
	bad := func(code sandbox.Code, field, message string, cause error) error {
		return &sandbox.Error{Code: code, Op: op, Field: field, Resource: h.spec.Name, Message: message, Err: cause}
	}
	if kind != "tcp" && kind != "tcp4" {
		return netip.AddrPort{}, bad(sandbox.CodeUnsupported, "network", "the fake knows tcp over IPv4 only", nil)
	}
	if port, ok := strings.CutPrefix(addr, "localhost:"); ok {
		addr = "127.0.0.1:" + port
	}
	a, err := netip.ParseAddrPort(addr)
	switch {
	case err != nil:
		return a, bad(sandbox.CodeValidation, "addr", "the address is no IP address with a port", err)
	case !a.Addr().IsLoopback():
		return a, bad(sandbox.CodeUnavailable, "addr", "the sandbox has only its loopback", syscall.ENETUNREACH)
	}
	return a, nil
}

// Dial implements [sandbox.Dialer].
func (h *handle) Dial(ctx context.Context, kind, addr string) (net.Conn, error) {
	if err := h.lacks(h.e.without.Dial, "dial"); err != nil {
		return nil, err
	}
	if err := h.step(ctx, "dial", StepNetwork); err != nil {
		return nil, err
	}
	to, err := h.loopback("dial", kind, addr)
	if err != nil {
		return nil, err
	}
	if c := h.boot.network.dial(h, to); c != nil {
		return c, nil
	}
	return nil, &sandbox.Error{
		Code: sandbox.CodeUnavailable, Op: "dial", Field: "addr", Resource: h.spec.Name,
		Message: "nobody listens at " + to.String(), Retryable: true, Err: syscall.ECONNREFUSED,
	}
}

func (n *network) dial(h *handle, to netip.AddrPort) net.Conn {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.listeners[to.Port()]
	if l == nil || n.closed {
		return nil
	}
	n.next++
	from := netip.AddrPortFrom(to.Addr(), n.next)
	a, b := net.Pipe()
	near := &conn{Conn: a, n: n, h: h, local: from, remote: to}
	far := &conn{Conn: b, n: n, h: l.h, local: to, remote: from}
	select {
	case l.incoming <- far:
	default:
		return nil
	}
	n.conns[near], n.conns[far] = true, true
	return near
}

// Listen implements [sandbox.Listener].
func (h *handle) Listen(ctx context.Context, kind, addr string) (net.Listener, error) {
	if err := h.lacks(h.e.without.Listen, "listen"); err != nil {
		return nil, err
	}
	if err := h.step(ctx, "listen", StepNetwork); err != nil {
		return nil, err
	}
	at, err := h.loopback("listen", kind, addr)
	if err != nil {
		return nil, err
	}
	n := h.boot.network
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, fell("listen", h.spec.Name)
	}
	for at.Port() == 0 {
		if n.next++; n.next != 0 && n.listeners[n.next] == nil {
			at = netip.AddrPortFrom(at.Addr(), n.next)
		}
	}
	if n.listeners[at.Port()] != nil {
		return nil, &sandbox.Error{
			Code: sandbox.CodeBusy, Op: "listen", Field: "addr", Resource: h.spec.Name, Retryable: true,
			Message: "the address is in use", Err: syscall.EADDRINUSE,
		}
	}
	l := &listener{n: n, h: h, addr: at, incoming: make(chan *conn, backlog), done: make(chan struct{})}
	n.listeners[at.Port()] = l
	return l, nil
}

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	select {
	case <-l.done:
		return nil, l.over()
	default:
	}
	select {
	case c := <-l.incoming:
		return c, nil
	case <-l.done:
		return nil, l.over()
	}
}

func (l *listener) over() error {
	return &net.OpError{Op: "accept", Net: "tcp", Addr: l.Addr(), Err: net.ErrClosed}
}

// Addr implements [net.Listener].
func (l *listener) Addr() net.Addr { return net.TCPAddrFromAddrPort(l.addr) }

// Close implements [net.Listener]. Connections that wait are closed.
func (l *listener) Close() error {
	l.n.mu.Lock()
	if l.n.listeners[l.addr.Port()] == l {
		delete(l.n.listeners, l.addr.Port())
	}
	l.n.mu.Unlock()
	err := error(net.ErrClosed)
	l.once.Do(func() { close(l.done); err = nil })
	for {
		select {
		case c := <-l.incoming:
			err = errors.Join(err, c.Close())
		default:
			return err
		}
	}
}

// closeOf closes what a handle has listened to and connected.
func (n *network) closeOf(h *handle) { n.closeAll(func(of *handle) bool { return of == h }) }

// close ends the network.
func (n *network) close() {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.closeAll(func(*handle) bool { return true })
}

func (n *network) closeAll(doomed func(*handle) bool) {
	var all []interface{ Close() error }
	n.mu.Lock()
	for _, l := range n.listeners {
		if doomed(l.h) {
			all = append(all, l)
		}
	}
	for c := range n.conns {
		if doomed(c.h) {
			all = append(all, c)
		}
	}
	n.mu.Unlock()
	for _, c := range all {
		c.Close() // a pipe and a port in memory; nothing is lost
	}
}
