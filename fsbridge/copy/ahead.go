package copy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"sync"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
)

const (
	// small is the size up to which a file is written beside others, in
	// bytes. It is held in memory meanwhile.
	small = 256 << 10
	// side is how many are written at the same time.
	side = 8
)

// An ahead writes small files side by side: Write returns before the file is
// there, and an error shows with a later call or with settle. An operation on
// a path waits for writes to that path, so the order that matters is kept. It
// is for one goroutine.
type ahead struct {
	files sandbox.Files
	ctx   context.Context // of all writes; the first failure ends it
	stop  context.CancelFunc
	slots chan struct{}
	going sync.WaitGroup

	under map[string]bool // paths being written, or written since the last wait

	mu  sync.Mutex
	err error // of the first write that failed
}

var (
	_ sandbox.Files   = (*ahead)(nil)
	_ fsbridge.Linker = (*ahead)(nil)
)

func newAhead(ctx context.Context, files sandbox.Files) *ahead {
	a := &ahead{files: files, slots: make(chan struct{}, side), under: map[string]bool{}}
	a.ctx, a.stop = context.WithCancel(ctx)
	return a
}

// settle waits for all writes, must be called in the end, and returns the
// error of the first that failed.
func (a *ahead) settle() error {
	err := a.wait()
	a.stop()
	return err
}

func (a *ahead) wait() error {
	a.going.Wait()
	clear(a.under)
	return a.failure()
}

func (a *ahead) failure() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

func (a *ahead) failed(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err == nil {
		a.err = err
		a.stop()
	}
}

// after waits when path is being written.
func (a *ahead) after(path string) error {
	if a.under[path] {
		return a.wait()
	}
	return a.failure()
}

// Write implements [sandbox.Files].
func (a *ahead) Write(ctx context.Context, path string, r io.Reader, o sandbox.WriteOptions) error {
	if err := a.after(path); err != nil {
		return err
	}
	var content bytes.Buffer
	n, err := io.CopyN(&content, r, small+1)
	if err == nil && n > small || o.Exclusive {
		return a.files.Write(ctx, path, io.MultiReader(&content, r), o)
	}
	if !errors.Is(err, io.EOF) {
		return err
	}
	select {
	case a.slots <- struct{}{}:
	case <-a.ctx.Done():
		return errors.Join(a.failure(), ctx.Err())
	}
	a.under[path] = true
	a.going.Go(func() {
		defer func() { <-a.slots }()
		if err := a.files.Write(a.ctx, path, &content, o); err != nil {
			a.failed(err)
		}
	})
	return nil
}

// Read implements [sandbox.Files].
func (a *ahead) Read(ctx context.Context, path string, offset, limit int64) (io.ReadCloser, error) {
	if err := a.after(path); err != nil {
		return nil, err
	}
	return a.files.Read(ctx, path, offset, limit)
}

// Mkdir implements [sandbox.Files].
func (a *ahead) Mkdir(ctx context.Context, path string, perm fs.FileMode) error {
	if err := a.after(path); err != nil {
		return err
	}
	return a.files.Mkdir(ctx, path, perm)
}

// Remove implements [sandbox.Files].
func (a *ahead) Remove(ctx context.Context, path string, recursive bool) error {
	if err := a.wait(); err != nil {
		return err
	}
	return a.files.Remove(ctx, path, recursive)
}

// Rename implements [sandbox.Files].
func (a *ahead) Rename(ctx context.Context, from, to string) error {
	if err := a.wait(); err != nil {
		return err
	}
	return a.files.Rename(ctx, from, to)
}

// Stat implements [sandbox.Files].
func (a *ahead) Stat(ctx context.Context, path string) (fs.FileInfo, error) {
	if err := a.after(path); err != nil {
		return nil, err
	}
	return a.files.Stat(ctx, path)
}

// ReadDir implements [sandbox.Files].
func (a *ahead) ReadDir(ctx context.Context, path string) ([]fs.DirEntry, error) {
	if err := a.wait(); err != nil {
		return nil, err
	}
	return a.files.ReadDir(ctx, path)
}

// Lstat implements [fsbridge.Linker].
func (a *ahead) Lstat(ctx context.Context, path string) (fs.FileInfo, error) {
	l, err := a.linker("lstat", path)
	if err != nil {
		return nil, err
	}
	return l.Lstat(ctx, path)
}

// ReadLink implements [fsbridge.Linker].
func (a *ahead) ReadLink(ctx context.Context, path string) (string, error) {
	l, err := a.linker("readlink", path)
	if err != nil {
		return "", err
	}
	return l.ReadLink(ctx, path)
}

// Symlink implements [fsbridge.Linker].
func (a *ahead) Symlink(ctx context.Context, target, path string) error {
	l, err := a.linker("symlink", path)
	if err != nil {
		return err
	}
	return l.Symlink(ctx, target, path)
}

func (a *ahead) linker(op, path string) (fsbridge.Linker, error) {
	if err := a.after(path); err != nil {
		return nil, err
	}
	if l, ok := a.files.(fsbridge.Linker); ok {
		return l, nil
	}
	return nil, &sandbox.Error{Code: sandbox.CodeUnsupported, Op: op, Message: "these files know no links"}
}
