package sdk

import (
	"context"
	"net"
	"net/url"

	"github.com/coder/websocket"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/stream"
)

// A dialer is a handle that takes connections.
type providerDialer struct{ h *handle }

// Dial implements sandbox.Dialer.
func (d providerDialer) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := d.h.socket(ctx, "dial", network, addr)
	if err != nil {
		return nil, err
	}
	return stream.NewConn(conn, far{network, addr}), nil
}

// A listener is a handle in which can be listened.
type listener struct{ h *handle }

// Listen implements sandbox.Listener. Connections go over one WebSocket with
// the listener; its end, or that of the handle, is theirs. How many there are at
// once is bounded by the daemon; further ones wait inside.
func (l listener) Listen(ctx context.Context, network, addr string) (net.Listener, error) {
	h := l.h
	conn, err := h.socket(ctx, "listen", network, addr)
	if err != nil {
		return nil, err
	}
	ctx, done, err := h.within(ctx, "listen")
	if err != nil {
		_ = conn.CloseNow() // the daemon closes what it has opened
		return nil, err
	}
	defer done()
	in, err := stream.OpenForward(ctx, h.ctx, conn, h.p.o.Stream)
	if err != nil {
		return nil, h.honest(ctx, "listen", err)
	}
	return in, nil
}

// socket opens the WebSocket of something with an address inside.
func (h *handle) socket(ctx context.Context, op, network, addr string) (*websocket.Conn, error) {
	bound, done, err := h.within(ctx, op)
	if err != nil {
		return nil, err
	}
	defer done()
	bound, cancel := context.WithTimeout(bound, h.p.o.Query)
	defer cancel()
	conn, _, err := h.p.c.Socket(bound, op, h.path("/"+op), url.Values{"network": {network}, "addr": {addr}})
	if err != nil {
		return nil, h.honest(ctx, op, err)
	}
	return conn, nil
}

// far is an address inside.
type far struct{ network, addr string }

func (f far) Network() string { return f.network }
func (f far) String() string  { return f.addr }

var (
	_ sandbox.Dialer   = providerDialer{}
	_ sandbox.Listener = listener{}
)
