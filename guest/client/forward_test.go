package client_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
)

// forwardWithin bounds what a test of forwarding waits for.
const forwardWithin = patience

func dial(t testing.TB, c *client.Client, network, addr string) net.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), forwardWithin)
	defer cancel()
	conn, err := c.Dial(ctx, network, addr)
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

func listen(t testing.TB, c *client.Client, network, addr string) net.Listener {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), forwardWithin)
	defer cancel()
	l, err := c.Listen(ctx, network, addr)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

// forwardPipe is a connection inside with both ends forwarded: near was dialled
// and far accepted.
func forwardPipe(t testing.TB, c *client.Client, network string) (near, far net.Conn) {
	t.Helper()
	addr := "127.0.0.1:0"
	if network == "unix" {
		addr = socketPath(t)
	}
	l := listen(t, c, network, addr)
	defer l.Close()
	var wg sync.WaitGroup
	wg.Go(func() { near = dial(t, c, network, l.Addr().String()) })
	far, err := l.Accept()
	must(t, err)
	wg.Wait()
	t.Cleanup(func() { far.Close() })
	return near, far
}

// socketPath returns a path for a Unix socket that the guest may make.
func socketPath(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "fw")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o777))
	return filepath.Join(dir, "s")
}

// TestForwardErrors holds what callers may rely on in an error.
func TestForwardErrors(t *testing.T) {
	g := startGuest(t)
	c := g.client(client.Options{Name: "box"})
	ctx, cancel := context.WithTimeout(context.Background(), forwardWithin)
	defer cancel()
	used := listen(t, c, "tcp", "127.0.0.1:0").Addr().String()
	path := socketPath(t)
	listen(t, c, "unix", path)
	dial := func(network, addr string) func() error {
		return func() error { _, err := c.Dial(ctx, network, addr); return err }
	}
	listen := func(network, addr string) func() error {
		return func() error { _, err := c.Listen(ctx, network, addr); return err }
	}
	for name, tt := range map[string]struct {
		call  func() error
		code  sandbox.Code
		cause error
	}{
		"the client has detached":      {dial("tcp", "127.0.0.1:1"), sandbox.CodeExecution, syscall.ECONNREFUSED},
		"nobody listens at localhost":  {dial("tcp", "localhost:1"), sandbox.CodeExecution, syscall.ECONNREFUSED},
		"no route":                     {dial("tcp", "192.0.2.1:80"), sandbox.CodeExecution, syscall.ENETUNREACH},
		"no socket":                    {dial("unix", "/nowhere"), sandbox.CodeExecution, fs.ErrNotExist},
		"the guest's own socket":       {dial("unix", g.dir+"/guest.sock"), "", nil},
		"a file":                       {dial("unix", "/etc/passwd"), sandbox.CodeExecution, nil},
		"a name":                       {dial("tcp", "example.com:80"), sandbox.CodeValidation, nil},
		"a name that is nearly a host": {dial("tcp", "127.1:80"), sandbox.CodeValidation, nil},
		"a zone":                       {dial("tcp", "[fe80::1%lo]:80"), sandbox.CodeValidation, nil},
		"no host":                      {dial("tcp", ":80"), sandbox.CodeValidation, nil},
		"no port":                      {dial("tcp", "127.0.0.1"), sandbox.CodeValidation, nil},
		"a service":                    {dial("tcp", "127.0.0.1:http"), sandbox.CodeValidation, nil},
		"port 0":                       {dial("tcp", "127.0.0.1:0"), sandbox.CodeValidation, nil},
		"port 65536":                   {dial("tcp", "127.0.0.1:65536"), sandbox.CodeValidation, nil},
		"another network":              {dial("udp", "127.0.0.1:80"), sandbox.CodeValidation, nil},
		"an abstract socket":           {dial("unix", "@bulkhead-sandbox-guest"), sandbox.CodeValidation, nil},
		"an abstract socket, raw":      {dial("unix", "\x00bulkhead-sandbox-guest"), sandbox.CodeValidation, nil},
		"a relative path":              {dial("unix", "s"), sandbox.CodeValidation, nil},
		"a long path":                  {dial("unix", "/"+strings.Repeat("x", 107)), sandbox.CodeValidation, nil},
		"IPv6 as tcp4":                 {dial("tcp4", "[::1]:80"), sandbox.CodeValidation, nil},
		"IPv4 as tcp6":                 {dial("tcp6", "127.0.0.1:80"), sandbox.CodeValidation, nil},
		"listen at a name":             {listen("tcp", "example.com:0"), sandbox.CodeValidation, nil},
		"listen in use":                {listen("tcp", used), sandbox.CodeBusy, syscall.EADDRINUSE},
		"listen at a path in use":      {listen("unix", path), sandbox.CodeBusy, syscall.EADDRINUSE},
		"listen elsewhere":             {listen("tcp", "192.0.2.1:0"), sandbox.CodeExecution, syscall.EADDRNOTAVAIL},
		"listen at no folder":          {listen("unix", "/nowhere/s"), sandbox.CodeExecution, fs.ErrNotExist},
		"listen where root may":        {listen("unix", "/s"), sandbox.CodeExecution, fs.ErrPermission},
	} {
		t.Run(name, func(t *testing.T) {
			err := tt.call()
			if sandbox.CodeOf(err) != tt.code || tt.cause != nil && !errors.Is(err, tt.cause) {
				t.Fatalf("got %v, want %s and %v", err, tt.code, tt.cause)
			}
			var e *sandbox.Error
			if errors.As(err, &e) && (e.Resource != "box" || e.Field == "") {
				t.Errorf("it does not say where: %+v", e)
			}
		})
	}
	must(t, c.Ping(ctx))
}

