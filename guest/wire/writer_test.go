package wire

import (
	"bytes"
	"errors"
	"testing"
)

// A writes is a writer that keeps each write apart.
type writes struct {
	all [][]byte
	err error
}

func (w *writes) Write(b []byte) (int, error) {
	w.all = append(w.all, bytes.Clone(b))
	return len(b), w.err
}

// numbers are the streams of the frames in each write.
func (w *writes) numbers(t *testing.T) [][]uint32 {
	t.Helper()
	var all [][]uint32
	for _, b := range w.all {
		var one []uint32
		for r := NewReader(bytes.NewReader(b), 0); ; {
			f, err := r.Next()
			if err != nil {
				break
			}
			one = append(one, f.Stream)
		}
		all = append(all, one)
	}
	return all
}

func dataOf(stream uint32, n int) Frame {
	return Frame{Type: TypeData, Stream: stream, Payload: make([]byte, n)}
}

func inPlace(n int) []byte { return make([]byte, HeaderLen+n) }

func TestWriterKeepsTheOrder(t *testing.T) {
	to := &writes{}
	w := NewWriter(to)
	hold := func(stream uint32) {
		t.Helper()
		if err := w.Hold(dataOf(stream, 1)); err != nil {
			t.Errorf("frame %d: %v", stream, err)
		}
	}
	flush := func() {
		t.Helper()
		if err := w.Flush(); err != nil {
			t.Errorf("flush: %v", err)
		}
	}
	flush()
	hold(1)
	hold(2)
	if len(to.all) > 0 {
		t.Error("written too early")
	}
	flush()
	hold(3)
	if err := w.Write(dataOf(4, 1)); err != nil {
		t.Error(err)
	}
	flush()
	hold(5)
	if err := w.WriteInPlace(dataOf(6, 0), inPlace(10)); err != nil {
		t.Error(err)
	}
	hold(7)
	if err := w.WriteInPlace(dataOf(8, 0), inPlace(maxHeld)); err != nil {
		t.Error(err)
	}
	want := [][]uint32{{1, 2}, {3, 4}, {5, 6}, {7}, {8}}
	got := to.numbers(t)
	if len(got) != len(want) {
		t.Fatalf("writes: %v, want %v", got, want)
	}
	for i := range want {
		if len(got[i]) != len(want[i]) || got[i][0] != want[i][0] || got[i][len(got[i])-1] != want[i][len(want[i])-1] {
			t.Errorf("write %d: %v, want %v", i, got[i], want[i])
		}
	}
}

func TestWriterHoldsLittle(t *testing.T) {
	to := &writes{}
	w := NewWriter(to)
	for range 3 * maxHeld / 1000 {
		if err := w.Hold(dataOf(1, 1000)); err != nil {
			t.Fatal(err)
		}
	}
	if len(to.all) == 0 {
		t.Error("held back without bound")
	}
	for _, b := range to.all {
		if len(b) > maxHeld+HeaderLen+1000 {
			t.Errorf("%d bytes were held back", len(b))
		}
	}
}

func TestWriterStaysBroken(t *testing.T) {
	broken := errors.New("broken")
	to := &writes{err: broken}
	w := NewWriter(to)
	if err := w.Hold(dataOf(1, 1)); err != nil {
		t.Error("nothing was written yet:", err)
	}
	if err := w.Flush(); err != broken {
		t.Error(err)
	}
	for _, err := range []error{w.Hold(dataOf(2, 1)), w.Write(dataOf(3, 1)), w.WriteInPlace(dataOf(4, 0), inPlace(1))} {
		if err != broken {
			t.Error(err)
		}
	}
	if len(to.all) != 1 {
		t.Errorf("%d writes to what is broken", len(to.all))
	}
}
