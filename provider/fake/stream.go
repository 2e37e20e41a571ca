package fake

import (
	"bytes"
	"io"
	"runtime"
)

// chunkSize is the most that one handover between program and reader carries.
const chunkSize = 32 << 10

// A stream hands bytes from processes to a pump without a buffer between: a
// process that writes waits until its bytes are taken. Once it has ended, what
// is written is dropped.
type stream struct {
	chunks chan []byte
	ended  chan struct{} // closed by the pump's owner
	crlf   bool          // a terminal: newline becomes carriage return and newline
}

func newStream(crlf bool) *stream {
	return &stream{chunks: make(chan []byte), ended: make(chan struct{}), crlf: crlf}
}

// drain copies until the stream has ended. A nil w discards, and so does one
// that has failed: the program must not hang for lack of a reader.
func (s *stream) drain(w io.Writer) {
	for {
		select {
		case chunk := <-s.chunks:
			if w == nil {
				continue
			}
			if _, err := w.Write(chunk); err != nil {
				w = nil
			}
		case <-s.ended:
			return
		}
	}
}

// An end is a process's hold on something that it shares with others.
type end interface {
	// pass returns the hold of another process on the same.
	pass(p *Proc) any
}

// inherit gives the process p what its parent has as x.
func inherit[T any](p *Proc, x T) T {
	if e, ok := any(x).(end); ok {
		return e.pass(p).(T)
	}
	return x
}

// An output is a process's end of a stream.
type output struct {
	p *Proc
	s *stream
}

func (o *output) pass(p *Proc) any { return &output{p, o.s} }

// Write hands b over piece by piece. It ends the goroutine when the process
// is killed while it waits.
func (o *output) Write(b []byte) (int, error) {
	n := len(b)
	if o.s.crlf {
		b = bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n"))
	}
	for len(b) > 0 {
		o.p.checkpoint()
		chunk := bytes.Clone(b[:min(len(b), chunkSize)])
		select {
		case o.s.chunks <- chunk:
			b = b[len(chunk):]
		case <-o.s.ended:
			return n, nil
		case <-o.p.dead:
			runtime.Goexit()
		}
	}
	return n, nil
}

// An emptyInput is at its end.
type emptyInput struct{}

func (*emptyInput) Read([]byte) (int, error) { return 0, io.EOF }
