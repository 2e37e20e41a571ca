package wire

import (
	"io"
	"sync"
)

// maxHeld bounds the bytes that a Writer holds back.
const maxHeld = 16 << 10

// A Writer writes whole frames, in the order in which it is given them. It
// is safe for concurrent use. After an error every later write fails with
// that error.
type Writer struct {
	mu  sync.Mutex
	w   io.Writer
	buf []byte // frames that were held back; the memory is used again
	err error
}

// NewWriter returns a Writer on w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write writes f.
func (w *Writer) Write(f Frame) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf = AppendFrame(w.buf, f)
	return w.flush()
}

// Hold holds f back to write it together with later frames. The caller must see
// to it that [Writer.Flush] is called in time.
func (w *Writer) Hold(f Frame) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf = AppendFrame(w.buf, f)
	if len(w.buf) > maxHeld {
		return w.flush()
	}
	return w.err
}

// Flush writes what is held back.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.flush()
}

// WriteInPlace writes f with the payload that lies at b[HeaderLen:], and
// puts the header before it; f.Payload is ignored.
func (w *Writer) WriteInPlace(f Frame, b []byte) error {
	PutHeader(b, f, len(b)-HeaderLen)
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.buf) > 0 && len(b) <= maxHeld {
		w.buf = append(w.buf, b...)
		return w.flush()
	}
	if err := w.flush(); err != nil {
		return err
	}
	return w.put(b)
}

// flush writes what is held back. Precondition: mu is held.
func (w *Writer) flush() error {
	if len(w.buf) == 0 {
		return w.err
	}
	err := w.put(w.buf)
	w.buf = w.buf[:0]
	if cap(w.buf) > 2*MaxData {
		w.buf = nil
	}
	return err
}

// put writes b. Precondition: mu is held.
func (w *Writer) put(b []byte) error {
	if w.err == nil {
		_, w.err = w.w.Write(b)
	}
	return w.err
}
