package client_test

import (
	"context"
	"errors"
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

// ip4 is an endpoint of 127.0.0.1.
func ip4(port uint16) wire.Endpoint {
	return wire.Endpoint{Family: wire.FamilyIPv4, Port: port, Host: "\x7f\x00\x00\x01"}
}

// forwarding is a hostile guest that says it can forward. It answers the
// first request with answer, then says what say tells it to.
func forwarding(t testing.TB, answer wire.Frame, say func(send func(wire.Frame))) *client.Client {
	t.Helper()
	ours, theirs := net.Pipe()
	go func() {
		r, w := wire.NewReader(theirs, wire.MaxRequest), wire.NewWriter(theirs)
		hello := wire.Hello{Version: wire.Version, Features: []string{wire.FeatureForward}}
		for _, f := range []wire.Frame{{Type: wire.TypeHello, Payload: hello.Encode()}, answer} {
			if _, err := r.Next(); err != nil {
				return
			}
			_ = w.Write(f)
		}
		go io.Copy(io.Discard, theirs)
		say(func(f wire.Frame) { _ = w.Write(f) })
	}()
	c, err := client.New(context.Background(), ours, client.Options{Name: "box"})
	must(t, err)
	t.Cleanup(func() {
		theirs.Close()
		c.Close()
	})
	return c
}

var (
	connected = wire.Frame{Type: wire.TypeConnected, Stream: 1, Payload: wire.Connected{Local: ip4(1), Remote: ip4(2)}.Encode()}
	listening = wire.Frame{Type: wire.TypeListening, Stream: 1, Payload: wire.Listening{At: ip4(1)}.Encode()}
)

func accepted(stream, listener uint32, from wire.Endpoint) wire.Frame {
	return wire.Frame{Type: wire.TypeAccepted, Stream: stream, Payload: wire.Accepted{Listener: listener, Local: ip4(1), Remote: from}.Encode()}
}

// TestForwardHostileGuest: whatever a guest says against the rules ends the
// connection to it, with a word about the protocol.
func TestForwardHostileGuest(t *testing.T) {
	const first = wire.FirstAccepted
	unix := wire.Endpoint{Family: wire.FamilyUnix, Host: "/s"}
	frame := func(ty wire.Type, flags uint8, payload []byte) wire.Frame {
		return wire.Frame{Type: ty, Flags: flags, Stream: 1, Payload: payload}
	}
	data := func(flags uint8, n int) wire.Frame { return frame(wire.TypeData, flags, make([]byte, n)) }
	type lie struct {
		answer wire.Frame
		then   []wire.Frame
	}
	toDial := map[string]lie{
		"connected twice":           {connected, []wire.Frame{connected}},
		"data before the answer":    {data(wire.Outward, 1), nil},
		"done before the answer":    {frame(wire.TypeDone, 0, nil), nil},
		"malformed answer":          {frame(wire.TypeConnected, 0, []byte{4}), nil},
		"answer of another request": {listening, nil},
		"an address of 3 bytes":     {frame(wire.TypeConnected, 0, []byte{4, 0, 0, 3, 0, 0, 0, 1, 2, 3}), nil},
		"another family":            {frame(wire.TypeConnected, 0, wire.Connected{Local: unix, Remote: unix}.Encode()), nil},
		"data on the other channel": {connected, []wire.Frame{data(wire.Inward, 1)}},
		"data on channel 9":         {connected, []wire.Frame{data(9, 1)}},
		"more than the window":      {connected, []wire.Frame{data(wire.Outward, wire.MaxData), data(wire.Outward, wire.ConnWindow-wire.MaxData), data(wire.Outward, 1)}},
		"data after the end":        {connected, []wire.Frame{data(wire.Outward|wire.FlagEOF, 1), data(wire.Outward, 1)}},
		"credit for nothing":        {connected, []wire.Frame{frame(wire.TypeCredit, wire.Inward, wire.Credit{N: 1}.Encode())}},
		"4 GiB of credit":           {connected, []wire.Frame{frame(wire.TypeCredit, wire.Inward, wire.Credit{N: 1<<32 - 1}.Encode())}},
		"credit for the other way":  {connected, []wire.Frame{frame(wire.TypeCredit, wire.Outward, wire.Credit{N: 1}.Encode())}},
		"stop of the other way":     {connected, []wire.Frame{frame(wire.TypeStop, wire.Outward, nil)}},
		"exit of a connection":      {connected, []wire.Frame{frame(wire.TypeExit, 0, wire.Exit{}.Encode())}},
		"frames after the end":      {connected, []wire.Frame{frame(wire.TypeDone, 0, nil), data(wire.Outward, 1)}},
		"accepted at a connection":  {connected, []wire.Frame{accepted(first, 1, ip4(3))}},
		"accepted at nothing":       {connected, []wire.Frame{accepted(first, 9, ip4(3))}},
		"accepted after the end":    {connected, []wire.Frame{frame(wire.TypeDone, 0, nil), accepted(first, 1, ip4(3))}},
	}
	toListen := map[string]lie{
		"listening twice":             {listening, []wire.Frame{listening}},
		"listening elsewhere":         {frame(wire.TypeListening, 0, wire.Listening{At: unix}.Encode()), nil},
		"data at a listener":          {listening, []wire.Frame{data(wire.Outward, 1)}},
		"accepted as our stream":      {listening, []wire.Frame{accepted(2, 1, ip4(3))}},
		"accepted as the listener":    {listening, []wire.Frame{accepted(1, 1, ip4(3))}},
		"accepted on the connection":  {listening, []wire.Frame{accepted(0, 1, ip4(3))}},
		"accepted twice as one":       {listening, []wire.Frame{accepted(first, 1, ip4(3)), accepted(first, 1, ip4(4))}},
		"accepted by a connection":    {listening, []wire.Frame{accepted(first, 1, ip4(3)), accepted(first+1, first, ip4(4))}},
		"accepted from elsewhere":     {listening, []wire.Frame{accepted(first, 1, unix)}},
		"accepted before Listening":   {accepted(first, 1, ip4(3)), nil},
		"accepted though refused":     {frame(wire.TypeFailed, 0, wire.Failed{Errno: 98}.Encode()), []wire.Frame{accepted(first, 1, ip4(3))}},
		"late twice as one":           {listening, []wire.Frame{frame(wire.TypeDone, 0, nil), accepted(first, 1, ip4(3)), accepted(first, 1, ip4(4))}},
		"late as our stream":          {listening, []wire.Frame{frame(wire.TypeDone, 0, nil), accepted(1, 1, ip4(3))}},
		"late from elsewhere":         {listening, []wire.Frame{frame(wire.TypeDone, 0, nil), accepted(first, 1, unix)}},
		"late at nothing":             {listening, []wire.Frame{frame(wire.TypeDone, 0, nil), accepted(first, 2, ip4(3))}},
		"more than may be late":       {listening, append([]wire.Frame{frame(wire.TypeDone, 0, nil)}, flood(257)...)},
		"malformed accepted":          {listening, []wire.Frame{{Type: wire.TypeAccepted, Stream: first, Payload: []byte{1, 0, 0, 0}}}},
		"more than the listener may":  {listening, flood(257)},
		"a connection nobody opened":  {listening, []wire.Frame{{Type: wire.TypeData, Stream: first, Flags: wire.Outward, Payload: []byte("x")}}},
		"another request to the host": {listening, []wire.Frame{{Type: wire.TypeDial, Stream: first, Payload: wire.Dial{To: ip4(22)}.Encode()}}},
		"an unknown request":          {listening, []wire.Frame{{Type: 0x71, Stream: first}}},
	}
	ask := func(t *testing.T, tt lie, call func(ctx context.Context, c *client.Client)) {
		c := forwarding(t, tt.answer, func(send func(wire.Frame)) {
			for _, f := range tt.then {
				send(f)
			}
		})
		ctx, cancel := context.WithTimeout(context.Background(), forwardWithin)
		defer cancel()
		call(ctx, c)
		select {
		case <-c.Done():
			codeIs(t, c.Err(), sandbox.CodeUnavailable)
			if !strings.Contains(c.Err().Error(), "protocol") {
				t.Errorf("got %v", c.Err())
			}
		case <-ctx.Done():
			t.Fatal("the connection stands")
		}
	}
	for name, tt := range toDial {
		t.Run("dial/"+name, func(t *testing.T) {
			ask(t, tt, func(ctx context.Context, c *client.Client) { _, _ = c.Dial(ctx, "tcp", "127.0.0.1:2") })
		})
	}
	for name, tt := range toListen {
		t.Run("listen/"+name, func(t *testing.T) {
			ask(t, tt, func(ctx context.Context, c *client.Client) { _, _ = c.Listen(ctx, "tcp", "127.0.0.1:1") })
		})
	}
}

// flood returns n connections that were not asked for.
func flood(n int) []wire.Frame {
	var l []wire.Frame
	for i := range uint32(n) {
		l = append(l, accepted(wire.FirstAccepted+i, 1, ip4(3)))
	}
	return l
}

// TestForwardQueueIsBounded: connections that break before anybody accepts
// them come without end, and cost nothing.
func TestForwardQueueIsBounded(t *testing.T) {
	const rounds = 20000
	before := heldMemory()
	said := make(chan struct{})
	c := forwarding(t, listening, func(send func(wire.Frame)) {
		for i := range uint32(rounds) {
			send(accepted(wire.FirstAccepted+i, 1, ip4(3)))
			send(wire.Frame{Type: wire.TypeFailed, Stream: wire.FirstAccepted + i, Payload: wire.Failed{Errno: 104}.Encode()})
		}
		send(accepted(wire.FirstAccepted+rounds, 1, ip4(99)))
		close(said)
	})
	l, err := c.Listen(context.Background(), "tcp", "127.0.0.1:1")
	must(t, err)
	<-said
	must(t, c.Err())
	if grown := heldMemory() - before; grown > 4<<20 {
		t.Errorf("the client holds %d bytes more", grown)
	}
	for n := 1; ; n++ {
		conn, err := l.Accept()
		must(t, err)
		if conn.RemoteAddr().(*net.TCPAddr).Port == 99 {
			return
		}
		if n > 256 {
			t.Fatal("the queue holds more than a listener may have")
		}
	}
}

// TestForwardNeedsFeature: a guest of before forwarding is not asked.
func TestForwardNeedsFeature(t *testing.T) {
	c := connectTo(t, func(func(wire.Frame)) { t.Error("it was asked") })
	_, err := c.Dial(context.Background(), "tcp", "127.0.0.1:1")
	codeIs(t, err, sandbox.CodeUnsupported)
	_, err = c.Listen(context.Background(), "tcp", "127.0.0.1:0")
	codeIs(t, err, sandbox.CodeUnsupported)
}

// TestForwardSilentGuest holds that every call ends, whatever its context
// allows, when the guest falls silent.
func TestForwardSilentGuest(t *testing.T) {
	for name, call := range map[string]func(ctx context.Context, c *client.Client) error{
		"Dial": func(ctx context.Context, c *client.Client) error {
			_, err := c.Dial(ctx, "tcp", "127.0.0.1:1")
			return err
		},
		"Listen": func(ctx context.Context, c *client.Client) error {
			_, err := c.Listen(ctx, "tcp", "127.0.0.1:1")
			return err
		},
	} {
		for _, bounded := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ours, theirs := net.Pipe()
					go func() {
						r, w := wire.NewReader(theirs, wire.MaxRequest), wire.NewWriter(theirs)
						_, _ = r.Next()
						hello := wire.Hello{Version: wire.Version, Features: []string{wire.FeatureForward}}
						_ = w.Write(wire.Frame{Type: wire.TypeHello, Payload: hello.Encode()})
						_, _ = io.Copy(io.Discard, theirs)
					}()
					c, err := client.New(t.Context(), ours, client.Options{Name: "box"})
					must(t, err)
					defer theirs.Close()
					defer c.Close()
					ctx, want, within := t.Context(), sandbox.CodeUnavailable, time.Minute
					if bounded {
						want, within = sandbox.CodeTimeout, 2*time.Second
						var cancel context.CancelFunc
						ctx, cancel = context.WithTimeout(ctx, time.Second)
						defer cancel()
					}
					begin := time.Now()
					codeIs(t, call(ctx, c), want)
					if took := time.Since(begin); took > within {
						t.Errorf("took %v", took)
					}
				})
			})
		}
	}
}

