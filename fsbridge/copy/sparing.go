package copy

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"sync/atomic"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
)

// sparing leaves out what a rule of the target closes, and goes on. What is at
// top was asked for by its name, so there the refusal is the answer.
type sparing struct {
	sandbox.Files
	top   string
	tally *Tally
}

var _ fsbridge.Linker = sparing{}

// spare is err, or nil where it says that path is closed. Passed is where that
// was counted as arriving.
func (s sparing) spare(path string, err error, passed *atomic.Int64) error {
	if path == s.top || !fsbridge.IsClosed(err) {
		return err
	}
	reason := "it is closed"
	if e, is := errors.AsType[*sandbox.Error](err); is {
		reason += ": " + e.Message
	}
	passed.Add(-1)
	s.tally.leave(path, reason)
	return nil
}

// Write implements [sandbox.Files]. Content that is left out is read all the
// same: it stands before the next file of the archive.
func (s sparing) Write(ctx context.Context, path string, r io.Reader, o sandbox.WriteOptions) error {
	err := s.Files.Write(ctx, path, r, o)
	if err == nil || !fsbridge.IsClosed(err) || path == s.top {
		return err
	}
	if _, lost := io.Copy(io.Discard, r); lost != nil {
		return lost
	}
	return s.spare(path, err, &s.tally.files)
}

// Mkdir implements [sandbox.Files].
func (s sparing) Mkdir(ctx context.Context, path string, perm fs.FileMode) error {
	return s.spare(path, s.Files.Mkdir(ctx, path, perm), &s.tally.folders)
}

// Lstat implements [fsbridge.Linker].
func (s sparing) Lstat(ctx context.Context, path string) (fs.FileInfo, error) {
	l, err := s.linker("lstat")
	if err != nil {
		return nil, err
	}
	return l.Lstat(ctx, path)
}

// ReadLink implements [fsbridge.Linker].
func (s sparing) ReadLink(ctx context.Context, path string) (string, error) {
	l, err := s.linker("readlink")
	if err != nil {
		return "", err
	}
	return l.ReadLink(ctx, path)
}

// Symlink implements [fsbridge.Linker].
func (s sparing) Symlink(ctx context.Context, target, path string) error {
	l, err := s.linker("symlink")
	if err != nil {
		return err
	}
	return s.spare(path, l.Symlink(ctx, target, path), &s.tally.links)
}

func (s sparing) linker(op string) (fsbridge.Linker, error) {
	if l, ok := s.Files.(fsbridge.Linker); ok {
		return l, nil
	}
	return nil, &sandbox.Error{Code: sandbox.CodeUnsupported, Op: op, Message: "this sandbox's file transport knows no links"}
}
