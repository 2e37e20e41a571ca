package fake

import (
	"io"
	"runtime"
	"sync"

	"github.com/bulkhead-dev/sandbox/provider/fake/memfs"
)

// A share is something that several processes hold and that is closed when
// the last of them lets go.
type share struct {
	mu    sync.Mutex
	count int
	close func()
}

func newShare(close func()) *share { return &share{count: 1, close: close} }

func (s *share) hold(p *Proc) {
	s.mu.Lock()
	s.count++
	s.mu.Unlock()
	p.held = append(p.held, s)
}

func (s *share) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count--; s.count == 0 {
		s.close()
	}
}

// A pipe carries bytes between processes without a buffer.
type pipe struct {
	chunks   chan []byte
	turn     chan struct{} // of readers; holds one token
	rest     []byte        // guarded by the token
	noWriter chan struct{}
	noReader chan struct{}
	writers  *share
	readers  *share
}

// newPipe returns a pipe both of whose ends its maker holds.
func newPipe() *pipe {
	p := &pipe{
		chunks: make(chan []byte), turn: make(chan struct{}, 1),
		noWriter: make(chan struct{}), noReader: make(chan struct{}),
	}
	p.turn <- struct{}{}
	p.writers = newShare(func() { close(p.noWriter) })
	p.readers = newShare(func() { close(p.noReader) })
	return p
}

// A pipeWriter is a process's end for writing.
type pipeWriter struct {
	p    *Proc
	pipe *pipe
}

func (w *pipeWriter) pass(p *Proc) any {
	w.pipe.writers.hold(p)
	return &pipeWriter{p, w.pipe}
}

// Write ends the process by PIPE when nobody can read.
func (w *pipeWriter) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		w.p.checkpoint()
		chunk := append([]byte(nil), b[:min(len(b), chunkSize)]...)
		select {
		case w.pipe.chunks <- chunk:
			b = b[len(chunk):]
		case <-w.pipe.noReader:
			w.p.Raise("PIPE")
			return n - len(b), io.ErrClosedPipe
		case <-w.p.dead:
			runtime.Goexit()
		}
	}
	return n, nil
}

// A pipeReader is a process's end for reading.
type pipeReader struct {
	p    *Proc
	pipe *pipe
}

func (r *pipeReader) pass(p *Proc) any {
	r.pipe.readers.hold(p)
	return &pipeReader{p, r.pipe}
}

func (r *pipeReader) Read(b []byte) (int, error) {
	r.p.checkpoint()
	select {
	case <-r.pipe.turn:
		defer func() { r.pipe.turn <- struct{}{} }()
	case <-r.p.dead:
		runtime.Goexit()
	}
	for len(r.pipe.rest) == 0 {
		select {
		case chunk := <-r.pipe.chunks:
			r.pipe.rest = chunk
		case <-r.pipe.noWriter:
			return 0, io.EOF
		case <-r.p.dead:
			runtime.Goexit()
		}
	}
	n := copy(b, r.pipe.rest)
	r.pipe.rest = r.pipe.rest[n:]
	return n, nil
}

// A fileEnd is a process's hold on an open file.
type fileEnd struct {
	p     *Proc
	file  *memfs.Handle
	share *share
}

// newFileEnd takes the file over; closing is up to the share.
func newFileEnd(p *Proc, file *memfs.Handle) *fileEnd {
	return &fileEnd{p, file, newShare(func() { file.Close() })}
}

func (f *fileEnd) pass(p *Proc) any {
	f.share.hold(p)
	return &fileEnd{p, f.file, f.share}
}

func (f *fileEnd) Read(b []byte) (int, error) {
	f.p.checkpoint()
	return f.file.Read(b)
}

func (f *fileEnd) Write(b []byte) (int, error) {
	f.p.checkpoint()
	return f.file.Write(b)
}
