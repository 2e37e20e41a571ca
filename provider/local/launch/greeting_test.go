//go:build linux

package launch_test

import (
	"bytes"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

// TestRequestAtOnce holds that a request is served that was there before the
// guest was: it greets first, and makes what commands need after that.
func TestRequestAtOnce(t *testing.T) {
	for range 20 {
		w := start(t, plain(t))
		conn := sent(t, w, wire.Frame{Type: wire.TypeStart, Stream: 1, Payload: wire.Start{Args: []string{"true"}}.Encode()})
		r := wire.NewReader(conn, wire.MaxRequest)
		greeting, err := r.Next()
		if err != nil || greeting.Type != wire.TypeHello {
			t.Fatalf("%+v, %v; want a greeting", greeting, err)
		}
		for {
			f, err := r.Next()
			if err != nil {
				t.Fatal(err)
			}
			if f.Type != wire.TypeExit {
				continue
			}
			if exit, err := wire.DecodeExit(f.Payload); err != nil || exit.Code != 0 {
				t.Fatalf("%+v, %v", exit, err)
			}
			break
		}
	}
}

// sent passes a connection to the guest on which a client has greeted and has
// asked for all of frames.
func sent(t *testing.T, w interface{ Pass(stream, side int) error }, frames ...wire.Frame) net.Conn {
	t.Helper()
	stream, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	side, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours := os.NewFile(uintptr(stream[0]), "guest")
	conn, err := net.FileConn(ours)
	if err := errors.Join(err, ours.Close()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		unix.Close(side[0])
	})
	var all bytes.Buffer
	out := wire.NewWriter(&all)
	hello := wire.Frame{Type: wire.TypeHello, Payload: wire.ClientHello{Min: wire.MinVersion, Max: wire.Version}.Encode()}
	for _, f := range append([]wire.Frame{hello}, frames...) {
		err = errors.Join(err, out.Write(f))
	}
	if err = errors.Join(err, conn.SetDeadline(time.Now().Add(time.Minute))); err == nil {
		_, err = conn.Write(all.Bytes())
	}
	if err = errors.Join(err, w.Pass(stream[1], side[1]), unix.Close(stream[1]), unix.Close(side[1])); err != nil {
		t.Fatal(err)
	}
	return conn
}
