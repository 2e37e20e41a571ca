package running

import (
	"context"
	"io"
	"sync"

	"github.com/bulkhead-dev/sandbox"
)

// maxPending is how much a command is written that it has not read yet, in
// bytes.
const maxPending = 1 << 20

// input is the standard input of a command: what callers write, until one of
// them closes it. It is safe for concurrent use.
type input struct {
	hold func(n int64) bool // takes memory for what was not read yet, or gives it back

	mu      sync.Mutex
	data    []byte
	over    bool          // nothing more comes
	closed  bool          // closed for reading
	changed chan struct{} // closed and replaced at every change
}

// newInput returns one for whose data memory was taken already. With a negative
// number hold gives memory back, which never fails.
func newInput(data []byte, over bool, hold func(n int64) bool) *input {
	return &input{data: data, over: over, hold: hold, changed: make(chan struct{})}
}

// tell wakes all waiters. The lock is held.
func (i *input) tell() {
	close(i.changed)
	i.changed = make(chan struct{})
}

// Read implements io.Reader.
func (i *input) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		i.mu.Lock()
		if len(i.data) > 0 && !i.closed {
			n := copy(p, i.data)
			if i.data = i.data[n:]; len(i.data) == 0 {
				i.data = nil
			}
			i.hold(int64(-n))
			i.tell()
			i.mu.Unlock()
			return n, nil
		}
		if i.over || i.closed {
			i.mu.Unlock()
			return 0, io.EOF
		}
		changed := i.changed
		i.mu.Unlock()
		<-changed
	}
}

// write adds data as a whole, once it fits, and closes the input if eof is
// set.
func (i *input) write(ctx context.Context, data []byte, eof bool) error {
	if len(data) > maxPending {
		return &sandbox.Error{Code: sandbox.CodeValidation, Op: "write", Field: "data", Message: "is too much at once", Hint: "write at most 1 MiB at a time"}
	}
	for {
		i.mu.Lock()
		switch {
		case i.closed:
			i.mu.Unlock()
			return ended("write")
		case i.over:
			i.mu.Unlock()
			return &sandbox.Error{Code: sandbox.CodeValidation, Op: "write", Message: "the standard input was closed before"}
		case len(i.data)+len(data) <= maxPending && !i.hold(int64(len(data))):
			i.mu.Unlock()
			return noMemory("write", "input")
		case len(i.data)+len(data) <= maxPending:
			i.data = append(i.data, data...)
			i.over = eof
			i.tell()
			i.mu.Unlock()
			return nil
		}
		changed := i.changed
		i.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return &sandbox.Error{Code: sandbox.CodeBusy, Op: "write", Retryable: true, Message: "the command does not read what it was written before", Err: context.Cause(ctx)}
		}
	}
}

// close closes the input for readers and writers.
func (i *input) close() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.closed {
		i.hold(int64(-len(i.data)))
		i.closed, i.data = true, nil
		i.tell()
	}
}

func ended(op string) error {
	return &sandbox.Error{Code: sandbox.CodeNotFound, Op: op, Message: "the command has ended", Hint: "poll tells how"}
}
