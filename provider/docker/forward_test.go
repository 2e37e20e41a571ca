package docker_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
)

// overBoth runs a test in one container over the guest's socket and over a
// relay.
func overBoth(t *testing.T, key string, test func(t *testing.T, w *dockertest.Rig, s sandbox.Spec)) {
	t.Helper()
	overWays(t, key, "", test)
}

// overRelayToo is what overSocket takes for one of several rows: the row that is named
// is the one that make test has go through the relay too.
func overRelayToo(row, named string) (again string) {
	if row == named {
		return ""
	}
	return "other rows than " + named + " through the relay"
}

// overSocket is overBoth for what another test shows of the relay already,
// which again names: the relay comes with "make test-all".
func overSocket(t *testing.T, key, again string, test func(t *testing.T, w *dockertest.Rig, s sandbox.Spec)) {
	t.Helper()
	overWays(t, key, again, test)
}

func overWays(t *testing.T, key, again string, test func(t *testing.T, w *dockertest.Rig, s sandbox.Spec)) {
	t.Helper()
	for _, way := range []string{"socket", "relay"} {
		t.Run(way, func(t *testing.T) {
			if way == "relay" && again != "" {
				testenv.Exhaustive(t, again)
			}
			w := dockertest.New(t)
			s := w.Spec(key + way)
			_, err := w.P.Create(context.Background(), s)
			must(t, err)
			if way == "relay" {
				s.Mounts = slices.DeleteFunc(s.Mounts, func(m sandbox.Mount) bool { return m.Role == sandbox.RoleSocket })
			}
			test(t, w, s)
		})
	}
}

// background starts a program and waits until its output holds "ready".
func background(t testing.TB, sb sandbox.Sandbox, args ...string) (sandbox.Process, *watched) {
	t.Helper()
	out := &watched{seen: make(chan struct{})}
	p, err := sb.Start(context.Background(), sandbox.Command{Args: args, Stdout: out, Stderr: out})
	must(t, err)
	t.Cleanup(func() { p.Kill(context.Background()) })
	select {
	case <-out.seen:
	case <-time.After(patience):
		t.Fatalf("%q is not ready: %q", args, out)
	}
	return p, out
}

// watched tells when what is written holds "ready".
type watched struct {
	mu    sync.Mutex
	buf   bytes.Buffer
	ready bool
	seen  chan struct{}
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf.Write(p)
	if !w.ready && strings.Contains(w.buf.String(), "ready") {
		w.ready = true
		close(w.seen)
	}
	return len(p), nil
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

func dialIn(t testing.TB, sb sandbox.Sandbox, network, addr string) net.Conn {
	t.Helper()
	ctx, done := context.WithTimeout(context.Background(), 30*time.Second)
	defer done()
	conn, err := sb.(sandbox.Dialer).Dial(ctx, network, addr)
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

func listenIn(t testing.TB, sb sandbox.Sandbox, addr string) net.Listener {
	t.Helper()
	ctx, done := context.WithTimeout(context.Background(), 30*time.Second)
	defer done()
	l, err := sb.(sandbox.Listener).Listen(ctx, "tcp", addr)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

func portOf(l net.Listener) string { return fmt.Sprint(l.Addr().(*net.TCPAddr).Port) }

// TestForwardToServerInside reaches a web server of the sandbox.
func TestForwardToServerInside(t *testing.T) {
	t.Parallel()
	overBoth(t, "web", func(t *testing.T, w *dockertest.Rig, s sandbox.Spec) {
		sb := w.Reopen(s)
		want := bytes.Repeat([]byte("0123456789abcdef"), 1<<18)
		must(t, os.WriteFile(filepath.Join(workspaceOf(s), "file"), want, 0o644))
		background(t, sb, "python3", "-uc", `
import http.server, functools
h = functools.partial(http.server.SimpleHTTPRequestHandler, directory="/workspace")
s = http.server.ThreadingHTTPServer(("127.0.0.1", 8080), h)
print("ready")
s.serve_forever()`)
		c := http.Client{Timeout: time.Minute, Transport: &http.Transport{
			DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				return sb.(sandbox.Dialer).Dial(ctx, network, addr)
			},
		}}
		defer c.CloseIdleConnections()
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				r, err := c.Get("http://localhost:8080/file")
				if err != nil {
					t.Error(err)
					return
				}
				defer r.Body.Close()
				if got, err := io.ReadAll(r.Body); err != nil || !bytes.Equal(got, want) {
					t.Errorf("%d bytes, %v", len(got), err)
				}
			})
		}
		wg.Wait()
	})
}

