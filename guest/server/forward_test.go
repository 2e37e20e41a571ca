//go:build linux

package server

import (
	"io"
	"os"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

// socketPair returns a connection of two files.
func socketPair(t testing.TB) (ours, theirs *os.File) {
	t.Helper()
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs = os.NewFile(uintptr(p[0]), "ours"), os.NewFile(uintptr(p[1]), "theirs")
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	return ours, theirs
}

// testConn is a client's connection whose frames go nowhere.
func testConn() *conn {
	s := &Server{nursery: &nursery{}, forwards: make(chan struct{}, maxForwards)}
	s.frames.New = func() any {
		b := make([]byte, wire.HeaderLen+wire.MaxData)
		return &b
	}
	return &conn{srv: s, w: wire.NewWriter(io.Discard), bufs: newBuffers(&s.frames), streams: map[uint32]stream{}}
}

// FuzzForwardEvents has a client say anything about a connection: that is a
// violation or it is not, and what was begun ends.
func FuzzForwardEvents(f *testing.F) {
	add := func(frames ...wire.Frame) {
		var b []byte
		for _, f := range frames {
			b = wire.AppendFrame(b, f)
		}
		f.Add(b)
	}
	data := wire.Frame{Type: wire.TypeData, Flags: wire.Inward, Payload: []byte("bytes")}
	eof := wire.Frame{Type: wire.TypeData, Flags: wire.Inward | wire.FlagEOF}
	stop := wire.Frame{Type: wire.TypeStop, Flags: wire.Outward}
	add(data, eof, stop)
	add(stop, data, wire.Frame{Type: wire.TypeKill, Payload: wire.Kill{}.Encode()}, data, eof)
	add(eof, data)
	add(wire.Frame{Type: wire.TypeCredit, Flags: wire.Outward, Payload: wire.Credit{N: 1}.Encode()})
	f.Fuzz(func(t *testing.T, said []byte) {
		ours, theirs := socketPair(t)
		l := newLink(testConn())
		l.file = ours
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			l.carry(ours)
		}()
		r := wire.NewReader(readerOf(said), wire.MaxRequest)
		for {
			frame, err := r.Next()
			if err != nil || l.event(frame) != nil {
				break
			}
		}
		theirs.Close()
		l.disconnect()
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Fatal("it does not end")
		}
	})
}

// readerOf reads b without being more than a reader.
func readerOf(b []byte) io.Reader {
	r, w := io.Pipe()
	go func() {
		_, _ = w.Write(b)
		w.Close()
	}()
	return r
}

// fill writes to a socket, which does not block, until it takes nothing more.
func fill(t *testing.T, f *os.File) {
	t.Helper()
	conn, err := f.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	chunk := make([]byte, 64<<10)
	var writeErr error
	err = conn.Control(func(fd uintptr) {
		for writeErr == nil || writeErr == unix.EINTR {
			_, writeErr = unix.Write(int(fd), chunk)
		}
	})
	if err != nil || writeErr != unix.EAGAIN {
		t.Fatal(err, writeErr)
	}
}

// TestLingerIsBounded: a client that has closed a connection does not keep the
// guest at it when no process inside reads what it sent.
func TestLingerIsBounded(t *testing.T) {
	ours, _ := socketPair(t)
	fill(t, ours) // the kernel takes nothing more of what comes
	l := newLink(testConn())
	l.file, l.linger = ours, 200*time.Millisecond
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.carry(ours)
	}()
	said := func(flags uint8, ty wire.Type, payload []byte) {
		t.Helper()
		if err := l.event(wire.Frame{Type: ty, Flags: flags, Payload: payload}); err != nil {
			t.Fatal(err)
		}
	}
	said(wire.Inward, wire.TypeData, make([]byte, 16<<10))
	said(wire.Inward|wire.FlagEOF, wire.TypeData, nil)
	begin := time.Now()
	said(wire.Outward, wire.TypeStop, nil)
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("it does not end")
	}
	if took := time.Since(begin); took < l.linger {
		t.Errorf("what was sent is given up after %v", took)
	}
}
