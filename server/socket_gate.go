package server

import (
	"container/list"
	"net"
	"net/netip"
	"sync"

	"golang.org/x/sys/unix"
)

// socketRoom is how many TCP connections a [socketGate] holds open.
type socketRoom struct {
	All     int // of every kind; the remaining descriptors are for other files
	Unknown int // of those by which no caller was identified yet
	Each    int // of those, from one address
}

// roomNow returns the room for the descriptor limit of this process: half of the
// descriptors are reserved for unix sockets, sandboxes and files.
func roomNow() socketRoom {
	var limit unix.Rlimit
	most := uint64(1024)
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err == nil {
		most = limit.Cur // Go has raised it to the hard limit
	}
	all := int(max(4, min(most/2, 1<<15)))
	unknown := max(2, min(all/2, 2048))
	return socketRoom{All: all, Unknown: unknown, Each: max(1, unknown/4)}
}

// A socketGate bounds the TCP connections whose caller has not been identified,
// so that clients that only connect take no descriptors from identified callers.
// A connection is unknown from its acceptance until [socketConn.Known]. Where there
// are too many the gate closes the oldest unknown one of the address, or of all:
// a client with a token sends it at once. Several listeners can share a Gate.
type socketGate struct {
	room socketRoom

	mu      sync.Mutex
	all     int
	unknown *list.List // of *Conn, the oldest first
	from    map[netip.Addr]*list.List
}

// newGate returns a gate without connections.
func newGate(r socketRoom) *socketGate {
	return &socketGate{room: r, unknown: list.New(), from: map[netip.Addr]*list.List{}}
}

// Listener returns l with its TCP connections bounded; other connections are
// not.
func (g *socketGate) Listener(l net.Listener) net.Listener {
	if t, ok := l.(*net.TCPListener); ok {
		return gated{t, g}
	}
	return l
}

type gated struct {
	*net.TCPListener
	gate *socketGate
}

// Accept implements [net.Listener]. It closes a connection for which there is no
// room, and waits for the next one.
func (l gated) Accept() (net.Conn, error) {
	for {
		c, err := l.AcceptTCP()
		if err != nil {
			return nil, err
		}
		if in := l.gate.enter(c); in != nil {
			return in, nil
		}
		c.Close()
	}
}

// A socketConn is a TCP connection that a Gate counts.
type socketConn struct {
	*net.TCPConn
	gate *socketGate
	addr netip.Addr

	in, of *list.Element // in the lists of unknown ones; nil when it is known. Of the gate's lock.
	gone   bool          // of the gate's lock
}

// enter counts a connection, or returns nil where there is no room.
func (g *socketGate) enter(c *net.TCPConn) *socketConn {
	in := &socketConn{TCPConn: c, gate: g, addr: group(c.RemoteAddr())}
	g.mu.Lock()
	var out []*socketConn
	mine := g.from[in.addr]
	if mine != nil && mine.Len() >= g.room.Each {
		out = append(out, g.leave(mine.Front().Value.(*socketConn)))
	}
	if g.unknown.Len() >= g.room.Unknown {
		out = append(out, g.leave(g.unknown.Front().Value.(*socketConn)))
	}
	if g.all >= g.room.All && g.unknown.Len() > 0 {
		out = append(out, g.leave(g.unknown.Front().Value.(*socketConn)))
	}
	fits := g.all < g.room.All
	if fits {
		if mine = g.from[in.addr]; mine == nil {
			mine = list.New()
			g.from[in.addr] = mine
		}
		in.in, in.of = g.unknown.PushBack(in), mine.PushBack(in)
		g.all++
	}
	g.mu.Unlock()
	for _, c := range out {
		_ = c.TCPConn.Close() // no request has arrived on it
	}
	if !fits {
		return nil
	}
	return in
}

// leave stops counting c. The lock is held.
func (g *socketGate) leave(c *socketConn) *socketConn {
	if !c.gone {
		c.gone = true
		g.all--
		g.know(c)
	}
	return c
}

// know removes c from the unknown ones. The lock is held.
func (g *socketGate) know(c *socketConn) {
	if c.in == nil {
		return
	}
	g.unknown.Remove(c.in)
	mine := g.from[c.addr]
	if mine.Remove(c.of); mine.Len() == 0 {
		delete(g.from, c.addr)
	}
	c.in, c.of = nil, nil
}

// Known marks the connection as one whose caller was identified.
func (c *socketConn) Known() {
	c.gate.mu.Lock()
	defer c.gate.mu.Unlock()
	c.gate.know(c)
}

// Close implements [net.Conn].
func (c *socketConn) Close() error {
	c.gate.mu.Lock()
	c.gate.leave(c)
	c.gate.mu.Unlock()
	return c.TCPConn.Close()
}

// group returns the address for which a connection counts: for IPv6 the network
// of 64 bits, because one machine has all its addresses.
func group(a net.Addr) netip.Addr {
	at, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Addr{}
	}
	addr := at.Addr().Unmap().WithZone("")
	if addr.Is4() || addr.IsLoopback() {
		return addr
	}
	p, err := addr.Prefix(64)
	if err != nil {
		return addr
	}
	return p.Addr()
}