// TestForwardDialsAreBounded: a guest that never ends a connection does not
// make the host's memory grow for ever.
func TestForwardDialsAreBounded(t *testing.T) {
	ours, theirs := net.Pipe()
	go func() {
		r, w := wire.NewReader(theirs, wire.MaxRequest), wire.NewWriter(theirs)
		hello := wire.Hello{Version: wire.Version, Features: []string{wire.FeatureForward}}
		for {
			f, err := r.Next()
			switch {
			case err != nil:
				return
			case f.Type == wire.TypeHello:
				_ = w.Write(wire.Frame{Type: wire.TypeHello, Payload: hello.Encode()})
			case f.Type == wire.TypeDial:
				_ = w.Write(wire.Frame{Type: wire.TypeConnected, Stream: f.Stream, Payload: connected.Payload})
			}
		}
	}()
	c, err := client.New(context.Background(), ours, client.Options{})
	must(t, err)
	defer c.Close()
	defer theirs.Close()
	for range 1024 {
		conn, err := c.Dial(context.Background(), "tcp", "127.0.0.1:2")
		must(t, err)
		conn.Close()
	}
	_, err = c.Dial(context.Background(), "tcp", "127.0.0.1:2")
	codeIs(t, err, sandbox.CodeExecution)
	var e *sandbox.Error
	if !errors.As(err, &e) || !e.Retryable {
		t.Errorf("got %+v", e)
	}
}
