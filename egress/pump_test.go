package egress

import (
	"bytes"
	"context"
	"io"
	"net"
	"testing"
)

// tcp returns the two ends of a TCP connection.
func tcp(t testing.TB) (near, far *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		a.Close()
		b.Close()
	})
	return a.(*net.TCPConn), b.(*net.TCPConn)
}

// A result is what a pump returned.
type result struct {
	in, out int64
	err     error
}

// pumped joins two TCP connections and returns their far ends.
func pumped(t testing.TB, l Limits) (program, host *net.TCPConn, m *meter, end <-chan result) {
	t.Helper()
	program, inside := tcp(t)
	outside, host := tcp(t)
	m = newMeter(l)
	t.Cleanup(m.Close)
	done := make(chan result, 1)
	go func() {
		in, out, err := bothPump(t.Context(), inside, outside, m)
		done <- result{in, out, err}
	}()
	return program, host, m, done
}

func TestBothWays(t *testing.T) {
	program, host, m, end := pumped(t, Limits{})
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	go func() {
		program.Write(big)
		program.CloseWrite()
	}()
	if got, err := io.ReadAll(host); err != nil || !bytes.Equal(got, big) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	if _, err := io.WriteString(host, "answer"); err != nil {
		t.Fatal(err)
	}
	host.Close()
	if got, err := io.ReadAll(program); err != nil || string(got) != "answer" {
		t.Fatalf("%q, %v", got, err)
	}
	if r := <-end; r != (result{6, 1 << 20, nil}) {
		t.Errorf("%+v", r)
	}
	if c := m.Counts(); c.In != 6 || c.Out != 1<<20 {
		t.Errorf("%+v", c)
	}
}

// bothPump is [pumpPair.Run] without bytes to send first.
func bothPump(ctx context.Context, inside, outside net.Conn, m *meter) (in, out int64, err error) {
	return pumpPair{Inside: inside, Outside: outside, Meter: m}.Run(ctx)
}
