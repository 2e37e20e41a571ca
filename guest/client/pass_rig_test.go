package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/guest/wire"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"golang.org/x/sys/unix"
)

// passing runs a test with a guest that was born with a channel for
// descriptors, and with one that is offered one.
func passing(t *testing.T, test func(t *testing.T, g *guest, c *client.Client)) {
	t.Helper()
	t.Run("born with it", func(t *testing.T) {
		w := startSandbox(t, client.Options{Name: "box"})
		test(t, w.guest, w.c)
	})
	t.Run("offered", func(t *testing.T) {
		g := startGuest(t)
		test(t, g, g.client(client.Options{Name: "box", Offer: true}))
	})
}

// listeners counts the TCP sockets that listen in the network of a process.
func listeners(t testing.TB, pid int) int {
	t.Helper()
	n := 0
	for _, file := range []string{"tcp", "tcp6"} {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, file))
		must(t, err)
		for line := range bytes.Lines(b) {
			if f := strings.Fields(string(line)); len(f) > 3 && f[3] == "0A" {
				n++
			}
		}
	}
	return n
}

// tcpListener listens as a socket that is handed over does.
func tcpListener(t testing.TB, c *client.Client) net.Listener {
	t.Helper()
	l := listen(t, c, "tcp", "127.0.0.1:0")
	if _, ok := l.(interface{ SetDeadline(time.Time) error }); !ok {
		t.Fatalf("the listener is a %T: frames carry its connections", l)
	}
	return l
}

// elsewhere calls do in a new network with a loopback of its own, and returns
// the descriptors that it makes there. Its thread comes back to the network of
// the others and lives on: a thread that ends takes with it the processes of
// other tests that were begun on it, see syscall.SysProcAttr.Pdeathsig.
func elsewhere(t testing.TB, do func() ([]int, error)) []int {
	t.Helper()
	type result struct {
		fds []int
		err error
	}
	made := make(chan result, 1)
	go func() {
		var r result
		r.err = inNewNetwork(func() (err error) {
			r.fds, err = do()
			return err
		})
		made <- r
	}()
	r := <-made
	t.Cleanup(func() {
		for _, fd := range r.fds {
			unix.Close(fd)
		}
	})
	must(t, r.err)
	return r.fds
}

// inNewNetwork calls do in a new network, and returns in that of before.
func inNewNetwork(do func() error) error {
	return inNetwork(func() error { return unix.Unshare(unix.CLONE_NEWNET) }, func() error {
		if err := loopbackUp(); err != nil {
			return err
		}
		return do()
	})
}

// inNetwork calls do in the network that enter enters, and returns in that of
// before. Where that cannot be had back, the goroutine keeps the thread for itself.
func inNetwork(enter, do func() error) error {
	runtime.LockOSThread()
	ours, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer unix.Close(ours)
	if err := enter(); err != nil {
		runtime.UnlockOSThread()
		return err
	}
	err = do()
	if back := unix.Setns(ours, unix.CLONE_NEWNET); back != nil {
		return errors.Join(err, back)
	}
	runtime.UnlockOSThread()
	return err
}

// TestElsewhereEndsNoThread holds that the rig harms no test beside it: the
// threads that it uses are there afterwards, and in the network of the others.
func TestElsewhereEndsNoThread(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Lack(t, "root", "namespaces need it")
	}
	ours, err := os.Readlink("/proc/self/ns/net")
	must(t, err)
	for range 100 {
		var thread int
		elsewhere(t, func() ([]int, error) {
			thread = unix.Gettid()
			if net, err := os.Readlink("/proc/thread-self/ns/net"); err != nil || net == ours {
				t.Errorf("within: network %q, %v", net, err)
			}
			return nil, nil
		})
		after := func() (string, error) { return os.Readlink(fmt.Sprintf("/proc/self/task/%d/ns/net", thread)) }
		if net, err := after(); err != nil || net != ours {
			t.Fatalf("afterwards: network %q of %q, %v", net, ours, err)
		}
	}
}

// bound makes a socket of that kind, at an address that is any port of host,
// and listens unless it does not.
func bound(kind, protocol int, host [4]byte, listens bool) (fd int, at wire.Endpoint, err error) {
	if fd, err = unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC, protocol); err != nil {
		return fd, at, err
	}
	if err = unix.Bind(fd, &unix.SockaddrInet4{Addr: host}); err == nil && listens {
		err = unix.Listen(fd, 8)
	}
	if err != nil {
		return fd, at, err
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		return fd, at, err
	}
	a := name.(*unix.SockaddrInet4)
	return fd, wire.Endpoint{Family: wire.FamilyIPv4, Port: uint16(a.Port), Host: string(a.Addr[:])}, nil
}

var loopback4 = [4]byte{127, 0, 0, 1}

// theirListener is a listener in a network that is not ours, and its address.
func theirListener(t testing.TB) (fd int, at wire.Endpoint) {
	t.Helper()
	fds := elsewhere(t, func() (fds []int, err error) {
		var fd int
		fd, at, err = bound(unix.SOCK_STREAM, 0, loopback4, true)
		return []int{fd}, err
	})
	return fds[0], at
}

// listenerPacket is a packet about one listener for the first ticket.
const listenerPacket = "BKFD\x03\x01\x00\x00\x01\x00\x00\x00"

// seller returns a client of a traitor that does something when it is asked
// for a listening socket, and then answers.
func seller(t testing.TB, answer wire.Frame, do func(g traitor)) *client.Client {
	t.Helper()
	ours, theirs := socketPair(t, unix.SOCK_STREAM)
	side, theirSide := socketPair(t, unix.SOCK_SEQPACKET)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer theirs.Close()
		defer theirSide.Close()
		r, w := wire.NewReader(theirs, wire.MaxRequest), wire.NewWriter(theirs)
		if _, err := r.Next(); err != nil {
			return
		}
		hello := wire.Hello{Version: wire.Version, Features: []string{wire.FeatureForward, wire.FeaturePass, wire.FeaturePassDial}}
		_ = w.Write(wire.Frame{Type: wire.TypeHello, Payload: hello.Encode()})
		for {
			f, err := r.Next()
			switch {
			case err != nil || f.Type == wire.TypeBye:
				return
			case f.Type == wire.TypePing:
				_ = w.Write(wire.Frame{Type: wire.TypePong})
			case f.Type == wire.TypePass, f.Type == wire.TypePassDial:
				do(traitor{t, theirSide})
				if answer.Type != 0 {
					answer.Stream = f.Stream
					_ = w.Write(answer)
				}
			}
		}
	}()
	c, err := client.New(context.Background(), ours, client.Options{Name: "box", Descriptors: side})
	must(t, err)
	t.Cleanup(func() {
		c.Close()
		<-done
	})
	return c
}

func listeningAt(at wire.Endpoint) wire.Frame {
	return wire.Frame{Type: wire.TypeListening, Payload: wire.Listening{At: at}.Encode()}
}
