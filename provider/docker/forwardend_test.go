package docker_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
)

// TestForwardHalfClose ends one direction, then the other.
func TestForwardHalfClose(t *testing.T) {
	t.Parallel()
	overBoth(t, "half", func(t *testing.T, w *dockertest.Rig, s sandbox.Spec) {
		sb := w.Reopen(s)
		l := listenIn(t, sb, "127.0.0.1:0")
		go func() {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			said, _ := io.ReadAll(conn)
			_, _ = fmt.Fprintf(conn, "you said %s", said)
		}()
		if out, code := sh(t, sb, `python3 -c '
import socket
c = socket.create_connection(("127.0.0.1", `+portOf(l)+`))
c.sendall(b"something")
c.shutdown(socket.SHUT_WR)
print(c.makefile().read())'`); out != "you said something" || code != 0 {
			t.Errorf("%q, %d", out, code)
		}
		background(t, sb, "python3", "-c", echo)
		conn := dialIn(t, sb, "tcp", "127.0.0.1:8090")
		_, err := conn.Write([]byte("and back"))
		must(t, err)
		must(t, conn.(interface{ CloseWrite() error }).CloseWrite())
		if got, err := io.ReadAll(conn); err != nil || string(got) != "and back" {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// flooder sends for ever to every client, and reads nothing.
const flooder = `
import socket, threading
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", 8091)); s.listen(64)
def flood(c):
    try:
        while True: c.sendall(b"x" * 65536)
    except OSError: pass
print("ready", flush=True)
while True:
    c, _ = s.accept()
    threading.Thread(target=flood, args=(c,), daemon=True).start()`

// TestForwardUnread has consumers on both sides that never read: each stalls
// its own stream, and memory stays where it is, outside and in the guest.
func TestForwardUnread(t *testing.T) {
	t.Parallel()
	overBoth(t, "unread", func(t *testing.T, w *dockertest.Rig, s sandbox.Spec) {
		sb := w.Reopen(s)
		background(t, sb, "python3", "-c", flooder)
		before, guestBefore := hostMemory(), residentOf(t, sb.Info().PID)
		var conns []net.Conn
		payload := make([]byte, 1<<20)
		for range 20 {
			conn := dialIn(t, sb, "tcp", "127.0.0.1:8091")
			must(t, conn.SetWriteDeadline(time.Now().Add(200*time.Millisecond)))
			var err error
			for err == nil { // the other end does not read either
				_, err = conn.Write(payload)
			}
			conns = append(conns, conn)
		}
		for range 50 {
			if out, _ := sh(t, sb, "echo alive"); out != "alive" {
				t.Fatalf("a command beside it: %q", out)
			}
		}
		outside, inside := hostMemory()-before, residentOf(t, sb.Info().PID)-guestBefore
		t.Logf("20 connections that nobody reads: %d KiB more outside, %d KiB more in the guest", outside>>10, inside>>10)
		if outside > 32<<20 || inside > 16<<20 {
			t.Errorf("memory grew by %d bytes outside and %d in the guest", outside, inside)
		}
		for _, conn := range conns { // one that is read goes on
			if _, err := io.CopyN(io.Discard, conn, 4<<20); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestForwardSandboxFalls ends the sandbox, the session and the program in the
// middle of a stream. Both ends notice it in bounded time.
func TestForwardSandboxFalls(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(w *dockertest.Rig, s sandbox.Spec, sb sandbox.Sandbox, p sandbox.Process) error{
		"removed": func(w *dockertest.Rig, s sandbox.Spec, _ sandbox.Sandbox, _ sandbox.Process) error {
			return w.Engine.Remove(context.Background(), s.Name)
		},
		"killed": func(w *dockertest.Rig, s sandbox.Spec, _ sandbox.Sandbox, _ sandbox.Process) error {
			return w.Engine.Kill(context.Background(), s.Name)
		},
		"session closed": func(_ *dockertest.Rig, _ sandbox.Spec, sb sandbox.Sandbox, _ sandbox.Process) error {
			return sb.Close()
		},
		"program killed": func(_ *dockertest.Rig, _ sandbox.Spec, _ sandbox.Sandbox, p sandbox.Process) error {
			return p.Kill(context.Background())
		},
	} {
		t.Run(name, func(t *testing.T) {
			overSocket(t, "fall"+strings.ReplaceAll(name, " ", ""), overRelayToo(name, "killed"), func(t *testing.T, w *dockertest.Rig, s sandbox.Spec) {
				sb := w.Reopen(s)
				p, _ := background(t, sb, "python3", "-c", flooder)
				l := listenIn(t, sb, "127.0.0.1:0")
				conn := dialIn(t, sb, "tcp", "127.0.0.1:8091")
				_, err := io.CopyN(io.Discard, conn, 1<<20)
				must(t, err)
				read, wrote, accept := make(chan error, 1), make(chan error, 1), make(chan error, 1)
				go func() { _, err := io.Copy(io.Discard, conn); read <- err }()
				go func() {
					var err error
					for err == nil {
						_, err = conn.Write(make([]byte, 64<<10))
					}
					wrote <- err
				}()
				go func() { _, err := l.Accept(); accept <- err }()
				begin := time.Now()
				must(t, end(w, s, sb, p))
				if name == "program killed" {
					l.Close()
				}
				// With a container its programs end too, in any order: the guest may
				// still say that the connection has ended.
				for what, c := range map[string]chan error{"read": read, "write": wrote, "accept": accept} {
					select {
					case err := <-c:
						code, ok := sandbox.CodeOf(err), false
						switch {
						case name == "program killed":
							ok = what != "write" || code == sandbox.CodeExecution
						case name == "session closed" || what == "accept":
							ok = code == sandbox.CodeUnavailable
						default:
							ok = code == sandbox.CodeUnavailable || code == sandbox.CodeExecution || what == "read" && err == nil
						}
						if !ok {
							t.Errorf("%s ends with %v", what, err)
						}
					case <-time.After(20 * time.Second):
						t.Fatalf("%s hangs", what)
					}
				}
				t.Logf("all ended after %v", time.Since(begin).Round(time.Millisecond))
			})
		})
	}
}

// hostMemory is what the Go runtime of the test holds of the system.
func hostMemory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// residentOf is the resident memory of a process in bytes.
func residentOf(t testing.TB, pid int) int64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must(t, err)
	for _, line := range strings.Split(string(b), "\n") {
		if v, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			var n int64
			fmt.Sscan(v, &n)
			return n << 10
		}
	}
	t.Fatalf("no VmRSS of %d", pid)
	return 0
}
