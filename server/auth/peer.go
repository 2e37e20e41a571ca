package auth

import (
	"context"
	"net"
)

// A peer is the user at the other end of a unix socket, as the kernel recorded
// it when the connection was made.
type peer struct {
	uid   int
	known bool
	alien bool // the process lives in another pid, mount or user namespace, or that cannot be found out
}

// trusted reports whether the peer may do whatever our own user may: it runs as
// our user or as root, in the namespaces of this process. A process that has
// only been given the socket, as by the mount of a container, is not trusted.
func (p peer) trusted(own int) bool { return p.known && !p.alien && (p.uid == 0 || p.uid == own) }

type peerKey struct{}

// ConnContext is for the field of that name of an http.Server. It stores the
// peer of a unix socket in the context; without it no request is taken for one
// of a user of this machine.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	unix, ok := unwrap(c).(*net.UnixConn)
	if !ok {
		return ctx
	}
	return context.WithValue(ctx, peerKey{}, look(unix))
}

// unwrap returns the connection below the wrappers of listeners and TLS.
func unwrap(c net.Conn) net.Conn {
	for range 8 {
		over, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return c
		}
		c = over.NetConn()
	}
	return nil
}

// peerOf returns the peer of a connection's context, and whether the connection
// is one over a unix socket.
func peerOf(ctx context.Context) (peer, bool) {
	p, ok := ctx.Value(peerKey{}).(peer)
	return p, ok
}
