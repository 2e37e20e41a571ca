//go:build linux

package wire

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"golang.org/x/sys/unix"
)

// message is a packet about one file for ticket 7.
const message = "BKFD\x02\x01\x00\x00\x07\x00\x00\x00"

// channel returns a Conn and the bare other end of it.
func channel(t testing.TB) (*Conn, int) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	handoverMust(t, err)
	c, err := NewConn(os.NewFile(uintptr(pair[0]), "ours"))
	handoverMust(t, err)
	t.Cleanup(func() {
		c.Close()
		unix.Close(pair[1])
	})
	return c, pair[1]
}

// other makes a Conn of the bare end.
func other(t testing.TB, fd int) *Conn {
	t.Helper()
	own, err := unix.Dup(fd)
	handoverMust(t, err)
	c, err := NewConn(os.NewFile(uintptr(own), "theirs"))
	handoverMust(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// pipes returns the read ends of n pipes whose write ends are closed.
func pipes(t testing.TB, n int) (files []*os.File, fds []int) {
	t.Helper()
	for range n {
		r, w, err := os.Pipe()
		handoverMust(t, err)
		w.Close()
		t.Cleanup(func() { r.Close() })
		files, fds = append(files, r), append(fds, int(r.Fd()))
	}
	return files, fds
}

func handoverMust(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open counts the descriptors of the process.
func open(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	handoverMust(t, err)
	return len(entries)
}

func settled(t testing.TB, want int) {
	t.Helper()
	testenv.Success(t, func() error {
		if n := open(t); n > want {
			return fmt.Errorf("%d descriptors are open, there were %d", n, want)
		}
		return nil
	})
}

func TestHandOver(t *testing.T) {
	c, fd := channel(t)
	files, _ := pipes(t, maxFiles)
	far := other(t, fd)
	for n := 1; n <= len(files); n++ {
		handoverMust(t, c.Send(KindState, uint32(n), files[:n], time.Minute))
		m, err := far.Receive()
		handoverMust(t, err)
		if m.Kind != KindState || m.Ticket != uint32(n) || len(m.FDs) != n {
			t.Errorf("got %+v", m)
		}
		for i, got := range m.FDs {
			var a, b unix.Stat_t
			handoverMust(t, unix.Fstat(got, &a))
			handoverMust(t, unix.Fstat(int(files[i].Fd()), &b))
			if flags, err := unix.FcntlInt(uintptr(got), unix.F_GETFD, 0); a.Ino != b.Ino || err != nil || flags&unix.FD_CLOEXEC == 0 {
				t.Errorf("%d of %d: another file, or one that programs inherit", i, n)
			}
			unix.Close(got)
		}
	}
	c.Close()
	if _, err := far.Receive(); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
	if err := far.Send(KindState, 1, files[:1], time.Second); err == nil {
		t.Error("sent to nobody")
	}
}

// TestRefused sends what breaks the rules, and holds that no descriptor of it
// stays open.
func TestRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		packet string
		files  int
	}{
		"nothing but a descriptor": {"", 1},
		"short":                    {message[:11], 1},
		"long":                     {message + "x", 1},
		"very long":                {message + strings.Repeat("x", 60_000), 1},
		"another magic":            {"BKFE" + message[4:], 1},
		"unknown kind":             {"BKFD\x00" + message[5:], 1},
		"unknown kind, next":       {"BKFD\x05" + message[5:], 1},
		"unknown kind, high":       {"BKFD\xff" + message[5:], 1},
		"not zero":                 {message[:6] + "\x01\x00" + message[8:], 1},
		"no ticket":                {message[:8] + "\x00\x00\x00\x00", 1},
		"none of one":              {message, 0},
		"two of one":               {message, 2},
		"none of none":             {"BKFD\x02\x00" + message[6:], 0},
		"five of five":             {"BKFD\x02\x05" + message[6:], 5},
		"five of four":             {"BKFD\x02\x04" + message[6:], 5},
		"as many as there can be":  {"BKFD\x02\xfd" + message[6:], 253},
	} {
		t.Run(name, func(t *testing.T) {
			c, fd := channel(t)
			_, fds := pipes(t, 1)
			for len(fds) < tt.files {
				fds = append(fds, fds[0])
			}
			before := open(t)
			_, err := unix.SendmsgN(fd, []byte(tt.packet), unix.UnixRights(fds[:tt.files]...), nil, 0)
			handoverMust(t, err)
			var violation *ProtocolError
			if m, err := c.Receive(); !errors.As(err, &violation) {
				t.Errorf("got %+v, %v", m, err)
			}
			settled(t, before)
		})
	}
}

// TestEndWithMessagesUnread holds that this is an end as any other.
func TestEndWithMessagesUnread(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	handoverMust(t, err)
	c, err := NewConn(os.NewFile(uintptr(pair[0]), "ours"))
	handoverMust(t, err)
	defer c.Close()
	files, _ := pipes(t, 1)
	handoverMust(t, c.Send(KindState, 1, files, time.Minute))
	handoverMust(t, unix.Close(pair[1]))
	if _, err := c.Receive(); err != io.EOF {
		t.Errorf("got %v", err)
	}
}

func TestCloseEndsReceive(t *testing.T) {
	c, _ := channel(t)
	ended := make(chan error)
	go func() {
		_, err := c.Receive()
		ended <- err
	}()
	c.Close()
	if err := <-ended; err == nil || err == io.EOF {
		t.Errorf("got %v", err)
	}
}

// TestNobodyReads holds that a sender does not wait for ever.
func TestNobodyReads(t *testing.T) {
	c, _ := channel(t)
	files, _ := pipes(t, 1)
	var err error
	for range 100_000 {
		if err = c.Send(KindState, 1, files, 50*time.Millisecond); err != nil {
			break
		}
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, unix.ETOOMANYREFS) {
		t.Errorf("got %v", err)
	}
}

func TestOtherSockets(t *testing.T) {
	for name, kind := range map[string][2]int{
		"stream": {unix.AF_UNIX, unix.SOCK_STREAM}, "datagrams": {unix.AF_UNIX, unix.SOCK_DGRAM}, "another family": {unix.AF_INET, unix.SOCK_STREAM},
	} {
		fd, err := unix.Socket(kind[0], kind[1]|unix.SOCK_CLOEXEC, 0)
		handoverMust(t, err)
		before := open(t)
		if _, err := NewConn(os.NewFile(uintptr(fd), name)); err == nil {
			t.Errorf("%s: taken", name)
		}
		settled(t, before-1)
	}
	r, w, err := os.Pipe()
	handoverMust(t, err)
	defer w.Close()
	if _, err := NewConn(r); err == nil {
		t.Error("a pipe: taken")
	}
}

// FuzzReceive is what the other side can send: any packet with any number of
// descriptors. What is taken has the form that is written down, and what is
// not leaves nothing open.
func FuzzReceive(f *testing.F) {
	f.Add([]byte(message), uint8(1))
	f.Add([]byte("BKFD\x01\x03\x00\x00\x01\x00\x00\x00"), uint8(3))
	f.Add([]byte{}, uint8(0))
	f.Add([]byte("BKFD"), uint8(200))
	f.Fuzz(func(t *testing.T, packet []byte, files uint8) {
		if len(packet) > 60_000 || files > 253 {
			return
		}
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		handoverMust(t, err)
		defer unix.Close(pair[1])
		c, err := NewConn(os.NewFile(uintptr(pair[0]), "ours"))
		handoverMust(t, err)
		defer c.Close()
		fds := make([]int, files)
		for i := range fds {
			fds[i] = pair[1]
		}
		before := open(t)
		if _, err = unix.SendmsgN(pair[1], packet, unix.UnixRights(fds...), nil, 0); err != nil {
			t.Fatal(err)
		}
		if len(packet) == 0 && files == 0 {
			handoverMust(t, unix.Shutdown(pair[1], unix.SHUT_WR)) // some kernels send no empty packet
		}
		m, err := c.Receive()
		if err == nil {
			if len(packet) != messageLen || len(m.FDs) != int(files) || int(packet[5]) != int(files) || m.Ticket == 0 {
				t.Errorf("took %q with %d descriptors as %+v", packet, files, m)
			}
			m.Discard()
		}
		settled(t, before)
	})
}