// TestGuestDoesNotServeItself: the guest connects to its own socket like
// anybody inside, and serves it no more than them.
func TestGuestDoesNotServeItself(t *testing.T) {
	g := startGuest(t)
	c := g.client(client.Options{})
	conn := dial(t, c, "unix", g.dir+"/guest.sock")
	must(t, conn.SetDeadline(time.Now().Add(forwardWithin)))
	if n, err := conn.Read(make([]byte, 1)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("it answered %d bytes, %v", n, err)
	}
	for _, d := range g.client(client.Options{}).Hello().Degraded {
		if strings.Contains(d, "who connects") {
			t.Errorf("the guest took itself for a stranger: %s", d)
		}
	}
}

func TestForwardAddresses(t *testing.T) {
	c := startGuest(t).client(client.Options{})
	for _, tt := range []struct{ network, addr, prefix string }{
		{"tcp", "127.0.0.1:0", "127.0.0.1:"}, {"tcp4", "localhost:0", "127.0.0.1:"},
		{"tcp6", "[::1]:0", "[::1]:"}, {"tcp6", "localhost:0", "[::1]:"}, {"tcp", "[::ffff:127.0.0.1]:0", "127.0.0.1:"},
		{"unix", "", "/"},
	} {
		t.Run(tt.network+" "+tt.addr, func(t *testing.T) {
			if tt.network == "unix" {
				tt.addr = socketPath(t)
			}
			l := listen(t, c, tt.network, tt.addr)
			at := l.Addr().String()
			if !strings.HasPrefix(at, tt.prefix) || strings.HasSuffix(at, ":0") {
				t.Fatalf("it listens at %s", at)
			}
			near := dial(t, c, tt.network, at)
			far, err := l.Accept()
			must(t, err)
			defer far.Close()
			if near.RemoteAddr().String() != at || far.LocalAddr().String() != at || near.LocalAddr().String() != far.RemoteAddr().String() {
				t.Errorf("near %v to %v, far %v to %v", near.LocalAddr(), near.RemoteAddr(), far.LocalAddr(), far.RemoteAddr())
			}
			within := closes(t, 5*time.Second, l.Close)
			var again net.Listener
			eventually(t, within, "the address is free", func() bool {
				again, err = c.Listen(t.Context(), tt.network, at)
				return err == nil
			})
			defer again.Close()
			if again.Addr().String() != at {
				t.Errorf("listens again at %v", again.Addr())
			}
			echoed(t, near, far) // it has outlived its listener
		})
	}
}

// TestLocalhostIsBoth dials a server that is there on one of the two only.
func TestLocalhostIsBoth(t *testing.T) {
	c := startGuest(t).client(client.Options{})
	for _, at := range []string{"127.0.0.1:7001", "[::1]:7002"} {
		l := listen(t, c, "tcp", at)
		_, port, err := net.SplitHostPort(at)
		must(t, err)
		if conn := dial(t, c, "tcp", "localhost:"+port); conn.RemoteAddr().String() != l.Addr().String() {
			t.Errorf("localhost is %v, want %v", conn.RemoteAddr(), l.Addr())
		}
	}
}

// echoed sends a word each way.
func echoed(t testing.TB, a, b net.Conn) {
	t.Helper()
	must(t, a.SetDeadline(time.Now().Add(forwardWithin)))
	must(t, b.SetDeadline(time.Now().Add(forwardWithin)))
	for _, c := range [][2]net.Conn{{a, b}, {b, a}} {
		_, err := c[0].Write([]byte("word"))
		must(t, err)
		got := make([]byte, 4)
		_, err = io.ReadFull(c[1], got)
		must(t, err)
		if string(got) != "word" {
			t.Fatalf("got %q", got)
		}
	}
}
