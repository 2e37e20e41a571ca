package fake

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"sync"
	"time"
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

// A pipe carries bytes between processes, and from outside to a command. It is
// a kernel's, because the interpreter takes nothing else as standard input.
type pipe struct {
	out, in *os.File // what is read from, and written to
	*share           // of in
}

// newPipe returns a pipe whose end for writing its maker holds.
func newPipe() (*pipe, error) {
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return &pipe{out, in, newShare(func() { in.Close() })}, nil
}

// close ends the pipe for all its holders.
func (p *pipe) close() {
	p.out.Close()
	p.in.Close()
}

// feed copies r to the pipe until r ends or the pipe has no reader any more.
// It may stay in r.Read after the command has ended; that reader belongs to
// the caller.
func (p *pipe) feed(r io.Reader) {
	io.Copy(p.in, onlyReader{r}) // the result is not reported
	p.release()
}

// A reader is a process's end of a pipe for reading. The creator of the pipe
// closes it.
type reader struct {
	p    *Proc
	file *os.File
}

func (r *reader) pass(p *Proc) any { return &reader{p, r.file} }

// Read ends the goroutine when the process is killed while it waits.
func (r *reader) Read(b []byte) (int, error) {
	r.p.checkpoint()
	stop := context.AfterFunc(r.p.ctx, func() { r.file.SetReadDeadline(time.Unix(0, 1)) })
	defer stop()
	for {
		n, err := r.file.Read(b)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			r.p.yield(func() { r.file.SetReadDeadline(time.Time{}) })
			continue
		case errors.Is(err, os.ErrClosed):
			err = io.EOF // the process it belonged to has ended
		}
		return n, err
	}
}

// A writer is a process's end of a pipe for writing.
type writer struct {
	p    *Proc
	pipe *pipe
}

func (w *writer) pass(p *Proc) any {
	w.pipe.hold(p)
	return &writer{p, w.pipe}
}

// Write ends the process by SIGPIPE when the pipe has no reader.
func (w *writer) Write(b []byte) (int, error) {
	w.p.checkpoint()
	stop := context.AfterFunc(w.p.ctx, func() { w.pipe.in.SetWriteDeadline(time.Unix(0, 1)) })
	defer stop()
	for n := 0; ; {
		more, err := w.pipe.in.Write(b[n:])
		n += more
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			w.p.yield(func() { w.pipe.in.SetWriteDeadline(time.Time{}) })
			continue
		case err != nil:
			w.p.Raise("PIPE")
		}
		return n, err
	}
}

// yield is for a process that was woken because one that shares a pipe with it
// was killed. If it is the killed one it ends here; if not, it waits until the
// other has had its turn.
func (p *Proc) yield(again func()) {
	select {
	case <-p.dead:
	case <-time.After(time.Millisecond):
	}
	again()
	select { // a process that is killed after this wakes it once more
	case <-p.dead:
		runtime.Goexit()
	default:
	}
}

// A fileEnd is a process's hold on an open file.
type fileEnd struct {
	p     *Proc
	file  *memfsHandle
	share *share
}

// newFileEnd takes the file over; closing is up to the share.
func newFileEnd(p *Proc, file *memfsHandle) *fileEnd {
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

// Close lets go for the process that opened the file.
func (f *fileEnd) Close() error {
	f.share.release()
	return nil
}
