package client_test

import (
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

// TestShellOldGuest checks that a guest from before shells is recognised.
func TestShellOldGuest(t *testing.T) {
	c := connectTo(t, func(func(wire.Frame)) {})
	_, err := c.OpenShell(context.Background(), sandbox.ShellOptions{}, sandbox.Limits{})
	codeIs(t, err, sandbox.CodeUnsupported)
	if !strings.Contains(err.Error(), "recreate") {
		t.Errorf("no hint: %v", err)
	}
}

// shellGuest returns a client of a guest that was taken over: it answers
// the first request with opening, and the second one with answer.
func shellGuest(t *testing.T, opening, answer []wire.Frame) *client.Client {
	ours, theirs := net.Pipe()
	go func() {
		r, w := wire.NewReader(theirs, wire.MaxRequest), wire.NewWriter(theirs)
		hello := wire.Frame{Type: wire.TypeHello, Payload: wire.Hello{Version: wire.Version, Features: []string{wire.FeatureShell}}.Encode()}
		for _, frames := range [][]wire.Frame{{hello}, opening, answer} {
			if _, err := r.Next(); err != nil {
				return
			}
			for _, f := range frames {
				_ = w.Write(f)
			}
		}
		_, _ = io.Copy(io.Discard, theirs)
	}()
	c, err := client.New(context.Background(), ours, client.Options{})
	must(t, err)
	t.Cleanup(func() {
		theirs.Close()
		c.Close()
	})
	return c
}

func TestShellHostileGuest(t *testing.T) {
	opened := wire.Frame{Type: wire.TypeOpened, Stream: 1, Payload: wire.ShellOpened{Program: "bash"}.Encode()}
	event := func(ty wire.Type, stream uint32, payload []byte) wire.Frame {
		return wire.Frame{Type: ty, Stream: stream, Payload: payload}
	}
	for name, opening := range map[string][]wire.Frame{
		"closed before it was opened": {event(wire.TypeDone, 1, nil)},
		"program to be printed":       {event(wire.TypeOpened, 1, wire.ShellOpened{Program: "\x1b[2J"}.Encode())},
		"malformed":                   {event(wire.TypeOpened, 1, []byte{9})},
		"started":                     {event(wire.TypeStarted, 1, wire.Started{}.Encode())},
		"data":                        {event(wire.TypeData, 1, []byte("x"))},
		"another stream":              {event(wire.TypeOpened, 2, opened.Payload)},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := shellGuest(t, opening, nil).OpenShell(context.Background(), sandbox.ShellOptions{}, sandbox.Limits{})
			codeIs(t, err, sandbox.CodeUnavailable)
		})
	}
	for name, answer := range map[string][]wire.Frame{
		"opened twice":                {opened},
		"fails when open":             {event(wire.TypeFailed, 1, wire.Failed{}.Encode())},
		"exit of the shell":           {event(wire.TypeExit, 1, wire.Exit{}.Encode())},
		"line opened":                 {event(wire.TypeOpened, 2, opened.Payload)},
		"line done":                   {event(wire.TypeDone, 2, nil)},
		"line ended before it began":  {event(wire.TypeExit, 2, wire.Exit{Restarted: true}.Encode())},
		"output that nobody asked of": {event(wire.TypeStarted, 2, wire.Started{}.Encode()), event(wire.TypeData, 2, nil)},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := shellGuest(t, []wire.Frame{opened}, answer).OpenShell(context.Background(), sandbox.ShellOptions{}, sandbox.Limits{})
			must(t, err)
			p, err := s.Run(context.Background(), "true", sandbox.Command{})
			if err == nil {
				_, err = p.Wait()
			}
			codeIs(t, err, sandbox.CodeUnavailable)
		})
	}
	t.Run("silent about the end", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, err := shellGuest(t, []wire.Frame{opened}, nil).OpenShell(context.Background(), sandbox.ShellOptions{}, sandbox.Limits{})
			must(t, err)
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
			defer cancel()
			_, err = s.Run(ctx, "true", sandbox.Command{})
			codeIs(t, err, sandbox.CodeTimeout)
		})
	})
}

// TestShellGarbageToGuest asks the real guest for what no client would.
func TestShellGarbageToGuest(t *testing.T) {
	g := startGuest(t)
	watch := g.client(client.Options{})
	hello := wire.Frame{Type: wire.TypeHello, Payload: wire.ClientHello{Min: 1, Max: 1}.Encode()}
	shell := wire.Frame{Type: wire.TypeShell, Stream: 1, Payload: wire.Shell{}.Encode()}
	line := func(stream, of uint32, text string) wire.Frame {
		return wire.Frame{Type: wire.TypeLine, Stream: stream, Payload: wire.Line{Shell: of, Flags: wire.FlagNoStdin, Text: text}.Encode()}
	}
	say := func(frames ...wire.Frame) (*wire.Reader, net.Conn) {
		conn := g.connect()
		t.Cleanup(func() { conn.Close() })
		must(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
		b := wire.AppendFrame(nil, hello)
		for _, f := range frames {
			b = wire.AppendFrame(b, f)
		}
		_, err := conn.Write(b)
		must(t, err)
		return wire.NewReader(conn, wire.MaxData), conn
	}
	for name, f := range map[string]wire.Frame{
		"data for a shell":   {Type: wire.TypeData, Stream: 1},
		"signal for a shell": {Type: wire.TypeSignal, Stream: 1, Payload: wire.Signal{Number: 9}.Encode()},
		"malformed kill":     {Type: wire.TypeKill, Stream: 1},
		"malformed line":     {Type: wire.TypeLine, Stream: 2, Payload: []byte{1}},
		"NUL in a line":      line(2, 1, "echo a\x00b"),
		"malformed shell":    {Type: wire.TypeShell, Stream: 2, Payload: []byte{1}},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := say(shell, f)
			last := wire.Frame{}
			for {
				f, err := r.Next()
				if err != nil {
					break
				}
				last = f
			}
			if last.Type != wire.TypeGoAway {
				t.Errorf("no GoAway but %+v", last)
			}
			g.empty(5 * time.Second)
			must(t, watch.Ping(context.Background()))
		})
	}
	t.Run("lines out of place", func(t *testing.T) {
		start := wire.Frame{Type: wire.TypeStart, Stream: 2, Payload: wire.Start{Args: []string{"sleep", "1000"}}.Encode()}
		r, conn := say(shell, start, line(3, 2, "of a command"), line(4, 77, "of nothing"), line(5, 1, "echo a; sleep 1000"), line(6, 1, "beside it"))
		failed := map[uint32]bool{}
		for len(failed) < 3 {
			f, err := r.Next()
			must(t, err)
			if f.Type == wire.TypeFailed {
				failed[f.Stream] = true
			}
		}
		if !failed[3] || !failed[4] || !failed[6] {
			t.Errorf("failed: %v", failed)
		}
		_, err := conn.Write(wire.AppendFrame(nil, wire.Frame{Type: wire.TypeKill, Stream: 1, Payload: wire.Kill{}.Encode()}))
		must(t, err)
		var ends []uint32
		for len(ends) < 2 {
			f, err := r.Next()
			must(t, err)
			if f.Type == wire.TypeExit || f.Type == wire.TypeDone || f.Type == wire.TypeFailed {
				ends = append(ends, f.Stream)
			}
		}
		if ends[0] != 5 || ends[1] != 1 {
			t.Errorf("ends: %v", ends)
		}
	})
}
