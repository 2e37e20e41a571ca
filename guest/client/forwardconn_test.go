package client_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// connChecks are the semantics of net.Conn, on both ends of a connection.
var connChecks = map[string]func(t *testing.T, near, far net.Conn){
	"bytes arrive as they are":          bytesArrive,
	"half close each way":               halfClose,
	"what was written before close":     closeDelivers,
	"read deadline":                     readDeadline,
	"write deadline":                    writeDeadline,
	"a deadline that passed":            pastDeadline,
	"a deadline can be taken back":      deadlineMoves,
	"close ends what waits":             closeWakes,
	"use after close":                   afterClose,
	"all methods at once":               methodsAtOnce,
	"writes at once do not mix":         writesApart,
	"closed for reading":                closedRead,
	"the other end is gone":             otherEndGone,
	"a write larger than all windows":   largeWrite,
	"nothing read, nothing is buffered": windowHolds,
}

func TestForwardConn(t *testing.T) {
	t.Parallel()
	g := startGuest(t)
	for how, c := range map[string]*client.Client{"tcp": g.client(client.Options{}), "unix": g.client(client.Options{}), "handed over": g.client(client.Options{Offer: true})} {
		network := "unix"
		if how != network {
			network = "tcp"
		}
		for name, check := range connChecks {
			t.Run(how+"/"+name, func(t *testing.T) {
				near, far := forwardPipe(t, c, network)
				check(t, near, far)
				must(t, c.Ping(context.Background()))
			})
			t.Run(how+"/"+name+", the other way", func(t *testing.T) {
				near, far := forwardPipe(t, c, network)
				check(t, far, near)
				must(t, c.Ping(context.Background()))
			})
		}
	}
}

type halfCloser interface {
	CloseWrite() error
	CloseRead() error
}

func bytesArrive(t *testing.T, near, far net.Conn) {
	want := make([]byte, 3<<20+17)
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(want)
	go func() {
		for rest := want; len(rest) > 0; {
			n := min(1+rand.IntN(200<<10), len(rest))
			if _, err := near.Write(rest[:n]); err != nil {
				return
			}
			rest = rest[n:]
		}
		near.Close()
	}()
	got, err := io.ReadAll(far)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes of %d, %v", len(got), len(want), err)
	}
}

func halfClose(t *testing.T, near, far net.Conn) {
	_, err := near.Write([]byte("question"))
	must(t, err)
	must(t, near.(halfCloser).CloseWrite())
	must(t, near.(halfCloser).CloseWrite()) // once more is harmless
	got, err := io.ReadAll(far)
	if err != nil || string(got) != "question" {
		t.Fatalf("got %q, %v", got, err)
	}
	if _, err := near.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("a write after CloseWrite: %v", err)
	}
	_, err = far.Write([]byte("answer"))
	must(t, err)
	must(t, far.(halfCloser).CloseWrite())
	if got, err = io.ReadAll(near); err != nil || string(got) != "answer" {
		t.Errorf("got %q, %v", got, err)
	}
}

func closeDelivers(t *testing.T, near, far net.Conn) {
	_, err := near.Write([]byte("last words"))
	must(t, err)
	must(t, near.Close())
	got, err := io.ReadAll(far)
	if err != nil || string(got) != "last words" {
		t.Errorf("got %q, %v", got, err)
	}
}

// isTimeout holds that err is what package net says of a deadline.
func isTimeout(t *testing.T, err error) {
	t.Helper()
	var asNet net.Error
	if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &asNet) || !asNet.Timeout() {
		t.Errorf("got %v", err)
	}
}

