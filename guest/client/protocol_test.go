package client_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// A script is what a guest that code in the sandbox has taken over says
// after the handshake, once it has read the client's first request.
type script func(send func(wire.Frame))

// connectTo returns a client of a guest that follows the script.
func connectTo(t testing.TB, say script) *client.Client {
	t.Helper()
	ours, theirs := net.Pipe()
	go func() {
		r := wire.NewReader(theirs, wire.MaxRequest)
		if _, err := r.Next(); err != nil {
			return
		}
		w := wire.NewWriter(theirs)
		_ = w.Write(wire.Frame{Type: wire.TypeHello, Payload: wire.Hello{Version: wire.Version}.Encode()})
		if _, err := r.Next(); err != nil {
			return
		}
		go io.Copy(io.Discard, theirs)
		say(func(f wire.Frame) { _ = w.Write(f) })
	}()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := client.New(ctx, ours, client.Options{Name: "box"})
	must(t, err)
	t.Cleanup(func() {
		theirs.Close()
		c.Close()
	})
	return c
}

func TestHostileGuest(t *testing.T) {
	started := wire.Frame{Type: wire.TypeStarted, Stream: 1, Payload: wire.Started{PID: 1}.Encode()}
	data := func(ch uint8, n int) wire.Frame {
		return wire.Frame{Type: wire.TypeData, Flags: ch, Stream: 1, Payload: make([]byte, n)}
	}
	for name, say := range map[string]script{
		"data before the start":    func(s func(wire.Frame)) { s(data(wire.Stdout, 1)) },
		"exit before the start":    func(s func(wire.Frame)) { s(wire.Frame{Type: wire.TypeExit, Stream: 1, Payload: wire.Exit{}.Encode()}) },
		"started twice":            func(s func(wire.Frame)) { s(started); s(started) },
		"unknown stream":           func(s func(wire.Frame)) { s(started); s(wire.Frame{Type: wire.TypeData, Stream: 2}) },
		"data on standard input":   func(s func(wire.Frame)) { s(started); s(data(wire.Stdin, 1)) },
		"data on a channel closed": func(s func(wire.Frame)) { s(started); s(data(wire.Stderr, 1)) },
		"data on channel 100":      func(s func(wire.Frame)) { s(started); s(data(100, 1)) },
		"more than the window": func(s func(wire.Frame)) {
			s(started)
			for range wire.Window/wire.MaxData + 2 {
				s(data(wire.Stdout, wire.MaxData))
			}
		},
		"data after its end": func(s func(wire.Frame)) { s(started); s(data(wire.Stdout|wire.FlagEOF, 1)); s(data(wire.Stdout, 1)) },
		"credit for nothing": func(s func(wire.Frame)) {
			s(started)
			s(wire.Frame{Type: wire.TypeCredit, Stream: 1, Payload: wire.Credit{N: 1}.Encode()})
		},
		"malformed exit": func(s func(wire.Frame)) {
			s(started)
			s(wire.Frame{Type: wire.TypeExit, Stream: 1, Payload: []byte{1}})
		},
		"unknown type":     func(s func(wire.Frame)) { s(started); s(wire.Frame{Type: 0x6f, Stream: 1}) },
		"request":          func(s func(wire.Frame)) { s(started); s(wire.Frame{Type: wire.TypeStart, Stream: 1}) },
		"pong for nothing": func(s func(wire.Frame)) { s(started); s(wire.Frame{Type: wire.TypePong}) },
		"second hello": func(s func(wire.Frame)) {
			s(started)
			s(wire.Frame{Type: wire.TypeHello, Payload: wire.Hello{}.Encode()})
		},
		"farewell": func(s func(wire.Frame)) {
			s(started)
			s(wire.Frame{Type: wire.TypeGoAway, Payload: wire.GoAway{Min: 1, Max: 1, Reason: "\x1b[2J"}.Encode()})
		},
		"answer of a request": func(s func(wire.Frame)) { s(wire.Frame{Type: wire.TypeDone, Stream: 1}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := connectTo(t, say)
				block := make(chan struct{})
				defer close(block)
				p, err := c.Start(context.Background(), sandbox.Command{Args: []string{"x"}, Stdout: writerFunc(func(b []byte) (int, error) {
					<-block // so that the window stays shut
					return len(b), nil
				})})
				if err == nil {
					_, err = p.Wait()
				}
				codeIs(t, err, sandbox.CodeUnavailable)
				if s := err.Error(); !strings.Contains(s, "protocol") || strings.Contains(s, "\x1b") {
					t.Errorf("got %q", s)
				}
				codeIs(t, c.Ping(context.Background()), sandbox.CodeUnavailable)
			})
		})
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestHintsAreSkipped(t *testing.T) {
	c := connectTo(t, func(s func(wire.Frame)) {
		s(wire.Frame{Type: 0x80, Payload: []byte("later")})
		s(wire.Frame{Type: wire.TypeStarted, Stream: 1, Payload: wire.Started{PID: 1}.Encode()})
		s(wire.Frame{Type: 0xff, Stream: 1})
		s(wire.Frame{Type: wire.TypeExit, Stream: 1, Payload: wire.Exit{Code: 4}.Encode()})
	})
	if got := run(t, c, sandbox.Command{Args: []string{"x"}}); got.exit.Code != 4 {
		t.Errorf("got %+v", got)
	}
}

func TestNewRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		say  []byte
		code sandbox.Code
	}{
		"garbage":       {bytes.Repeat([]byte{0xde}, 100), sandbox.CodeUnavailable},
		"web server":    {[]byte("HTTP/1.1 400 Bad Request\r\n\r\n"), sandbox.CodeUnavailable},
		"4 GiB":         {[]byte{1, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}, sandbox.CodeUnavailable},
		"cut":           {[]byte{1, 0, 0}, sandbox.CodeUnavailable},
		"other version": {wire.AppendFrame(nil, wire.Frame{Type: wire.TypeHello, Payload: wire.Hello{Version: 99}.Encode()}), sandbox.CodeUnavailable},
		"newer guest":   {wire.AppendFrame(nil, wire.Frame{Type: wire.TypeGoAway, Payload: wire.GoAway{Min: 7, Max: 9}.Encode()}), sandbox.CodeUnsupported},
		"silence":       {nil, sandbox.CodeTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			defer theirs.Close()
			go func() {
				go io.Copy(io.Discard, theirs)
				if tt.say != nil {
					_, _ = theirs.Write(tt.say)
					theirs.Close()
				}
			}()
			within := patience
			if tt.code == sandbox.CodeTimeout {
				within = 200 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(context.Background(), within)
			defer cancel()
			_, err := client.New(ctx, ours, client.Options{})
			codeIs(t, err, tt.code)
			if name == "newer guest" && !strings.Contains(err.Error(), "recreate") {
				t.Errorf("no hint: %v", err)
			}
		})
	}
}

// TestGarbageToGuest speaks to the real guest as no client should.
func TestGarbageToGuest(t *testing.T) {
	g := startGuest(t)
	watch := g.client(client.Options{})
	hello := wire.AppendFrame(nil, wire.Frame{Type: wire.TypeHello, Payload: wire.ClientHello{Min: 1, Max: 1}.Encode()})
	after := func(frames ...wire.Frame) []byte {
		b := bytes.Clone(hello)
		for _, f := range frames {
			b = wire.AppendFrame(b, f)
		}
		return b
	}
	startFrame := wire.Frame{Type: wire.TypeStart, Stream: 5, Payload: wire.Start{Args: []string{"sleep", "1000"}}.Encode()}
	for name, bytes := range map[string][]byte{
		"garbage":           bytes.Repeat([]byte{0xde, 0xad}, 5000),
		"wrong magic":       wire.AppendFrame(nil, wire.Frame{Type: wire.TypeHello, Payload: []byte("what")}),
		"no common version": wire.AppendFrame(nil, wire.Frame{Type: wire.TypeHello, Payload: wire.ClientHello{Min: 9, Max: 10}.Encode()}),
		"4 GiB":             append(after(), 0x10, 0, 0, 0, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff),
		"unknown event":     after(wire.Frame{Type: 0x6e, Stream: 0}),
		"data for nothing":  after(wire.Frame{Type: wire.TypeData, Stream: 3}),
		"stream reused":     after(startFrame, startFrame),
		"malformed start":   after(wire.Frame{Type: wire.TypeStart, Stream: 1, Payload: []byte{1, 2, 3}}),
		"credit overflow":   after(startFrame, wire.Frame{Type: wire.TypeCredit, Flags: wire.Stdout, Stream: 5, Payload: wire.Credit{N: 1 << 31}.Encode()}),
		"guest's stream":    after(wire.Frame{Type: wire.TypeStart, Stream: 1 << 31, Payload: startFrame.Payload}),
	} {
		t.Run(name, func(t *testing.T) {
			conn := g.connect()
			defer conn.Close()
			must(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
			_, _ = conn.Write(bytes) // the guest may close before the end
			r, last := wire.NewReader(conn, wire.MaxData), wire.Frame{}
			for {
				f, err := r.Next()
				if err != nil {
					if strings.Contains(err.Error(), "timeout") {
						t.Fatal("the guest does not close the connection")
					}
					break
				}
				last = f
			}
			if last.Type != wire.TypeGoAway {
				t.Errorf("no GoAway but %+v", last)
			}
			must(t, watch.Ping(context.Background()))
			g.empty(5 * time.Second)
		})
	}
	t.Run("unknown request", func(t *testing.T) {
		conn := g.connect()
		defer conn.Close()
		_, err := conn.Write(after(wire.Frame{Type: 0x3f, Stream: 1}, wire.Frame{Type: wire.TypePing}))
		must(t, err)
		r := wire.NewReader(conn, wire.MaxData)
		var types []wire.Type
		for range 3 {
			f, err := r.Next()
			must(t, err)
			types = append(types, f.Type)
		}
		if types[1] != wire.TypeFailed || types[2] != wire.TypePong {
			t.Errorf("got %x", types)
		}
	})
	t.Run("cut in the middle of a frame", func(t *testing.T) {
		conn := g.connect()
		_, err := conn.Write(after(startFrame)[:len(after(startFrame))-3])
		must(t, err)
		conn.Close()
		must(t, watch.Ping(context.Background()))
	})
}
