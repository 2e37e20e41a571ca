package client_test

import (
	"context"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// scripted is a client of a guest that can forward and does what guest does
// with its end of the connection, until that returns.
func scripted(t testing.TB, guest func(r *wire.Reader, w *wire.Writer)) *client.Client {
	t.Helper()
	ours, theirs := net.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer theirs.Close()
		r, w := wire.NewReader(theirs, wire.MaxRequest), wire.NewWriter(theirs)
		if _, err := r.Next(); err != nil {
			return
		}
		hello := wire.Hello{Version: wire.Version, Features: []string{wire.FeatureForward}}
		_ = w.Write(wire.Frame{Type: wire.TypeHello, Payload: hello.Encode()})
		guest(r, w)
	}()
	c, err := client.New(context.Background(), ours, client.Options{Name: "box"})
	must(t, err)
	t.Cleanup(func() {
		c.Close()
		<-ended
	})
	return c
}

// obliging answers what a client asks of a guest that listens: each Listen,
// Ping and Kill, which it gives to killed first. It ends with the connection.
func obliging(killed func(stream uint32, w *wire.Writer)) func(r *wire.Reader, w *wire.Writer) {
	return func(r *wire.Reader, w *wire.Writer) {
		for {
			f, err := r.Next()
			switch {
			case err != nil || f.Type == wire.TypeBye:
				return
			case f.Type == wire.TypeListen:
				_ = w.Write(wire.Frame{Type: wire.TypeListening, Stream: f.Stream, Payload: listening.Payload})
			case f.Type == wire.TypePing:
				_ = w.Write(wire.Frame{Type: wire.TypePong})
			case f.Type == wire.TypeKill:
				killed(f.Stream, w)
			}
		}
	}
}

func done(stream uint32) wire.Frame { return wire.Frame{Type: wire.TypeDone, Stream: stream} }

// TestForwardLateConnection has a connection come in while the client closes
// its listener: before the guest has heard of it, between that and its last
// answer, and after that, as a guest from before that was held to the order may
// tell it. The client drops the connection, and nothing else ends.
func TestForwardLateConnection(t *testing.T) {
	const first = wire.FirstAccepted
	failed := wire.Frame{Type: wire.TypeFailed, Stream: 1, Payload: wire.Failed{Errno: 24}.Encode()}
	for name, answer := range map[string][]wire.Frame{
		"before the last answer":    {accepted(first, 1, ip4(3)), done(1)},
		"after the last answer":     {done(1), accepted(first, 1, ip4(3))},
		"after the listener failed": {failed, accepted(first, 1, ip4(3))},
		"with bytes of its program": {done(1), accepted(first, 1, ip4(3)), {Type: wire.TypeData, Flags: wire.Outward, Stream: first, Payload: []byte("x")}},
		"ended by its program":      {done(1), accepted(first, 1, ip4(3)), {Type: wire.TypeData, Flags: wire.Outward | wire.FlagEOF, Stream: first}},
		"as many as there may be":   append([]wire.Frame{done(1)}, flood(256)...),
		"one after the other":       {done(1), accepted(first, 1, ip4(3)), done(first), accepted(first+1, 1, ip4(3))},
	} {
		t.Run(name, func(t *testing.T) {
			open := map[uint32]bool{} // connections that the guest tells of and does not end
			for _, f := range answer {
				if f.Type == wire.TypeAccepted {
					open[f.Stream] = true
				} else if f.Type == wire.TypeDone {
					delete(open, f.Stream)
				}
			}
			dropped := make(chan struct{}, len(open))
			c := scripted(t, obliging(func(stream uint32, w *wire.Writer) {
				if stream >= first { // of one that has ended it comes too late
					if open[stream] {
						_ = w.Write(done(stream))
						dropped <- struct{}{}
					}
					return
				}
				// The client may write while it is written to.
				go func() {
					for _, f := range answer {
						_ = w.Write(f)
					}
				}()
			}))
			l := listen(t, c, "tcp", "127.0.0.1:1")
			must(t, l.Close())
			for range open {
				select {
				case <-dropped:
				case <-c.Done():
					t.Fatal(c.Err())
				}
			}
			must(t, c.Ping(context.Background()))
			must(t, c.Err())
			if _, err := c.Listen(context.Background(), "tcp", "127.0.0.1:1"); err != nil {
				t.Errorf("the next listener: %v", err)
			}
		})
	}
}

// TestForwardLateForgotten holds that the numbers of listeners are not
// remembered without end: a connection for the oldest of many is a lie.
func TestForwardLateForgotten(t *testing.T) {
	for name, tt := range map[string]struct {
		listener uint32
		stands   bool
	}{"the oldest": {1, false}, "the oldest that is remembered": {2, true}, "the last": {65, true}} {
		t.Run(name, func(t *testing.T) {
			dropped := make(chan struct{}, 1)
			c := scripted(t, obliging(func(stream uint32, w *wire.Writer) {
				_ = w.Write(done(stream))
				switch {
				case stream == 65:
					_ = w.Write(accepted(wire.FirstAccepted, tt.listener, ip4(3)))
				case stream >= wire.FirstAccepted:
					dropped <- struct{}{}
				}
			}))
			for range 65 {
				must(t, listen(t, c, "tcp", "127.0.0.1:1").Close())
			}
			select {
			case <-dropped:
			case <-c.Done():
			}
			if stands := c.Err() == nil; stands != tt.stands {
				t.Fatalf("got %v", c.Err())
			}
			if err := c.Err(); err != nil {
				codeIs(t, err, sandbox.CodeUnavailable)
				if !strings.Contains(err.Error(), "never stood") {
					t.Errorf("got %v", err)
				}
			}
		})
	}
}

// TestForwardLateFlood has a guest that reads nothing report, without end,
// connections that end at once: no goroutine stays behind for each of them.
func TestForwardLateFlood(t *testing.T) {
	const rounds = 2000
	synctest.Test(t, func(t *testing.T) {
		reported, enough := make(chan struct{}), make(chan struct{})
		c := scripted(t, func(r *wire.Reader, w *wire.Writer) {
			_, _ = r.Next()
			_ = w.Write(listening)
			_, _ = r.Next() // the Kill
			_ = w.Write(done(1))
			for i := range uint32(rounds) {
				_ = w.Write(accepted(wire.FirstAccepted+i, 1, ip4(3)))
				_ = w.Write(done(wire.FirstAccepted + i))
			}
			close(reported)
			<-enough
		})
		before := runtime.NumGoroutine()
		must(t, listen(t, c, "tcp", "127.0.0.1:1").Close())
		<-reported
		synctest.Wait()
		if grown := runtime.NumGoroutine() - before; grown > rounds/10 {
			t.Errorf("%d goroutines wait", grown)
		}
		must(t, c.Err())
		close(enough)
	})
}