func readDeadline(t *testing.T, near, far net.Conn) {
	must(t, near.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
	n, err := near.Read(make([]byte, 1))
	isTimeout(t, err)
	if n != 0 {
		t.Errorf("%d bytes", n)
	}
	must(t, near.SetReadDeadline(time.Time{}))
	echoed(t, near, far)
}

func writeDeadline(t *testing.T, near, far net.Conn) {
	must(t, near.SetWriteDeadline(time.Now().Add(50*time.Millisecond)))
	sent := 0
	var err error
	for err == nil { // the other side does not read
		var n int
		n, err = near.Write(make([]byte, 1<<20))
		sent += n
	}
	isTimeout(t, err)
	must(t, near.SetWriteDeadline(time.Time{}))
	go near.(halfCloser).CloseWrite()
	if got, err := io.Copy(io.Discard, far); err != nil || int(got) != sent {
		t.Errorf("%d bytes came of %d, %v", got, sent, err)
	}
}

func pastDeadline(t *testing.T, near, far net.Conn) {
	_, err := far.Write([]byte("there"))
	must(t, err)
	_, err = io.ReadFull(near, make([]byte, 1))
	must(t, err)
	must(t, near.SetDeadline(time.Unix(1, 0)))
	_, err = near.Read(make([]byte, 1)) // although something is there
	isTimeout(t, err)
	_, err = near.Write([]byte("x"))
	isTimeout(t, err)
	must(t, near.SetDeadline(time.Time{}))
	_, err = io.ReadFull(near, make([]byte, 4))
	must(t, err)
}

func deadlineMoves(t *testing.T, near, far net.Conn) {
	must(t, near.SetReadDeadline(time.Now().Add(30*time.Millisecond)))
	must(t, near.SetReadDeadline(time.Now().Add(time.Hour)))
	read := make(chan error, 1)
	go func() { _, err := near.Read(make([]byte, 1)); read <- err }()
	select {
	case err := <-read:
		t.Fatalf("the first deadline still holds: %v", err)
	case <-time.After(80 * time.Millisecond):
	}
	must(t, near.SetReadDeadline(time.Now())) // wakes the one that waits
	isTimeout(t, <-read)
}

func closeWakes(t *testing.T, near, _ net.Conn) {
	read, written := make(chan error, 1), make(chan error, 1)
	go func() { _, err := near.Read(make([]byte, 1)); read <- err }()
	go func() {
		var err error
		for err == nil {
			_, err = near.Write(make([]byte, 1<<20))
		}
		written <- err
	}()
	time.Sleep(20 * time.Millisecond) // so that they wait; right or wrong they must end
	must(t, near.Close())
	for _, c := range []chan error{read, written} {
		select {
		case err := <-c:
			if !errors.Is(err, net.ErrClosed) {
				t.Errorf("got %v", err)
			}
		case <-time.After(forwardWithin):
			t.Fatal("it still waits")
		}
	}
}

func afterClose(t *testing.T, near, _ net.Conn) {
	must(t, near.Close())
	_, readErr := near.Read(make([]byte, 1))
	_, writeErr := near.Write([]byte("x"))
	for what, err := range map[string]error{
		"read": readErr, "write": writeErr, "close": near.Close(), "deadline": near.SetDeadline(time.Now()),
		"close write": near.(halfCloser).CloseWrite(), "close read": near.(halfCloser).CloseRead(),
	} {
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func methodsAtOnce(t *testing.T, near, far net.Conn) {
	var wg sync.WaitGroup
	for _, c := range []net.Conn{near, far} {
		for range 4 {
			wg.Go(func() {
				if n, err := io.CopyN(io.Discard, c, 1<<18); err != nil {
					t.Errorf("read %d bytes, %v", n, err)
				}
			})
			wg.Go(func() {
				if n, err := c.Write(make([]byte, 1<<18)); err != nil {
					t.Errorf("wrote %d bytes, %v", n, err)
				}
			})
			wg.Go(func() {
				for range 100 {
					_ = c.SetDeadline(time.Now().Add(forwardWithin))
					_, _ = c.LocalAddr().String(), c.RemoteAddr().String()
				}
			})
		}
	}
	wg.Wait()
	wg.Go(func() { near.Close() })
	wg.Go(func() { far.Close() })
	wg.Go(func() { _ = near.(halfCloser).CloseWrite() })
	wg.Wait()
}

func writesApart(t *testing.T, near, far net.Conn) {
	const writers, size = 6, 150 << 10
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() { _, _ = near.Write(bytes.Repeat([]byte{byte('a' + i)}, size)) })
	}
	buf := make([]byte, size)
	for range writers {
		_, err := io.ReadFull(far, buf)
		must(t, err)
		if bytes.Count(buf, buf[:1]) != size {
			t.Fatal("two writes are mixed")
		}
	}
	wg.Wait()
}

func closedRead(t *testing.T, near, far net.Conn) {
	must(t, near.(halfCloser).CloseRead())
	if n, err := near.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("%d, %v", n, err)
	}
	_, err := near.Write([]byte("still"))
	must(t, err)
	got := make([]byte, 5)
	_, err = io.ReadFull(far, got)
	must(t, err)
}

// otherEndGone holds that a connection whose other end is gone ends, with an
// error that says so.
func otherEndGone(t *testing.T, near, far net.Conn) {
	must(t, far.Close())
	must(t, near.SetDeadline(time.Now().Add(forwardWithin)))
	var err error
	for err == nil {
		_, err = near.Write(make([]byte, 4<<10))
	}
	if !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v", err)
	}
	if _, plain := near.(*net.TCPConn); !plain && sandbox.CodeOf(err) != sandbox.CodeExecution {
		t.Errorf("got %v", err)
	}
	if _, err := io.ReadAll(near); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("reading: %v", err)
	}
}

func largeWrite(t *testing.T, near, far net.Conn) {
	const size = 16 << 20
	go func() {
		_, _ = near.Write(make([]byte, size))
		near.Close()
	}()
	if n, err := io.Copy(io.Discard, far); n != size || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// windowHolds counts what a writer can write without a reader: windows and the
// kernel's buffers inside.
func windowHolds(t *testing.T, near, _ net.Conn) {
	large := make([]byte, 64<<20)
	total := 0
	for began, n := time.Now(), -1; total <= 16<<20 && n != 0 || total < wire.ConnWindow && time.Since(began) < patience; total += n {
		must(t, near.SetWriteDeadline(time.Now().Add(200*time.Millisecond)))
		var err error
		n, err = near.Write(large)
		isTimeout(t, err)
	}
	if total > 16<<20 || total < wire.ConnWindow {
		t.Errorf("%d bytes went nowhere", total)
	}
}
