package client_test

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// FuzzForwardClient has a guest say anything, first an answer each to a dial
// and a listen. The client must end in bounded time, or go on, and never
// panic or hold more than its windows.
func FuzzForwardClient(f *testing.F) {
	at := func(stream uint32, ty wire.Type, flags uint8, payload []byte) []byte {
		return wire.AppendFrame(nil, wire.Frame{Type: ty, Flags: flags, Stream: stream, Payload: payload})
	}
	f.Add(at(1, wire.TypeData, wire.Outward, []byte("bytes")))
	f.Add(at(1, wire.TypeData, wire.Outward|wire.FlagEOF, nil))
	f.Add(append(at(1, wire.TypeStop, wire.Inward, nil), at(1, wire.TypeDone, 0, nil)...))
	f.Add(at(1, wire.TypeFailed, 0, wire.Failed{Errno: 104}.Encode()))
	f.Add(append(wire.AppendFrame(nil, accepted(wire.FirstAccepted, 2, ip4(3))), at(wire.FirstAccepted, wire.TypeData, wire.Outward, []byte("x"))...))
	f.Add(at(2, wire.TypeDone, 0, nil))
	f.Add(at(wire.FirstAccepted, wire.TypeCredit, wire.Inward, wire.Credit{N: 1 << 20}.Encode()))
	f.Fuzz(func(t *testing.T, said []byte) {
		ours, theirs := net.Pipe()
		go func() {
			r, w := wire.NewReader(theirs, wire.MaxRequest), wire.NewWriter(theirs)
			hello := wire.Hello{Version: wire.Version, Features: []string{wire.FeatureForward}}
			two := wire.Frame{Type: wire.TypeListening, Stream: 2, Payload: wire.Listening{At: ip4(1)}.Encode()}
			for _, f := range []wire.Frame{{Type: wire.TypeHello, Payload: hello.Encode()}, connected, two} {
				if _, err := r.Next(); err != nil {
					return
				}
				_ = w.Write(f)
			}
			go io.Copy(io.Discard, theirs)
			_, _ = theirs.Write(said)
			theirs.Close()
		}()
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		c, err := client.New(ctx, ours, client.Options{})
		must(t, err)
		defer c.Close()
		conn, err := c.Dial(ctx, "tcp", "127.0.0.1:2")
		must(t, err)
		l, err := c.Listen(ctx, "tcp", "127.0.0.1:1")
		if err != nil {
			return // the end came first
		}
		got, _ := io.Copy(io.Discard, conn)
		if got > int64(len(said)) {
			t.Errorf("read %d bytes of %d", got, len(said))
		}
		for {
			conn, err := l.Accept()
			if err != nil {
				break
			}
			_, _ = conn.Write([]byte("x"))
			conn.Close()
		}
		<-c.Done()
		if ctx.Err() != nil {
			t.Error("it hung")
		}
	})
}