// TestForwardToServerOutside has programs of the sandbox reach a web server of
// the host, which nothing else can reach there.
func TestForwardToServerOutside(t *testing.T) {
	t.Parallel()
	overBoth(t, "out", func(t *testing.T, w *dockertest.Rig, s sandbox.Spec) {
		sb := w.Reopen(s)
		// The listener stays open until the address is used, so that no other
		// process takes it on the host. If we listened there, it would be in use.
		held, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		defer held.Close()
		l := listenIn(t, sb, held.Addr().String())
		srv := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			fmt.Fprintf(w, "hello from outside, %s", body)
		})}
		go srv.Serve(l)
		defer srv.Close()
		for range 3 {
			if out, code := sh(t, sb, "curl -sS --data-binary inside http://127.0.0.1:"+portOf(l)+"/"); out != "hello from outside, inside" || code != 0 {
				t.Errorf("%q, %d", out, code)
			}
		}
		must(t, held.Close())
		if conn, err := net.DialTimeout("tcp", l.Addr().String(), time.Minute); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("the address is open on the host: %v, %v", conn, err)
		}
		other, _ := w.Open("neighbour")
		if out, code := sh(t, other, "curl -sS http://127.0.0.1:"+portOf(l)+"/ 2>&1"); code == 0 {
			t.Errorf("the address is open in another sandbox: %q", out)
		}
	})
}

// echo serves what it is sent, on one thread.
const echo = `
import asyncio
async def serve(r, w):
    while data := await r.read(65536):
        w.write(data)
        await w.drain()
    w.write_eof()
    w.close()
async def main():
    s = await asyncio.start_server(serve, "127.0.0.1", 8090, backlog=256)
    print("ready", flush=True)
    await s.serve_forever()
asyncio.run(main())`

// TestForwardHundred holds a hundred connections at once, each way.
func TestForwardHundred(t *testing.T) {
	overSocket(t, "hundred", "many connections at once, through the relay that carries one of them as all", func(t *testing.T, w *dockertest.Rig, s sandbox.Spec) {
		sb := w.Reopen(s)
		background(t, sb, "python3", "-c", echo)
		var conns []net.Conn
		for range 100 {
			conns = append(conns, dialIn(t, sb, "tcp", "127.0.0.1:8090"))
		}
		var wg sync.WaitGroup
		for i, conn := range conns {
			wg.Go(func() {
				want := bytes.Repeat([]byte{byte(i)}, 100<<10)
				go func() {
					_, _ = conn.Write(want)
					_ = conn.(interface{ CloseWrite() error }).CloseWrite()
				}()
				if got, err := io.ReadAll(conn); err != nil || !bytes.Equal(got, want) {
					t.Errorf("connection %d: %d bytes, %v", i, len(got), err)
				}
			})
		}
		wg.Wait()
		l := listenIn(t, sb, "127.0.0.1:0")
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					_, _ = io.Copy(conn, conn)
					conn.Close()
				}()
			}
		}()
		if out, code := sh(t, sb, `python3 -c '
import socket, sys
all = [socket.create_connection(("127.0.0.1", `+portOf(l)+`)) for i in range(100)]
for i, c in enumerate(all): c.sendall(b"%04d" % i * 1000)
for c in all: c.shutdown(socket.SHUT_WR)
ok = 0
for i, c in enumerate(all):
    got = b""
    while part := c.recv(65536): got += part
    ok += got == b"%04d" % i * 1000
print(ok)'`); out != "100" || code != 0 {
			t.Errorf("%q, %d", out, code)
		}
	})
}

