package wire_test

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// The race detector finds a write that goes on after Stop.
func TestWritesStop(t *testing.T) {
	for range 200 {
		var (
			w   wire.Writes
			b   bytes.Buffer
			all sync.WaitGroup
		)
		all.Go(func() {
			for w.Write(&b, []byte("x")) == nil {
			}
		})
		w.Stop(time.Minute)
		n := b.Len()
		if err := w.Write(&b, []byte("late")); !errors.Is(err, io.ErrClosedPipe) {
			t.Fatalf("a write after Stop returns %v", err)
		}
		all.Wait()
		if b.Len() != n {
			t.Fatalf("%d bytes came after Stop", b.Len()-n)
		}
	}
}

// A writer that never returns holds Stop for the given time alone.
func TestWritesStopBlocked(t *testing.T) {
	var w wire.Writes
	in, out := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- w.Write(out, []byte("x")) }()
	if _, err := in.Read(nil); err != nil { // the write is under way
		t.Fatal(err)
	}
	w.Stop(time.Millisecond)
	in.Close()
	if err := <-done; !errors.Is(err, io.ErrClosedPipe) {
		t.Fatalf("the write returns %v", err)
	}
}
