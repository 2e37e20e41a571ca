package fsbridge

import (
	"context"
	"io"
	"io/fs"
	"sync"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// An Op is what an operation does with a file.
type Op string

// The operations.
const (
	OpRead   Op = "read"
	OpWrite  Op = "write"
	OpList   Op = "list"
	OpStat   Op = "stat" // of a link or what it leads to, and what a link says
	OpMkdir  Op = "mkdir"
	OpRemove Op = "remove"
	OpRename Op = "rename"
	OpLink   Op = "symlink"
	OpClear  Op = "clear"
)

// changes reports whether the operation changes a file or folder.
func (o Op) changes() bool { return o != OpRead && o != OpList && o != OpStat }

// A Watch hears of every operation on files. It is safe for concurrent use.
type Watch interface {
	// Begin is called before the operation on path, which is as the caller has
	// written it where it names no place inside; to is the new name of what is
	// renamed. An error is that of the operation, which is not carried out.
	// The function that it returns is called once, when the operation has ended.
	Begin(ctx context.Context, op Op, path, to string) (Hearing, error)
}

// A Hearing hears of one operation. A nil one hears nothing.
type Hearing interface {
	io.Writer // the content that is read or written passes by

	// End is called once, with the error of the operation.
	End(ctx context.Context, err error)
}

// Watched returns a view of which w hears, and so is every view of that.
func (b *Bridge) Watched(w Watch) *Bridge {
	watched := *b
	watched.watch = w
	return &watched
}

// heard carries do out, between its begin and its end. path and to are the names
// of the caller.
func (b *Bridge) heard(ctx context.Context, op Op, path, to string, do func(Hearing) error) error {
	if b.refusal != nil && op.changes() {
		do = func(Hearing) error { return b.refusal }
	}
	if b.watch == nil {
		return do(nil)
	}
	h, err := b.watch.Begin(ctx, op, b.named(path), b.named(to))
	if err != nil {
		return err
	}
	err = do(h)
	if h != nil {
		h.End(ctx, err)
	}
	return err
}

// named is the path inside that a name means, or the name where it means none.
func (b *Bridge) named(name string) string {
	if name == "" {
		return ""
	}
	p, err := b.Locate(name)
	if err != nil {
		return name
	}
	return p.Path()
}

// passing has what is read from r pass by h.
func passing(r io.Reader, h Hearing) io.Reader {
	if h == nil {
		return r
	}
	return io.TeeReader(r, h)
}

// content is a file that is read; its operation ends when it is closed.
type content struct {
	io.Reader
	file io.ReadCloser
	ctx  context.Context // of the read
	h    Hearing
	once sync.Once
	mu   sync.Mutex
	err  error // of reading, but for the end
}

func (c *content) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if err != nil && err != io.EOF {
		c.mu.Lock()
		c.err = err
		c.mu.Unlock()
	}
	return n, err
}

// Stat describes the file, see [sandbox.StatOf].
func (c *content) Stat() (fs.FileInfo, error) { return sandbox.StatOf(c.file) }

// Close implements [io.Closer].
func (c *content) Close() error {
	err := c.file.Close()
	c.once.Do(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.h.End(c.ctx, c.err)
	})
	return err
}
