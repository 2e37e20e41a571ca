package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// A stalling guest answers frames until stall says that it stops, for ever.
type stalling struct {
	stall func(f wire.Frame) bool // called for each frame the client sends
	deaf  bool                    // once stalled it does not read either, as a paused one
	pongs bool                    // but it answers pings
	cut   bool                    // and stalls in the middle of a frame of output

	features []string
}

func (g stalling) serve(conn net.Conn) {
	w, r := wire.NewWriter(conn), wire.NewReader(conn, wire.MaxRequest)
	say := func(f wire.Frame) { _ = w.Write(f) }
	stalled := false
	for {
		f, err := r.Next()
		if err != nil {
			return
		}
		if !stalled && f.Type != wire.TypeHello && g.stall(f) {
			stalled = true
			if g.cut {
				b := wire.AppendFrame(nil, wire.Frame{Type: wire.TypeData, Flags: wire.Stdout, Stream: f.Stream, Payload: make([]byte, 100)})
				_, _ = conn.Write(b[:50])
			}
			if g.deaf {
				return
			}
		}
		switch {
		case f.Type == wire.TypePing && (g.pongs || !stalled):
			say(wire.Frame{Type: wire.TypePong})
		case stalled:
		case f.Type == wire.TypeHello:
			say(wire.Frame{Type: wire.TypeHello, Payload: wire.Hello{Version: wire.Version, Features: g.features}.Encode()})
		case f.Type == wire.TypeStart:
			say(wire.Frame{Type: wire.TypeStarted, Stream: f.Stream, Payload: wire.Started{PID: 7}.Encode()})
		}
	}
}

// connect returns a client of the guest. The caller is in a bubble.
func (g stalling) connect(t *testing.T) *client.Client {
	t.Helper()
	ours, theirs := net.Pipe()
	go g.serve(theirs)
	c, err := client.New(t.Context(), ours, client.Options{Name: "box"})
	must(t, err)
	t.Cleanup(func() {
		c.Close()
		theirs.Close()
	})
	return c
}

func on(types ...wire.Type) func(wire.Frame) bool {
	return func(f wire.Frame) bool {
		for _, t := range types {
			if f.Type == t {
				return true
			}
		}
		return false
	}
}

// atOnce stalls with the first frame after the Started.
func atOnce() func(wire.Frame) bool {
	var started atomic.Bool
	return func(f wire.Frame) bool { return started.Swap(f.Type == wire.TypeStart || started.Load()) }
}

// TestSilentGuest holds that a command whose context has ended is not
// waited for without bound, wherever its guest stopped to answer.
func TestSilentGuest(t *testing.T) {
	const timeout, grace = 2 * time.Second, 3 * time.Second
	for _, tt := range []struct {
		name  string
		guest stalling
		bound time.Duration
	}{
		{"after Started", stalling{stall: atOnce()}, timeout + grace + 5*time.Second},
		{"after Started, paused", stalling{stall: on(wire.TypeCredit, wire.TypeKill, wire.TypePing), deaf: true}, timeout + grace + 5*time.Second},
		{"after Kill", stalling{stall: on(wire.TypeKill)}, timeout + grace + 5*time.Second},
		{"after Kill, paused", stalling{stall: on(wire.TypeKill), deaf: true}, timeout + grace + 5*time.Second},
		{"in the middle of output", stalling{stall: on(wire.TypeKill), cut: true}, timeout + grace + 5*time.Second},
		{"alive, but owing the end", stalling{stall: on(wire.TypeKill), pongs: true}, timeout + grace + 40*time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := tt.guest.connect(t)
				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				defer cancel()
				begin := time.Now()
				p, err := c.Start(ctx, sandbox.Command{Args: []string{"x"}, Stdout: io.Discard, Grace: grace})
				must(t, err)
				_, err = p.Wait()
				isSilence(t, err)
				// What it owed the writers is settled after that.
				if took := time.Since(begin); took > tt.bound+2*time.Second {
					t.Errorf("took %v", took)
				}
				isSilence(t, p.Kill(t.Context()))
				codeIs(t, c.Ping(t.Context()), sandbox.CodeUnavailable)
			})
		})
	}
}

// isSilence holds that err says what is known and what is not.
func isSilence(t *testing.T, err error) {
	t.Helper()
	codeIs(t, err, sandbox.CodeUnavailable)
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Resource != "box" || !strings.Contains(e.Message, "is not known") {
		t.Errorf("got %v", err)
	}
}

// TestSilentGuestCalls holds that every call returns in bounded time,
// whatever its context allows.
func TestSilentGuestCalls(t *testing.T) {
	for _, how := range []struct {
		name  string
		guest stalling
	}{
		{"silent", stalling{stall: func(wire.Frame) bool { return true }}},
		{"paused", stalling{stall: func(wire.Frame) bool { return true }, deaf: true}},
		{"silent after Started", stalling{stall: atOnce()}},
	} {
		for name, call := range map[string]func(*testing.T, *client.Client) error{
			"Ping":     func(t *testing.T, c *client.Client) error { return c.Ping(t.Context()) },
			"SetReady": func(t *testing.T, c *client.Client) error { return c.SetReady(t.Context(), "tag") },
			"Start": func(t *testing.T, c *client.Client) error {
				p, err := c.Start(t.Context(), sandbox.Command{Args: []string{"x"}})
				if err == nil {
					err = p.Kill(t.Context())
				}
				return err
			},
			"Start with a deadline": func(t *testing.T, c *client.Client) error {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				p, err := c.Start(ctx, sandbox.Command{Args: []string{"x"}})
				if err == nil {
					_, _ = p.Wait() // why it ended is asked of the connection
				}
				<-c.Done() // what was asked for and not answered ends the connection
				return c.Err()
			},
			"Close": func(t *testing.T, c *client.Client) error {
				p, err := c.Start(t.Context(), sandbox.Command{Args: []string{"x"}})
				if err != nil {
					return err
				}
				c.Close()
				_, err = p.Wait()
				return err
			},
		} {
			t.Run(how.name+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					guest := how.guest
					if how.name == "silent after Started" {
						guest.stall = atOnce()
					}
					c := guest.connect(t)
					if how.name == "silent after Started" {
						_, err := c.Start(t.Context(), sandbox.Command{Args: []string{"first"}, Detach: true})
						must(t, err)
					}
					begin := time.Now()
					codeIs(t, call(t, c), sandbox.CodeUnavailable)
					if took := time.Since(begin); took > 100*time.Second {
						t.Errorf("took %v", took)
					}
				})
			})
		}
	}
}

