package client_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// A talk is with a program that answers each line with a line.
type talk struct {
	t       testing.TB
	p       sandbox.Process
	keys    *io.PipeWriter
	answers *bufio.Reader
}

func startTalk(t testing.TB, c *client.Client, cmd sandbox.Command) *talk {
	t.Helper()
	in, keys := io.Pipe()
	answers, out := io.Pipe()
	cmd.Stdin, cmd.Stdout = in, out
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	p, err := c.Start(ctx, cmd)
	must(t, err)
	t.Cleanup(func() {
		cancel()
		keys.Close()
		answers.Close()
		_, _ = p.Wait()
	})
	context.AfterFunc(ctx, func() { out.CloseWithError(ctx.Err()) })
	return &talk{t, p, keys, bufio.NewReader(answers)}
}

// says sends a line and holds what the next answer is.
func (k *talk) says(line, want string) {
	k.t.Helper()
	_, err := io.WriteString(k.keys, line+"\n")
	must(k.t, err)
	got, err := k.answers.ReadString('\n')
	must(k.t, err)
	if got != want {
		k.t.Fatalf("the answer is %q, not %q", got, want)
	}
}

// TestSizesInOrder holds that of two sizes of a terminal the later one stays,
// and that it is there before a key that was pressed after it.
func TestSizesInOrder(t *testing.T) {
	g := startGuest(t)
	cmd := sh("stty -echo; echo ready; while read x; do stty size; done")
	cmd.TTY = &sandbox.TTY{Rows: 1, Cols: 1}
	k := startTalk(t, g.client(client.Options{}), cmd)
	ready, err := k.answers.ReadString('\n')
	must(t, err)
	if ready != "ready\r\n" {
		t.Fatalf("got %q", ready)
	}
	for i := range uint16(300) {
		for cols := range uint16(3) {
			must(t, k.p.Resize(context.Background(), sandbox.TTY{Rows: i + 1, Cols: cols + 1}))
		}
		k.says("", fmt.Sprintf("%d 3\r\n", i+1))
	}
}

// TestSignalsInOrder holds that a program that was stopped and continued
// goes on.
func TestSignalsInOrder(t *testing.T) {
	g := startGuest(t)
	k := startTalk(t, g.client(client.Options{}), sandbox.Command{Args: []string{"cat"}})
	for i := range 300 {
		for range 3 {
			must(t, k.p.Signal(context.Background(), "STOP"))
			must(t, k.p.Signal(context.Background(), "CONT"))
		}
		line := fmt.Sprintf("line %d", i)
		k.says(line, line+"\n")
	}
}

// TestOrdersBeforeLaunch is the same for what comes with the request, before
// the program runs.
func TestOrdersBeforeLaunch(t *testing.T) {
	g := startGuest(t)
	conn := g.connect()
	defer conn.Close()
	must(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	r, w := wire.NewReader(conn, wire.MaxData), wire.NewWriter(conn)
	must(t, w.Write(wire.Frame{Type: wire.TypeHello, Payload: wire.ClientHello{Min: 1, Max: 1}.Encode()}))
	_, err := r.Next()
	must(t, err)
	for stream := uint32(1); stream <= 50; stream++ {
		size := uint16(100 + stream)
		for _, f := range []wire.Frame{
			{Type: wire.TypeStart, Payload: wire.Start{
				Flags: wire.FlagTTY, Rows: 1, Cols: 1, Args: []string{"/bin/sh", "-c", "read x; stty size"}, Dir: "/", Env: []string{"PATH=/bin:/usr/bin"},
			}.Encode()},
			{Type: wire.TypeSignal, Payload: wire.Signal{Number: 19}.Encode()},
			{Type: wire.TypeResize, Payload: wire.Resize{Rows: size, Cols: 2}.Encode()},
			{Type: wire.TypeSignal, Payload: wire.Signal{Number: 18}.Encode()},
			{Type: wire.TypeResize, Payload: wire.Resize{Rows: size, Cols: 3}.Encode()},
			{Type: wire.TypeData, Flags: wire.Stdin, Payload: []byte("\n")},
		} {
			f.Stream = stream
			must(t, w.Write(f))
		}
		var out bytes.Buffer
		for ended := false; !ended; {
			f, err := r.Next()
			must(t, err)
			switch f.Type {
			case wire.TypeData:
				out.Write(f.Payload)
			case wire.TypeFailed, wire.TypeGoAway:
				t.Fatalf("got %#x %q", f.Type, f.Payload)
			case wire.TypeExit:
				ended = true
			}
		}
		if want := fmt.Sprintf("%d 3\r\n", size); !bytes.Contains(out.Bytes(), []byte(want)) {
			t.Fatalf("the program says %q, not %q", out.String(), want)
		}
	}
}