// TestForwardThroughput moves 64 MiB each way.
func TestForwardThroughput(t *testing.T) {
	overSocket(t, "fast", "the throughput, through the relay", func(t *testing.T, w *dockertest.Rig, s sandbox.Spec) {
		sb := w.Reopen(s)
		l := listenIn(t, sb, "127.0.0.1:0")
		const size = 64 << 20
		type moved struct {
			n   int64
			err error
		}
		var took time.Duration
		result := make(chan moved, 1)
		serve := func(move func(net.Conn) (int64, error)) {
			go func() {
				conn, err := l.Accept()
				if err != nil {
					result <- moved{err: err}
					return
				}
				defer conn.Close()
				begin := time.Now()
				n, err := move(conn)
				took = time.Since(begin)
				result <- moved{n, err}
			}()
		}
		serve(func(c net.Conn) (int64, error) { return io.Copy(struct{ io.Writer }{io.Discard}, c) })
		sh(t, sb, fmt.Sprintf("head -c %d /dev/zero | bash -c 'cat > /dev/tcp/127.0.0.1/%s'", size, portOf(l)))
		if m := <-result; m.n != size || m.err != nil {
			t.Errorf("outward: %d bytes, %v", m.n, m.err)
		}
		t.Logf("outward %.0f MB/s", size/took.Seconds()/1e6)
		serve(func(c net.Conn) (int64, error) {
			return io.Copy(c, io.LimitReader(bufio.NewReaderSize(zeroes{}, 256<<10), size))
		})
		if out, _ := sh(t, sb, "bash -c 'cat < /dev/tcp/127.0.0.1/"+portOf(l)+"' | wc -c"); out != fmt.Sprint(size) {
			t.Errorf("inward: %s bytes", out)
		}
		if m := <-result; m.n != size || m.err != nil {
			t.Errorf("inward: %d bytes, %v", m.n, m.err)
		}
		t.Logf("inward %.0f MB/s", size/took.Seconds()/1e6)
	})
}

type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) { return len(p), nil }

// TestForwardFailures checks the errors of a real sandbox.
func TestForwardFailures(t *testing.T) {
	t.Parallel()
	overBoth(t, "fail", func(t *testing.T, w *dockertest.Rig, s sandbox.Spec) {
		sb := w.Reopen(s)
		ctx := context.Background()
		_, err := sb.(sandbox.Dialer).Dial(ctx, "tcp", "127.0.0.1:9")
		var e *sandbox.Error
		if !errors.Is(err, syscall.ECONNREFUSED) || !errors.As(err, &e) || e.Code != sandbox.CodeExecution || e.Resource != s.Name {
			t.Errorf("nobody listens: %v", err)
		}
		// There is only lo.
		for _, addr := range []string{"169.254.169.254:80", "172.17.0.1:22", "1.1.1.1:443"} {
			if _, err := sb.(sandbox.Dialer).Dial(ctx, "tcp", addr); !errors.Is(err, syscall.ENETUNREACH) {
				t.Errorf("%s: %v", addr, err)
			}
		}
		if _, err := sb.(sandbox.Dialer).Dial(ctx, "tcp", "example.com:80"); sandbox.CodeOf(err) != sandbox.CodeValidation {
			t.Errorf("a name: %v", err)
		}
		if _, err := sb.(sandbox.Dialer).Dial(ctx, "unix", "/var/run/docker.sock"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the engine's socket: %v", err)
		}
		l := listenIn(t, sb, "127.0.0.1:8070")
		if _, err := sb.(sandbox.Listener).Listen(ctx, "tcp", "127.0.0.1:8070"); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("an address in use: %v", err)
		}
		must(t, l.Close())
		listenIn(t, sb, "127.0.0.1:8070")
	})
}