// TestStartWaitsForTheEnd holds that a Start whose context has ended returns
// when nothing is left of what the guest has started meanwhile.
func TestStartWaitsForTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		asked := make(chan uint32, 1)
		go stalling{pongs: true, stall: func(f wire.Frame) bool {
			if f.Type == wire.TypeStart {
				asked <- f.Stream
			}
			return f.Type == wire.TypeStart
		}}.serve(theirs)
		c, err := client.New(t.Context(), ours, client.Options{})
		must(t, err)
		defer theirs.Close()
		defer c.Close()
		var gone atomic.Bool
		go func() {
			stream, w := <-asked, wire.NewWriter(theirs)
			time.Sleep(3 * time.Second)
			_ = w.Write(wire.Frame{Type: wire.TypeStarted, Stream: stream, Payload: wire.Started{PID: 7}.Encode()})
			time.Sleep(10 * time.Second)
			gone.Store(true)
			_ = w.Write(wire.Frame{Type: wire.TypeExit, Stream: stream, Payload: wire.Exit{Signal: 9}.Encode()})
		}()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = c.Start(ctx, sandbox.Command{Args: []string{"x"}, Stdout: io.Discard})
		codeIs(t, err, sandbox.CodeTimeout)
		if !gone.Load() {
			t.Error("it has not ended")
		}
		must(t, c.Ping(t.Context()))
	})
}

// TestStallIsOutlived holds that a guest that comes back in time has lost
// nothing.
func TestStallIsOutlived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		killed := make(chan uint32, 1)
		go stalling{stall: func(f wire.Frame) bool {
			if f.Type == wire.TypeKill {
				killed <- f.Stream
			}
			return f.Type == wire.TypeKill
		}}.serve(theirs)
		c, err := client.New(t.Context(), ours, client.Options{})
		must(t, err)
		defer theirs.Close()
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		p, err := c.Start(ctx, sandbox.Command{Args: []string{"x"}})
		must(t, err)
		stream := <-killed
		time.Sleep(3 * time.Second)
		w := wire.NewWriter(theirs)
		must(t, w.Write(wire.Frame{Type: wire.TypeExit, Stream: stream, Payload: wire.Exit{Signal: 9}.Encode()}))
		exit, err := p.Wait()
		if err != nil || exit.Code != 137 {
			t.Errorf("got %+v, %v", exit, err)
		}
		go func() {
			synctest.Wait() // until it was asked: an answer to nothing is a lie
			for range 2 {   // for the sign it was asked for meanwhile, and for this
				_ = w.Write(wire.Frame{Type: wire.TypePong})
			}
		}()
		must(t, c.Ping(t.Context()))
	})
}

// TestSlowReaderTakesRequests has a guest read the parts of a request slowly, as
// one does whose machine is busy. It gets the request as long as it takes some of
// it every ten seconds and the whole within a minute.
func TestSlowReaderTakesRequests(t *testing.T) {
	for name, tt := range map[string]struct {
		size  int
		pause time.Duration // after each 64 KiB
		taken bool
	}{
		"all within a minute":    {300 << 10, 9 * time.Second, true},
		"nothing for long":       {300 << 10, 11 * time.Second, false},
		"more than a minute":     {3 << 20, 5 * time.Second, false},
		"a large one, and quick": {3 << 20, time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ours, theirs := net.Pipe()
				slow := &slowReader{Conn: theirs, pause: tt.pause}
				served := make(chan struct{})
				go func() {
					defer close(served)
					stalling{stall: on()}.serve(slow)
				}()
				c, err := client.New(t.Context(), ours, client.Options{Name: "box"})
				must(t, err)
				defer func() {
					c.Close()
					theirs.Close()
					<-served
				}()
				slow.begin.Store(true)
				began := time.Now()
				_, err = c.Start(t.Context(), sandbox.Command{Args: []string{strings.Repeat("x", tt.size)}})
				if code := sandbox.CodeOf(err); tt.taken && err != nil || !tt.taken && code != sandbox.CodeUnavailable {
					t.Errorf("after %v: %v", time.Since(began), err)
				}
				if took := time.Since(began); took > time.Minute+time.Second {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// A slowReader pauses after each 64 KiB that it has read, once it has begun.
type slowReader struct {
	net.Conn
	pause time.Duration
	begin atomic.Bool
	read  int
}

func (s *slowReader) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	if s.begin.Load() {
		for s.read += n; s.read >= 64<<10; s.read -= 64 << 10 {
			time.Sleep(s.pause)
		}
	}
	return n, err
}
