package manager_test

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/bulkhead-dev/sandbox/manager"
)

// TestCopyDirection holds that bytes come through as they are, whatever the pieces,
// and how errors end the copy.
func TestCopyDirection(t *testing.T) {
	data := make([]byte, 1<<20+7)
	for i := range data {
		data[i] = byte(i * 7 >> 3)
	}
	for name, wrap := range map[string]func(io.Reader) io.Reader{
		"whole": func(r io.Reader) io.Reader { return r }, "bytes": iotest.OneByteReader, "halves": iotest.HalfReader, "with the end": iotest.DataErrReader,
	} {
		var out bytes.Buffer
		if err := manager.CopyDirection(&out, wrap(bytes.NewReader(data))); err != nil || !bytes.Equal(out.Bytes(), data) {
			t.Errorf("%s: %d bytes, %v", name, out.Len(), err)
		}
	}
	broken := errors.New("broken")
	var out bytes.Buffer
	if err := manager.CopyDirection(&out, io.MultiReader(bytes.NewReader(data), iotest.ErrReader(broken))); err != broken || out.Len() != len(data) {
		t.Errorf("%v after %d bytes", err, out.Len())
	}
	r, w := io.Pipe()
	r.CloseWithError(broken)
	if err := manager.CopyDirection(w, bytes.NewReader(data)); err != broken {
		t.Errorf("a writer that fails: %v", err)
	}
	// A direction in which nothing comes holds no large buffer.
	if n := testing.AllocsPerRun(10, func() { _ = manager.CopyDirection(io.Discard, bytes.NewReader(nil)) }); n > 3 {
		t.Errorf("%v allocations", n)
	}
}
