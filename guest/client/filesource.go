package client

import (
	"bytes"
	"io"
	"strings"

	"github.com/bulkhead-dev/sandbox/guest/wire"
)

const (
	// headSize is how much is read to find out whether a frame takes it all.
	headSize = wire.MaxInline + 1
	// firstRead is how much is read at first.
	firstRead = 4 << 10
)

// A source reads content ahead, in pieces. A reader that could wait is read
// by a goroutine of its own, because nothing can interrupt it.
type source struct {
	r      io.Reader
	ahead  chan piece  // nil when the reader never waits
	free   chan []byte // pieces that have been sent
	closed chan struct{}
	head   bool   // the first piece was read
	buf    []byte // of a reader that never waits: one does for all pieces
}

// A piece of content. The last one comes with io.EOF, or with the reader's
// own error.
type piece struct {
	b   []byte
	err error
}

func newSource(r io.Reader) *source {
	s := &source{r: r}
	switch r.(type) {
	case nil:
		s.r = strings.NewReader("")
		return s
	case *bytes.Reader, *strings.Reader, *bytes.Buffer:
		return s
	}
	s.ahead, s.closed = make(chan piece), make(chan struct{})
	s.free = make(chan []byte, 2)
	go s.read()
	return s
}

// read reads ahead until the end, or until the content is not wanted any more.
func (s *source) read() {
	for {
		b, err := s.fill()
		select {
		case s.ahead <- piece{b, err}:
		case <-s.closed:
			return
		}
		if err != nil {
			return
		}
	}
}

// fill reads one piece. Only the last one is not full.
func (s *source) fill() ([]byte, error) {
	if !s.head {
		s.head = true
		return s.fillHead()
	}
	b := s.buf
	select {
	case b = <-s.free:
		b = b[:wire.MaxData]
	default:
		if b == nil {
			b = make([]byte, wire.MaxData)
		}
	}
	if s.ahead == nil {
		s.buf = b
	}
	n, err := fillUp(s.r, b)
	return b[:n], err
}

// fillHead reads the first piece, which is mostly all there is: its buffer
// grows with it.
func (s *source) fillHead() ([]byte, error) {
	size := firstRead
	if sized, ok := s.r.(interface{ Len() int }); ok {
		size = sized.Len() + 1
	}
	b := make([]byte, min(size, headSize))
	for done := 0; ; {
		n, err := fillUp(s.r, b[done:])
		done += n
		if err != nil || done == headSize {
			return b[:done], err
		}
		b = append(make([]byte, 0, headSize), b...)[:headSize]
	}
}

// fillUp fills b. An error of the reader is returned as it is, so that an
// io.ErrUnexpectedEOF of its own does not look like an end.
func fillUp(r io.Reader, b []byte) (n int, err error) {
	for empty := 0; n < len(b) && err == nil; {
		var got int
		got, err = r.Read(b[n:])
		if n += got; got > 0 {
			empty = 0
		} else if empty++; empty > 100 && err == nil {
			err = io.ErrNoProgress
		}
	}
	return n, err
}

// next returns the next piece, which is valid until done is called with it.
// The last one comes with io.EOF. It returns early with nothing when one of
// the channels is closed.
func (s *source) next(up, ended <-chan struct{}) ([]byte, error) {
	if s.ahead == nil {
		return s.fill()
	}
	select {
	case p := <-s.ahead:
		return p.b, p.err
	case <-up:
	case <-ended:
	}
	return nil, nil
}

// done gives a piece back.
func (s *source) done(b []byte) {
	if s.free == nil || cap(b) < wire.MaxData {
		return
	}
	select {
	case s.free <- b:
	default:
	}
}

// close ends the reading ahead, though not a Read that waits.
func (s *source) close() {
	if s.closed != nil {
		close(s.closed)
	}
}
