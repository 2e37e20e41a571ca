package egress

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

func anything(netip.Addr, uint16) network.Decision {
	return network.Decision{Verdict: policy.Allow}
}

// A resolving function is a resolver.
type resolving func(ctx context.Context, network, host string) ([]netip.Addr, error)

func (f resolving) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	return f(ctx, network, host)
}

func answering(list ...string) resolving {
	return func(context.Context, string, string) ([]netip.Addr, error) { return addrs(list...), nil }
}

// TestLookupFails checks the error for a failed lookup, and that the lookup
// respects its timeout.
func TestLookupFails(t *testing.T) {
	secretServer := &net.DNSError{Err: "server misbehaving", Name: "web.example", Server: "10.9.8.7:53"}
	hangs := func(ctx context.Context, _, _ string) ([]netip.Addr, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	tests := map[string]struct {
		resolver resolving
		host     network.Host
		within   time.Duration
		timeout  bool
		message  string
	}{
		"hangs": {hangs, host(t, "web.example"), defaultLookupTimeout, true, "looking up web.example took too long"},
		"down": {func(context.Context, string, string) ([]netip.Addr, error) { return nil, secretServer },
			host(t, "web.example"), 0, false, "web.example cannot be looked up"},
		"unknown": {func(context.Context, string, string) ([]netip.Addr, error) {
			return nil, &net.DNSError{Err: "no such host", IsNotFound: true}
		}, host(t, "web.example"), 0, false, "web.example does not exist"},
		"says nothing":      {answering(), host(t, "web.example"), 0, false, "web.example cannot be looked up"},
		"answers and fails": {func(context.Context, string, string) ([]netip.Addr, error) { return addrs("1.1.1.1"), secretServer }, host(t, "web.example"), 0, false, "web.example cannot be looked up"},
		"no host":           {answering("1.1.1.1"), network.Host{}, 0, false, "there is no host to look up"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &dialler{}
				start := time.Now()
				_, _, err := NewDialer(DialerOptions{Resolver: tt.resolver, Dial: d.dial}).Dial(t.Context(), tt.host, 443, anything)
				var unresolved *dialUnresolved
				if !errors.As(err, &unresolved) || unresolved.Timeout != tt.timeout || err.Error() != tt.message || time.Since(start) != tt.within {
					t.Errorf("%v after %v", err, time.Since(start))
				}
				want := sandbox.CodeUnavailable
				if tt.timeout {
					want = sandbox.CodeTimeout
				}
				if sandbox.CodeOf(err) != want || len(d.seen) != 0 {
					t.Errorf("code %s, dialled %v", sandbox.CodeOf(err), d.seen)
				}
			})
		})
	}
}

// hanging returns a dial function whose listed addresses never answer, until
// the attempt is cancelled.
func hanging(list ...string) func(context.Context, netip.AddrPort) (net.Conn, error) {
	return func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
		if slices.Contains(list, to.Addr().String()) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return leading{to: to}, nil
	}
}

// TestBlackHole checks that an address that does not answer costs its head
// start and no more.
func TestBlackHole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		r := NewDialer(DialerOptions{Resolver: answering("2606:4700::1", "1.1.1.1"), Dial: hanging("2606:4700::1")})
		_, at, err := r.Dial(t.Context(), host(t, "web.example"), 443, anything)
		if d := time.Since(start); err != nil || at.String() != "1.1.1.1:443" || d != 300*time.Millisecond {
			t.Errorf("%v, %v after %v", at, err, d)
		}
		synctest.Wait() // the cancelled attempt has ended, or the test would not
	})
}

func TestNobodyAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		r := NewDialer(DialerOptions{Resolver: answering("1.1.1.1", "1.1.1.2"), Dial: hanging("1.1.1.1", "1.1.1.2")})
		_, _, err := r.Dial(t.Context(), host(t, "web.example"), 443, anything)
		var unreachable *dialUnreachable
		if !errors.As(err, &unreachable) || !unreachable.Timeout || sandbox.CodeOf(err) != sandbox.CodeTimeout || unreachable.Addr.String() != "1.1.1.1:443" {
			t.Errorf("%v", err)
		}
		if d := time.Since(start); d != defaultDialTimeout || err.Error() != "web.example:443 did not answer in time" {
			t.Errorf("%v after %v", err, d)
		}
	})
}

func TestCalledOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		start := time.Now()
		r := NewDialer(DialerOptions{Resolver: answering("1.1.1.1", "1.1.1.2"), Dial: hanging("1.1.1.1", "1.1.1.2")})
		_, _, err := r.Dial(ctx, host(t, "web.example"), 443, anything)
		var unreachable *dialUnreachable
		if !errors.As(err, &unreachable) || unreachable.Timeout || !errors.Is(err, context.Canceled) || time.Since(start) != time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// TestLateConnection checks that a connection from a dial that ignored its
// cancellation is closed.
func TestLateConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed := make(chan struct{})
		slow := func(_ context.Context, to netip.AddrPort) (net.Conn, error) {
			if to.Addr().String() == "1.1.1.1" {
				time.Sleep(time.Minute)
				return leading{to: to, closed: closed}, nil
			}
			return leading{to: to}, nil
		}
		r := NewDialer(DialerOptions{Resolver: answering("1.1.1.1", "1.1.1.2"), Dial: slow})
		if _, at, err := r.Dial(t.Context(), host(t, "web.example"), 443, anything); err != nil || at.String() != "1.1.1.2:443" {
			t.Fatalf("%v, %v", at, err)
		}
		<-closed
	})
}

// TestLeadsElsewhere checks that the remote address of a connection is
// compared with the dialled one.
func TestLeadsElsewhere(t *testing.T) {
	for _, elsewhere := range []string{"127.0.0.1:443", "1.1.1.1:444", "1.1.1.2:443"} {
		closed := make(chan struct{})
		r := NewDialer(DialerOptions{Dial: func(context.Context, netip.AddrPort) (net.Conn, error) {
			return leading{to: netip.MustParseAddrPort(elsewhere), closed: closed}, nil
		}})
		_, _, err := r.Dial(t.Context(), host(t, "1.1.1.1"), 443, anything)
		var unreachable *dialUnreachable
		if !errors.As(err, &unreachable) {
			t.Errorf("%s: %v", elsewhere, err)
		}
		<-closed
	}
}

// listening returns a host on loopback that answers "hello".
func listening(t *testing.T, addr string) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		testenv.Lack(t, addr, err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "hello")
			_ = c.Close()
		}
	}()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// TestTCP checks the options of real connections.
func TestTCP(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:0", "[::1]:0"} {
		t.Run(addr, func(t *testing.T) {
			to := listening(t, addr)
			c, at, err := NewDialer(DialerOptions{Resolver: answering(to.Addr().String())}).Dial(t.Context(), host(t, "web.example"), to.Port(), anything)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if got, err := io.ReadAll(c); at != to || string(got) != "hello" || err != nil {
				t.Errorf("%v, %q, %v", at, got, err)
			}
			raw, err := c.(*net.TCPConn).SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			const keepIdle = 4 // TCP_KEEPIDLE of Linux, which other systems call something else
			_ = raw.Control(func(fd uintptr) {
				for option, want := range map[[2]int]int{
					{unix.IPPROTO_TCP, unix.TCP_NODELAY}: 1, {unix.SOL_SOCKET, unix.SO_KEEPALIVE}: 1, {unix.IPPROTO_TCP, keepIdle}: 30,
				} {
					if got, err := unix.GetsockoptInt(int(fd), option[0], option[1]); got != want || err != nil {
						t.Errorf("option %v is %d, %v", option, got, err)
					}
				}
			})
		})
	}
}

// TestRefusedByHost checks the error for a port without a listener.
func TestRefusedByHost(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	to := l.Addr().(*net.TCPAddr).AddrPort()
	l.Close()
	_, at, err := NewDialer(DialerOptions{Resolver: answering("127.0.0.1")}).Dial(t.Context(), host(t, "web.example"), to.Port(), anything)
	var unreachable *dialUnreachable
	if !errors.As(err, &unreachable) || !errors.Is(err, syscall.ECONNREFUSED) || at != to || !strings.HasSuffix(err.Error(), "cannot be reached: connection refused") {
		t.Errorf("%v, %v", at, err)
	}
}
