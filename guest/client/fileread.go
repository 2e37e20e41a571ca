package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"path"
	"syscall"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/guest/wire"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// errTooMuch ends a listing that is larger than anything honest.
var errTooMuch = errors.New("the sandbox sent more than it may")

// Read implements [sandbox.Files]. The content is that of the file that was
// opened, also when the path names another one by now. Up to 60 KiB come
// with the answer; more is sent while it is read, and ctx counts until Close.
// An error in the middle is returned by the reader instead of io.EOF. The
// reader is to be used by one at a time; Close may be called at any time.
func (f *Files) Read(ctx context.Context, path string, offset, limit int64) (io.ReadCloser, error) {
	if offset < 0 {
		return nil, fsbridge.NewError("read", path, syscall.EINVAL)
	}
	most := uint64(math.MaxInt64)
	if limit >= 0 {
		most = uint64(limit)
	}
	k, err := f.call("read", path, wire.File{Op: wire.FileRead, Offset: uint64(offset), Limit: most})
	if err != nil {
		return nil, err
	}
	k.asks, k.flows, k.limit = true, true, most
	if err := k.do(ctx); err != nil {
		return nil, err
	}
	if !k.goesOn() {
		whole := &wholeFile{k: k}
		whole.Reset(k.answer.Content)
		return whole, nil
	}
	return newFileStream(ctx, k), nil
}

// A wholeFile is content that came with the answer.
type wholeFile struct {
	bytes.Reader
	k *fileCall
}

func (*wholeFile) Close() error { return nil }

// Stat describes the file that was opened, see [sandbox.StatOf].
func (w *wholeFile) Stat() (fs.FileInfo, error) { return w.k.info(), nil }

// Stat describes the file that was opened, see [sandbox.StatOf].
func (s *fileStream) Stat() (fs.FileInfo, error) { return s.k.info(), nil }

// info describes the file of the answer. Precondition: answered.
func (k *fileCall) info() fsbridge.Info { return infoOf(path.Base(k.path), k.answer.Info) }

// goesOn reports whether the answer is not all. Precondition: answered.
func (k *fileCall) goesOn() bool { return k.box != nil }

// A fileStream is the content of an answer: what came with it, and what
// follows.
type fileStream struct {
	ctx   context.Context // of the operation, until Close
	k     *fileCall
	stop  func() bool
	rest  []byte // to be read now
	chunk []byte // taken, to be read after rest
	owed  int    // bytes of rest, as it was, to be granted again
}

func newFileStream(ctx context.Context, k *fileCall) *fileStream {
	s := &fileStream{ctx: ctx, k: k, rest: k.answer.Content, stop: func() bool { return true }}
	if k.goesOn() {
		s.stop = context.AfterFunc(ctx, k.callOff)
	}
	return s
}

// next makes sure that there is something to read.
func (s *fileStream) next() error {
	if len(s.rest) > 0 {
		return nil
	}
	if !s.k.goesOn() {
		return io.EOF
	}
	if s.owed > 0 {
		s.grant(s.owed)
	}
	err := s.take()
	// In pieces, so that more is on its way while this is used.
	s.rest = s.chunk[:min(len(s.chunk), wire.MaxData)]
	s.chunk, s.owed = s.chunk[len(s.rest):], len(s.rest)
	select {
	case <-s.k.off:
		s.rest, s.chunk = nil, nil
		if s.ctx.Err() != nil {
			return s.k.gaveUp(s.ctx)
		}
		return s.k.closed()
	default:
	}
	if err != nil && err != io.EOF {
		err = s.k.c.named(err)
	}
	return err
}

// take waits for content unless there is some. A watch may wait as long as it
// likes: its guest is not asked for a sign of life, because that of a paused sandbox
// gives none, and goes on later with the commands of the connection.
func (s *fileStream) take() (err error) {
	if len(s.chunk) == 0 {
		if s.k.req.Op != wire.FileWatch {
			defer s.k.c.watch()()
		}
		s.chunk, err = s.k.box.Take()
	}
	return err
}

// grant lets the guest send as much again.
func (s *fileStream) grant(n int) {
	if n := s.k.box.Consumed(n); n > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), writeWithin)
		defer cancel()
		// An error is the connection's end, which Take tells of.
		_ = s.k.control(ctx, wire.Frame{Type: wire.TypeCredit, Flags: wire.FileChannel, Payload: wire.Credit{N: n}.Encode()})
	}
}

// control sends a frame about an operation that has not ended.
func (k *fileCall) control(ctx context.Context, f wire.Frame) error {
	select {
	case <-k.ended:
		return nil
	default:
	}
	f.Stream = k.id
	return k.c.send(ctx, f)
}

// Read implements [io.Reader].
func (s *fileStream) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if err := s.next(); err != nil {
		return 0, err
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// WriteTo implements [io.WriterTo], which saves a copy.
func (s *fileStream) WriteTo(w io.Writer) (total int64, err error) {
	for {
		if err := s.next(); err == io.EOF {
			return total, nil
		} else if err != nil {
			return total, err
		}
		n, err := w.Write(s.rest)
		total += int64(n)
		s.rest = s.rest[n:]
		if err != nil {
			return total, err
		}
	}
}

// Close calls off what has not been sent yet. It does not wait for that.
func (s *fileStream) Close() error {
	s.stop()
	if s.k.goesOn() {
		s.k.callOff()
	}
	return nil
}

func (k *fileCall) closed() error {
	return &sandbox.Error{Code: sandbox.CodeValidation, Op: k.op, Resource: termsafe.Line(k.path), Message: "the file is closed", Err: io.ErrClosedPipe}
}

// all reads to the end, at most the limit of the operation.
func (s *fileStream) all() ([]byte, error) {
	var all []byte
	for {
		switch err := s.next(); {
		case err == io.EOF:
			return all, nil
		case err != nil:
			return nil, err
		case uint64(len(all)+len(s.rest)) > s.k.limit:
			path := termsafe.Line(s.k.path)
			return nil, &sandbox.Error{
				Code: sandbox.CodeBudgetExceeded, Op: s.k.op, Field: "path", Resource: path,
				Message: path + " has too many entries to list", Err: errTooMuch,
			}
		}
		if all == nil && !s.k.goesOn() {
			all = s.rest
		} else {
			all = append(all, s.rest...)
		}
		s.rest = nil
	}
}
