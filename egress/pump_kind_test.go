package egress

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A pumpPlain hides that a connection is TCP, as connections over the guest's
// frames do.
type pumpPlain struct{ net.Conn }

func (p pumpPlain) CloseWrite() error { return p.Conn.(*net.TCPConn).CloseWrite() }

// A mute connection has no CloseWrite.
type mute struct{ net.Conn }

// A kept connection wraps a TCP connection and passes bytes unchanged.
type kept struct{ *net.TCPConn }

func (k kept) NetConn() *net.TCPConn { return k.TCPConn }

// bytesRead returns how many bytes this process has read by read(2), which
// spliced bytes do not use.
func bytesRead(t *testing.T) (n int64) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(string(text), "rchar: %d", &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestKinds checks that connections of every kind copy bytes both ways and
// half-close, and which of them stay in the kernel.
func TestKinds(t *testing.T) {
	same := func(c *net.TCPConn) net.Conn { return c }
	hidden := func(c *net.TCPConn) net.Conn { return pumpPlain{c} }
	noted := func(c *net.TCPConn) net.Conn { return kept{c} }
	tests := map[string]struct {
		inside, outside func(*net.TCPConn) net.Conn
		splices         bool
	}{
		"TCP":               {same, same, true},
		"kept inside":       {noted, same, true},
		"kept both":         {noted, noted, true},
		"frames and TCP":    {hidden, same, false},
		"TCP and frames":    {same, hidden, false},
		"frames and frames": {hidden, hidden, false},
	}
	big := make([]byte, 8<<20)
	_, _ = rand.Read(big)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			program, inside := tcp(t)
			outside, host := tcp(t)
			m := newMeter(Limits{})
			defer m.Close()
			end := make(chan result, 1)
			go func() {
				in, out, err := bothPump(t.Context(), tt.inside(inside), tt.outside(outside), m)
				end <- result{in, out, err}
			}()
			before := bytesRead(t)
			go func() { // a host that sends back what it gets
				_, _ = io.Copy(pumpPlain{host}, pumpPlain{host})
				_ = host.CloseWrite()
			}()
			go func() {
				_, _ = program.Write(big)
				_ = program.CloseWrite()
			}()
			var got bytes.Buffer
			got.Grow(len(big) + bytes.MinRead)
			if _, err := got.ReadFrom(program); err != nil || !bytes.Equal(got.Bytes(), big) {
				t.Fatalf("%d bytes, %v", got.Len(), err)
			}
			if r := ended(t, end); r != (result{int64(len(big)), int64(len(big)), nil}) {
				t.Errorf("%+v", r)
			}
			// The two ends read everything once; a pump that reads does so again.
			read := bytesRead(t) - before
			if spliced := read < int64(len(big))*5/2; spliced != tt.splices {
				t.Errorf("%d MB were read for %d MB there and back", read>>20, len(big)>>20)
			}
		})
	}
}

// TestNoHalfClose checks that the end of one direction ends both if the
// connection has no CloseWrite.
func TestNoHalfClose(t *testing.T) {
	program, inside := tcp(t)
	outside, host := tcp(t)
	m := newMeter(Limits{})
	defer m.Close()
	end := make(chan result, 1)
	go func() {
		in, out, err := bothPump(t.Context(), inside, mute{outside}, m)
		end <- result{in, out, err}
	}()
	_, _ = io.WriteString(program, "x")
	_ = program.CloseWrite()
	if got, err := io.ReadAll(host); err != nil || string(got) != "x" {
		t.Errorf("%q, %v", got, err)
	}
	if r := ended(t, end); r != (result{0, 1, nil}) {
		t.Errorf("%+v", r)
	}
}

// TestUrgent checks that out-of-band bytes do not stop the pump.
func TestUrgent(t *testing.T) {
	program, host, _, end := pumped(t, Limits{})
	raw, err := program.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("a", 100_000)
	go func() {
		for range 20 {
			_, _ = io.WriteString(program, text)
			_ = raw.Write(func(fd uintptr) bool {
				return unix.Sendto(int(fd), []byte("!"), unix.MSG_OOB, nil) != unix.EAGAIN
			})
		}
		_ = program.CloseWrite()
	}()
	got, err := io.ReadAll(host)
	if err != nil || strings.Count(string(got), "a") != 20*len(text) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	_ = host.Close()
	if r := ended(t, end); r.err != nil {
		t.Errorf("%+v", r)
	}
}

// TestDirections checks that one direction can end long before the other,
// whichever it is.
func TestDirections(t *testing.T) {
	program, host, _, end := pumped(t, Limits{})
	_ = host.CloseWrite()
	if got, err := io.ReadAll(program); err != nil || len(got) != 0 {
		t.Fatalf("%q, %v", got, err)
	}
	for range 100 {
		if _, err := io.WriteString(program, "still there"); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(host, make([]byte, 11)); err != nil {
			t.Fatal(err)
		}
	}
	_ = program.Close()
	if r := ended(t, end); r != (result{0, 1100, nil}) {
		t.Errorf("%+v", r)
	}
}
