package client_test

import (
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// TestGarbageFileRequests asks the real guest for files as no client should:
// some of it is answered, and some ends the connection.
func TestGarbageFileRequests(t *testing.T) {
	p := newPlaces(t)
	g := startGuest(t)
	watch := g.client(client.Options{})
	file := func(m wire.File) wire.Frame {
		if m.Root == "" {
			m.Root = p.work
		}
		return wire.Frame{Type: wire.TypeFile, Stream: 1, Payload: m.Encode()}
	}
	writing := file(wire.File{Op: wire.FileWrite, Path: "f"})
	for _, tt := range []struct {
		name string
		say  []wire.Frame
		kind wire.Kind // of the failure; 0 when the connection ends instead
	}{
		{"unknown operation", []wire.Frame{file(wire.File{Op: 99})}, wire.KindUnsupported},
		{"no operation", []wire.Frame{file(wire.File{})}, wire.KindUnsupported},
		{"absolute path", []wire.Frame{file(wire.File{Op: wire.FileStat, Path: "/etc/passwd"})}, wire.KindInvalid},
		{"absolute new name", []wire.Frame{file(wire.File{Op: wire.FileRename, Path: "f", Other: "/tmp/x"})}, wire.KindInvalid},
		{"path that climbs", []wire.Frame{file(wire.File{Op: wire.FileStat, Path: "../outside"})}, wire.KindEscape},
		{"path that climbs without links", []wire.Frame{file(wire.File{Op: wire.FileStat, Flags: wire.FileNoLinks, Path: "../outside"})}, wire.KindEscape},
		{"tree that climbs", []wire.Frame{file(wire.File{Op: wire.FileRemove, Flags: wire.FileNoLinks | wire.FileRecursive | wire.FileClear, Path: "../outside"})}, wire.KindEscape},
		{"write that climbs", []wire.Frame{file(wire.File{Op: wire.FileWrite, Flags: wire.FileInline, Path: "a/../../f"})}, wire.KindEscape},
		{"relative root", []wire.Frame{file(wire.File{Op: wire.FileStat, Root: "etc"})}, wire.KindNoRoot},
		{"everything as root", []wire.Frame{file(wire.File{Op: wire.FileStat, Root: "/", Path: "etc"})}, wire.KindNoRoot},
		{"root that climbs", []wire.Frame{file(wire.File{Op: wire.FileStat, Root: p.work + "/../outside"})}, wire.KindNoRoot},
		{"negative offset", []wire.Frame{file(wire.File{Op: wire.FileRead, Offset: 1 << 63})}, wire.KindFile},
		{"called off", []wire.Frame{writing, {Type: wire.TypeKill, Stream: 1, Payload: wire.Kill{}.Encode()}}, wire.KindCalledOff},

		{"a command's frame", []wire.Frame{writing, {Type: wire.TypeResize, Stream: 1}}, 0},
		{"a malformed request", []wire.Frame{{Type: wire.TypeFile, Stream: 1, Payload: []byte("x")}}, 0},
		{"content on another channel", []wire.Frame{writing, {Type: wire.TypeData, Flags: 3, Stream: 1}}, 0},
		{"credit of a write", []wire.Frame{writing, {Type: wire.TypeCredit, Stream: 1}}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			conn := g.connect()
			defer conn.Close()
			must(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
			b := wire.AppendFrame(nil, wire.Frame{Type: wire.TypeHello, Payload: wire.ClientHello{Min: 1, Max: 1}.Encode()})
			for _, f := range tt.say {
				b = wire.AppendFrame(b, f)
			}
			_, _ = conn.Write(b) // the guest may close before the end
			r := wire.NewReader(conn, wire.MaxData)
			_, err := r.Next()
			must(t, err)
			f, err := r.Next()
			for err == nil && tt.kind == 0 && f.Type != wire.TypeGoAway {
				f, err = r.Next() // an answer that was faster
			}
			must(t, err)
			if tt.kind == 0 {
				return
			}
			m, err := wire.DecodeFailed(f.Payload)
			if err != nil || f.Type != wire.TypeFailed || m.Kind != tt.kind {
				t.Errorf("got type %#x, %+v, %v", f.Type, m, err)
			}
		})
	}
	must(t, watch.Ping(t.Context()))
}
