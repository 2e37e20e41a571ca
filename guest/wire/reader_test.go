package wire_test

import (
	"bytes"
	"io"
	"runtime"
	"slices"
	"testing"

	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// TestReaderHoldsLittle holds that a connection that waits takes little, also
// when much has come over it.
func TestReaderHoldsLittle(t *testing.T) {
	const readers, each = 500, 12 << 10 // bytes that each may hold
	frame := func(n int) []byte {
		return wire.AppendFrame(nil, wire.Frame{Type: wire.TypeData, Stream: 1, Payload: make([]byte, n)})
	}
	in := bytes.Join([][]byte{frame(wire.MaxData), frame(100), frame(wire.MaxData), frame(0), frame(8)}, nil)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	all := make([]*wire.Reader, readers)
	for i := range all {
		all[i] = wire.NewReader(bytes.NewReader(in), wire.MaxData)
		for range 5 {
			if _, err := all[i].Next(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := all[i].Next(); err != io.EOF {
			t.Fatal(err)
		}
		all[i].Release()
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if held := int64(after.HeapAlloc) - int64(before.HeapAlloc); held > readers*each {
		t.Errorf("%d that wait hold %d KiB, %d for each", readers, held>>10, held/readers)
	}
	runtime.KeepAlive(all)
}

// TestReaderKeepsItsBuffer holds that a stream of large payloads does not
// make a buffer for each of them.
func TestReaderKeepsItsBuffer(t *testing.T) {
	const frames = 64
	one := wire.AppendFrame(nil, wire.Frame{Type: wire.TypeData, Stream: 1, Payload: make([]byte, wire.MaxData)})
	small := wire.AppendFrame(nil, wire.Frame{Type: wire.TypeCredit, Stream: 1, Payload: make([]byte, 9)})
	in := bytes.Repeat(slices.Concat(one, small, small, small), frames)
	allocated := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			r := wire.NewReader(bytes.NewReader(in), wire.MaxData)
			for range 4 * frames {
				if _, err := r.Next(); err != nil {
					b.Fatal(err)
				}
			}
		}
	}).AllocedBytesPerOp()
	if allocated > 4*wire.MaxData {
		t.Errorf("%d KiB for %d frames", allocated>>10, frames)
	}
}
