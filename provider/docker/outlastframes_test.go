package docker_test

import (
	"bytes"
	"context"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/guest/wire"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
)

// rawConn opens a stream to the guest that no client speaks on yet: its
// socket, or a relay where the Spec has no socket.
func rawConn(t testing.TB, w *dockertest.Rig, s sandbox.Spec) io.ReadWriteCloser {
	t.Helper()
	ctx, done := context.WithTimeout(context.Background(), 30*time.Second)
	defer done()
	if dir := socketOf(s); dir != "" {
		conn, _, err := client.Dial(ctx, dir, "guest.sock")
		must(t, err)
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	stream, err := w.Engine.Exec(ctx, s.Name, []string{sandbox.GuestDir + "/bin/sandbox-guest", "relay"})
	must(t, err)
	t.Cleanup(func() { stream.Close() })
	return stream
}

// claim is the header of a frame that says 4 GiB follow.
func claim(t wire.Type) []byte {
	return append(wire.AppendFrame(nil, wire.Frame{Type: t, Flags: wire.Stdout, Stream: 1})[:8], 0xff, 0xff, 0xff, 0xff)
}

// half is one half of a frame.
func half(f wire.Frame) []byte {
	b := wire.AppendFrame(nil, f)
	return b[:len(b)/2]
}

// TestOutlastClientFrames sends the guest what no client sends, while a
// command of that connection runs. The guest ends the connection and what it
// started, in bounded time, and serves the others.
func TestOutlastClientFrames(t *testing.T) {
	t.Parallel()
	garbage := bytes.Repeat([]byte{0xde, 0xad, 0xbe, 0xef}, 4096)
	data := wire.Frame{Type: wire.TypeData, Stream: 1, Payload: make([]byte, 100)}
	rows := map[string][]byte{
		"garbage":                 garbage,
		"4 GiB of a request":      claim(wire.TypeStart),
		"4 GiB of data":           claim(wire.TypeData),
		"4 GiB of a ping":         claim(wire.TypePing),
		"half a frame":            half(data),
		"half a header":           claim(wire.TypeStart)[:5],
		"half a frame, then more": append(half(data), garbage...),
	}
	overBoth(t, "tog", func(t *testing.T, w *dockertest.Rig, s sandbox.Spec) {
		for name, bad := range rows {
			t.Run(name, func(t *testing.T) {
				garbageAlone(t, s, name)
				other := w.Reopen(s)
				pid := other.Info().PID
				before, relays := residentOf(t, pid), relaysOf(t, pid)
				conn := rawConn(t, w, s)
				start := wire.Start{Args: []string{"sh", "-c", escapee}, Flags: wire.FlagNoStdout | wire.FlagNoStderr}
				hello := wire.AppendFrame(nil, wire.Frame{Type: wire.TypeHello, Payload: wire.ClientHello{Min: 1, Max: 1}.Encode()})
				_, err := conn.Write(wire.AppendFrame(hello, wire.Frame{Type: wire.TypeStart, Stream: 1, Payload: start.Encode()}))
				must(t, err)
				soon(t, 10*time.Second, "the command runs", func() bool { return len(insideOf(t, pid)) >= 4 })
				_, _ = conn.Write(bad)
				if name == "half a frame" || name == "half a header" {
					conn.Close() // a guest waits for the other half as long as there may be one
				}
				emptied(t, pid)
				soon(t, 10*time.Second, "its relay is gone", func() bool { return relaysOf(t, pid) == relays })
				if grown := residentOf(t, pid) - before; grown > 4<<20 {
					t.Errorf("the guest grew by %d bytes", grown)
				}
				if out, code := sh(t, other, "echo next"); out != "next" || code != 0 {
					t.Errorf("another session: %q, %d", out, code)
				}
			})
		}
	})
}

// A faulty is a stream on which, once it is broken, something else arrives
// than was sent, and then nothing or the end.
type faulty struct {
	io.ReadWriteCloser
	mu     sync.Mutex
	broken bool
	bad    []byte
	silent bool
	closed chan struct{}
	once   sync.Once
}

func (f *faulty) breakWith(bad []byte, silent bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.broken, f.bad, f.silent = true, bad, silent
}

func (f *faulty) Read(p []byte) (int, error) {
	n, err := f.ReadWriteCloser.Read(p)
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case !f.broken:
		return n, err
	case len(f.bad) > 0:
		n = copy(p, f.bad)
		f.bad = f.bad[n:]
		return n, nil
	case f.silent:
		<-f.closed
	}
	return 0, io.EOF
}

func (f *faulty) Close() error {
	f.once.Do(func() { close(f.closed) })
	return f.ReadWriteCloser.Close()
}

// garbageAlone ends a row unless it sends garbage or has a socket: a relay passes on
// whatever comes, so that make test sends garbage alone through one.
func garbageAlone(t *testing.T, s sandbox.Spec, row string) {
	t.Helper()
	if socketOf(s) == "" && row != "garbage" {
		testenv.Exhaustive(t, "other frames than garbage through the relay")
	}
}

// TestOutlastGuestFrames has the client of a running command hear what no
// guest says. The command ends with an error in bounded time, nothing of it
// is left inside, and the next session works.
func TestOutlastGuestFrames(t *testing.T) {
	t.Parallel()
	garbage := bytes.Repeat([]byte{0xde, 0xad, 0xbe, 0xef}, 4096)
	data := wire.Frame{Type: wire.TypeData, Flags: wire.Stdout, Stream: 1, Payload: make([]byte, 100)}
	rows := map[string]struct {
		bad    []byte
		silent bool
	}{
		"garbage":                 {garbage, true},
		"4 GiB of data":           {claim(wire.TypeData), true},
		"4 GiB of a request":      {claim(wire.TypeAccepted), true},
		"half a frame":            {half(data), false},
		"half a frame and silent": {half(data), true},
		"half a header":           {half(data)[:5], false},
		"nothing":                 {nil, false},
	}
	overBoth(t, "toc", func(t *testing.T, w *dockertest.Rig, s sandbox.Spec) {
		for name, tt := range rows {
			t.Run(name, func(t *testing.T) {
				garbageAlone(t, s, name)
				other := w.Reopen(s)
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				conn := &faulty{ReadWriteCloser: rawConn(t, w, s), closed: make(chan struct{})}
				c, err := client.New(ctx, conn, client.Options{Name: s.Name})
				must(t, err)
				defer c.Close()
				out := &watched{seen: make(chan struct{})}
				p, err := c.Start(ctx, sandbox.Command{Args: []string{"sh", "-c", escapee}, Stdout: out, Dir: "/"})
				must(t, err)
				<-out.seen
				before := hostMemory()
				begin := time.Now()
				conn.breakWith(tt.bad, tt.silent) // the next tick of the command brings it
				if name == "half a frame and silent" {
					cancel() // nothing but the caller can end the waiting for the other half
				}
				waited(t, p, 15*time.Second, sandbox.CodeUnavailable)
				t.Logf("ended after %v", time.Since(begin).Round(time.Millisecond))
				if grown := hostMemory() - before; grown > 8<<20 {
					t.Errorf("the client grew by %d bytes", grown)
				}
				if _, err := c.Start(context.Background(), sandbox.Command{Args: []string{"true"}}); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
					t.Errorf("the session goes on: %v", err)
				}
				emptied(t, other.Info().PID)
				if out, code := sh(t, w.Reopen(s), "echo next"); out != "next" || code != 0 {
					t.Errorf("the next session: %q, %d", out, code)
				}
			})
		}
	})
}
