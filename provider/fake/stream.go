package fake

import (
	"bytes"
	"io"
	"runtime"
)

// chunkSize is the most that one handover between program and reader carries.
const chunkSize = 32 << 10

// A stream hands bytes from processes to a pump without a buffer between: a
// process that writes waits until its bytes are taken.
type stream struct {
	chunks chan []byte
	crlf   bool // a terminal: newline becomes carriage return and newline
}

// drain copies until the stream is closed. A nil w discards, and so does one
// that has failed: the program must not hang because nobody listens.
func (s *stream) drain(w io.Writer) {
	for chunk := range s.chunks {
		if w == nil {
			continue
		}
		if _, err := w.Write(chunk); err != nil {
			w = nil
		}
	}
}

// An output is a process's end of a stream.
type output struct {
	p *Proc
	s *stream
}

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
		case <-o.p.dead:
			runtime.Goexit()
		}
	}
	return n, nil
}

// An input is the standard input of a command's first process.
type input struct {
	p      *Proc
	chunks <-chan []byte // closed at the end of input
	rest   []byte
}

// Read ends the goroutine when the process is killed while it waits.
func (in *input) Read(b []byte) (int, error) {
	in.p.checkpoint()
	for len(in.rest) == 0 {
		select {
		case chunk, ok := <-in.chunks:
			if !ok {
				return 0, io.EOF
			}
			in.rest = chunk
		case <-in.p.dead:
			runtime.Goexit()
		}
	}
	n := copy(b, in.rest)
	in.rest = in.rest[n:]
	return n, nil
}

// feed copies r to chunks until its end or until nobody reads any more. It
// may stay in r.Read after the command has ended; that is its caller's reader.
func feed(r io.Reader, chunks chan<- []byte, gone <-chan struct{}) {
	defer close(chunks)
	for {
		b := make([]byte, chunkSize)
		n, err := r.Read(b)
		if n > 0 {
			select {
			case chunks <- b[:n]:
			case <-gone:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// An emptyInput is at its end.
type emptyInput struct{}

func (*emptyInput) Read([]byte) (int, error) { return 0, io.EOF }
