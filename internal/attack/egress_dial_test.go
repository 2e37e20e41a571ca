package attack

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/egress"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestAbandoned has programs request hosts that accept no connection, and
// disconnect: pending dials end with them, so that there are never more of
// these than allowed connections.
func TestAbandoned(t *testing.T) {
	var open atomic.Int64
	began := make(chan struct{}, 1000)
	silent := raw(t, func(c net.Conn) { io.Copy(io.Discard, c) }) // takes no TLS
	for name, tt := range map[string]struct {
		dial func(context.Context, netip.AddrPort) (net.Conn, error)
		host string
	}{
		"connections": {func(ctx context.Context, _ netip.AddrPort) (net.Conn, error) {
			open.Add(1)
			defer open.Add(-1)
			began <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		}, testenv.Echo},
		"TLS": {func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, "tcp", to.String())
			if err != nil {
				return nil, err
			}
			open.Add(1)
			began <- struct{}{}
			return &counting{c, &open}, nil
		}, "bound.test"},
	} {
		t.Run(name, func(t *testing.T) {
			at := tt.host + ":" + itoa(silent)
			r := egressNewRig(t, setup{rules: []string{at, "127.0.0.1:" + itoa(silent)}, secret: []string{"bound.test:" + itoa(silent)}, change: func(p *egress.Options, o *egress.SessionOptions) {
				p.Dialer = egress.NewDialer(egress.DialerOptions{Resolver: home{}, Dial: tt.dial})
				o.Limits = egress.Limits{Connections: 4}
			}})
			for range 20 {
				k := newTalk(r.dial())
				if name == "TLS" {
					fmt.Fprintf(k, "CONNECT %s HTTP/1.1\r\n\r\n", at)
					k.answer("CONNECT")
					over := tls.Client(k.Conn, &tls.Config{ServerName: tt.host, RootCAs: r.ours})
					must(t, over.Handshake())
					k = newTalk(over)
					fmt.Fprintf(k, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", at)
				} else {
					fmt.Fprintf(k, "GET http://%s/ HTTP/1.1\r\nHost: %s\r\n\r\n", at, at)
				}
				select {
				case <-began:
				case <-time.After(patience):
					t.Fatal("nothing is dialled")
				}
				k.Close()
				r.drained()
			}
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for until := time.Now().Add(patience); open.Load() > 0; <-tick.C {
				if time.Now().After(until) {
					t.Fatalf("%d attempts go on for programs that are gone", open.Load())
				}
			}
		})
	}
}

// A counting connection is counted until it is closed.
type counting struct {
	net.Conn
	open *atomic.Int64
}

func (c *counting) Close() error {
	err := c.Conn.Close()
	if err == nil {
		c.open.Add(-1)
	}
	return err
}

// home resolves every name to 127.0.0.1.
type home struct{}

func (home) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, nil
}

// TestReported checks that no connection is made to a host without a record of it,
// however early the program disconnects.
func TestReported(t *testing.T) {
	host := listen(t, "")
	r := egressNewRig(t, setup{rules: []string{"bare.test:" + itoa(host.port), "127.0.0.1:" + itoa(host.port)}})
	for i, said := range []string{"", "G", "GET / HT", "GET / HTTP/1.1\r\nHost: bare", "\x16", "\x16\x03\x01\x00\x50\x01"} {
		k := r.connect("bare.test:" + itoa(host.port))
		io.WriteString(k, said)
		k.Close()
		host.got(t)
		r.drained()
		r.mu.Lock()
		if got := r.events; len(got) == 0 || got[len(got)-1].Host != "bare.test" {
			t.Errorf("%d: %q leaves no record: %+v", i, said, got)
		}
		r.events = nil
		r.mu.Unlock()
	}
}
