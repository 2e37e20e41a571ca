package docker_test

import (
	"context"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
	"github.com/bulkhead-dev/sandbox/provider/docker"
)

// TestListenerIsASocket holds that a listener inside is a socket of this
// process where the guest's socket can be reached, and frames elsewhere.
func TestListenerIsASocket(t *testing.T) {
	t.Parallel()
	w := dockertest.New(t)
	s := w.Spec("pass")
	_, err := w.P.Create(context.Background(), s)
	must(t, err)
	relayed := s
	relayed.Mounts = slices.DeleteFunc(slices.Clone(s.Mounts), func(m sandbox.Mount) bool { return m.Role == sandbox.RoleSocket })
	for name, tt := range map[string]struct {
		spec   sandbox.Spec
		socket bool
	}{"socket": {s, true}, "relay": {relayed, false}} {
		t.Run(name, func(t *testing.T) {
			sb := opened(t, w, tt.spec)
			l := listenIn(t, sb, "127.0.0.1:0")
			go func() {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				if _, ok := conn.(*net.TCPConn); ok != tt.socket {
					t.Errorf("Accept returned a %T", conn)
				}
				_, _ = io.WriteString(conn, "hello")
				conn.Close()
			}()
			if out, code := sh(t, sb, "bash -c 'cat < /dev/tcp/127.0.0.1/"+portOf(l)+"'"); out != "hello" || code != 0 {
				t.Errorf("%q, %d", out, code)
			}
		})
	}
}

// opened opens a sandbox over its socket where there is one, also when its guest
// takes long to listen.
func opened(t testing.TB, w *dockertest.Rig, s sandbox.Spec) sandbox.Sandbox {
	t.Helper()
	p := docker.New(w.Engine, docker.Options{
		Sockets: w.State, Instance: w.State.Instance(), World: w.World, Ready: 2 * patience, SocketPatience: patience,
	})
	sb, err := p.Open(context.Background(), s)
	must(t, err)
	t.Cleanup(func() { sb.Close() })
	return sb
}

// TestListenerFallsWithContainer ends a container with a listener and a
// connection: both are heard of, and nothing of them stays open.
func TestListenerFallsWithContainer(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(w *dockertest.Rig, s sandbox.Spec) error{
		"removed": func(w *dockertest.Rig, s sandbox.Spec) error { return w.Engine.Remove(context.Background(), s.Name) },
		"killed":  func(w *dockertest.Rig, s sandbox.Spec) error { return w.Engine.Kill(context.Background(), s.Name) },
	} {
		t.Run(name, func(t *testing.T) {
			w := dockertest.New(t)
			s := w.Spec("passfall" + name)
			_, err := w.P.Create(context.Background(), s)
			must(t, err)
			before := tcpSockets(t)
			sb := opened(t, w, s)
			l := listenIn(t, sb, "127.0.0.1:0")
			near := dialIn(t, sb, "tcp", l.Addr().String())
			far, err := l.Accept()
			must(t, err)
			if _, ok := far.(*net.TCPConn); !ok {
				t.Fatalf("Accept returned a %T", far)
			}
			must(t, end(w, s))
			_, err = l.Accept()
			if sandbox.CodeOf(err) != sandbox.CodeUnavailable {
				t.Errorf("Accept: %v", err)
			}
			if _, err := far.Read(make([]byte, 1)); err == nil {
				t.Error("the connection goes on")
			}
			near.Close()
			sb.Close()
			for deadline := time.Now().Add(time.Minute); tcpSockets(t) > before; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("%d sockets are open, there were %d", tcpSockets(t), before)
				}
			}
		})
	}
}

// tcpSockets counts the TCP sockets that this process has open, of whatever
// network.
func tcpSockets(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	n := 0
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		must(t, err)
		if p, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PROTOCOL); err == nil && p == unix.IPPROTO_TCP {
			n++
		}
	}
	return n
}
