package manager

import (
	"context"
	"io"
	"io/fs"
	"sync/atomic"

	"github.com/bulkhead-dev/sandbox"
)

// lastFiles are the files of the sandbox that an operation of the call has used
// last: what a call keeps outlives the handles of single operations.
type lastFiles struct {
	of atomic.Pointer[sandbox.Files] // never nil once it was set
}

var (
	_ sandbox.Files   = (*lastFiles)(nil)
	_ sandbox.Clearer = (*lastFiles)(nil)
)

func (l *lastFiles) set(f sandbox.Files) { l.of.Store(&f) }

func (l *lastFiles) now() sandbox.Files { return *l.of.Load() }

// Read implements [sandbox.Files], as do all below it.
func (l *lastFiles) Read(ctx context.Context, path string, offset, limit int64) (io.ReadCloser, error) {
	return l.now().Read(ctx, path, offset, limit)
}

func (l *lastFiles) Write(ctx context.Context, path string, r io.Reader, o sandbox.WriteOptions) error {
	return l.now().Write(ctx, path, r, o)
}

func (l *lastFiles) Mkdir(ctx context.Context, path string, perm fs.FileMode) error {
	return l.now().Mkdir(ctx, path, perm)
}

func (l *lastFiles) Remove(ctx context.Context, path string, recursive bool) error {
	return l.now().Remove(ctx, path, recursive)
}

func (l *lastFiles) Rename(ctx context.Context, from, to string) error {
	return l.now().Rename(ctx, from, to)
}

func (l *lastFiles) Stat(ctx context.Context, path string) (fs.FileInfo, error) {
	return l.now().Stat(ctx, path)
}

func (l *lastFiles) ReadDir(ctx context.Context, path string) ([]fs.DirEntry, error) {
	return l.now().ReadDir(ctx, path)
}

// Clear implements [sandbox.Clearer].
func (l *lastFiles) Clear(ctx context.Context, path string) error {
	if c, ok := l.now().(sandbox.Clearer); ok {
		return c.Clear(ctx, path)
	}
	return &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "clear", Resource: path, Message: "these files cannot be opened where they are closed"}
}
