package fake_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider/providertest"
)

// egressMutants break what the egress proxy of a sandbox needs of its
// provider.
func egressMutants() []mutant {
	return []mutant{
		{"a connection drops bytes", "a way out carries plain HTTP to an allowed host", with(broken{
			dial: dropping(4096)})},
		{"a connection turns zeros", "a way out carries CONNECT to an allowed host", with(broken{
			dial: through(func(c net.Conn, b []byte) (int, error) {
				_, err := c.Write(bytes.ReplaceAll(b, []byte{0}, []byte{1}))
				return len(b), err
			})})},
		{"a connection is text", "a way out carries SOCKS5 to an allowed host", with(broken{
			dial: through(func(c net.Conn, b []byte) (int, error) {
				_, err := c.Write(bytes.ReplaceAll(b, []byte{0}, nil))
				return len(b), err
			})})},
		{"a connection hides refusals", "a way out refuses another host with the rule", with(broken{
			dial: func(d sandbox.Dialer, ctx context.Context, network, addr string) (net.Conn, error) {
				c, err := d.Dial(ctx, network, addr)
				if err != nil {
					return nil, err
				}
				return hiding{c}, nil
			}})},
		{"the network is the host's", "without a way out nothing is reached", with(broken{
			dial: func(_ sandbox.Dialer, ctx context.Context, network, addr string) (net.Conn, error) {
				var d net.Dialer
				c, err := d.DialContext(ctx, network, addr)
				if err != nil {
					return nil, &sandbox.Error{Code: sandbox.CodeUnavailable, Err: err}
				}
				return c, nil
			}})},
		{"there is a second interface", "without a way out nothing is reached", func(h *providertest.Harness) {
			h.Programs.Interfaces = func() sandbox.Command { return sandbox.Command{Args: []string{"printf", `lo\neth0\n`}} }
		}},
		{"all sandboxes share one loopback", "a way out serves its own sandbox alone", oneLoopback},
		{"a listener is not let go", "a way out ends with its plane", with(broken{
			listen: func(l sandbox.Listener, ctx context.Context, network, addr string) (net.Listener, error) {
				in, err := l.Listen(ctx, network, addr)
				if err != nil {
					return nil, err
				}
				return &clinging{Listener: in, done: make(chan struct{})}, nil
			}})},
		{"a listener outlives its sandbox", "a way out ends with its sandbox", with(broken{
			listen: func(_ sandbox.Listener, ctx context.Context, network, addr string) (net.Listener, error) {
				var c net.ListenConfig
				return c.Listen(ctx, network, addr)
			},
			dial: func(_ sandbox.Dialer, ctx context.Context, network, addr string) (net.Conn, error) {
				var d net.Dialer
				return d.DialContext(ctx, network, addr)
			}})},
		{"a listener outlives its handle", "a way out ends with its handle", with(broken{
			close: func(sandbox.Sandbox) error { return nil }})},
	}
}

// dropping lets so many bytes come back from each connection.
func dropping(n int64) func(sandbox.Dialer, context.Context, string, string) (net.Conn, error) {
	return func(d sandbox.Dialer, ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := d.Dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return short{c, io.LimitReader(c, n)}, nil
	}
}

type short struct {
	net.Conn
	r io.Reader
}

func (s short) Read(b []byte) (int, error) { return s.r.Read(b) }

// hiding turns refusals into consent.
type hiding struct{ net.Conn }

func (h hiding) Read(b []byte) (int, error) {
	n, err := h.Conn.Read(b)
	copy(b, bytes.ReplaceAll(b[:n], []byte(" 403 "), []byte(" 200 ")))
	return n, err
}

// oneLoopback dials in the first sandbox, whichever is meant.
func oneLoopback(h *providertest.Harness) {
	var mu sync.Mutex
	var first sandbox.Listener
	with(broken{
		listen: func(l sandbox.Listener, ctx context.Context, network, addr string) (net.Listener, error) {
			mu.Lock()
			if first == nil {
				first = l
			}
			mu.Unlock()
			return l.Listen(ctx, network, addr)
		},
		dial: func(d sandbox.Dialer, ctx context.Context, network, addr string) (net.Conn, error) {
			mu.Lock()
			defer mu.Unlock()
			if shared, ok := first.(sandbox.Dialer); ok {
				d = shared
			}
			return d.Dial(ctx, network, addr)
		},
	})(h)
}

// A clinging listener says that it is closed and keeps its address.
type clinging struct {
	net.Listener
	once sync.Once
	done chan struct{}
}

func (c *clinging) Accept() (net.Conn, error) {
	type accepted struct {
		c   net.Conn
		err error
	}
	got := make(chan accepted, 1)
	go func() {
		conn, err := c.Listener.Accept()
		got <- accepted{conn, err}
	}()
	select {
	case a := <-got:
		return a.c, a.err
	case <-c.done:
		return nil, net.ErrClosed
	}
}

func (c *clinging) Close() error {
	c.once.Do(func() { close(c.done) })
	return nil
}
