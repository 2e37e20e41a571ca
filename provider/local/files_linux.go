package local

import (
	"context"
	"io"
	"io/fs"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/provider/local/hostscan"
)

// Files implements [sandbox.FileServer]. Paths are absolute ones inside, and
// each is kept to its mount. Each operation is done in an instance that is as rules
// and host ask for then, as each command is.
func (h *handle) Files(ctx context.Context) (sandbox.Files, error) {
	f := &files{h: h}
	s, _, err := f.use(ctx)
	if err != nil {
		return nil, err
	}
	s.release()
	return f, nil
}

// files are the file operations of a handle.
type files struct {
	h     *handle
	plain bool // no link is followed

	mu     sync.Mutex
	seat   *seat         // whose the rest is
	served *client.Files // without links where plain is set
}

// use returns the operations in the instance that is wanted now, and the seat there,
// which the caller gives back.
func (f *files) use(ctx context.Context) (*seat, *client.Files, error) {
	s, err := f.h.use(ctx, mustStand, time.Time{})
	if err != nil {
		return nil, nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seat == s {
		return s, f.served, nil
	}
	table, err := fsbridge.NewMountTable(hostscan.Mounts(f.h.spec, s.instance.world), f.h.spec.Tmpfs)
	if err == nil {
		f.served, err = f.serve(s, table)
	}
	if err != nil {
		f.seat = nil
		s.release()
		return nil, nil, err
	}
	f.seat = s
	return s, f.served, nil
}

// serve returns the operations of the guest in the instance of s.
func (f *files) serve(s *seat, table *fsbridge.MountTable) (*client.Files, error) {
	served, err := s.Client.Files(func(path string) (client.Spot, error) {
		p, err := table.Inside(f.h.places.host(path))
		return client.Spot{Root: p.Root.Target, Rel: p.Rel, ReadOnly: p.Root.ReadOnly}, err
	})
	if err != nil || !f.plain {
		return served, err
	}
	return served.Plain()
}

// WithoutLinks implements [sandbox.LinkRefuser].
func (f *files) WithoutLinks() (sandbox.Files, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.served != nil { // else each operation finds out for itself
		if _, err := f.served.Plain(); err != nil {
			return nil, err
		}
	}
	return &files{h: f.h, plain: true}, nil
}

// Read implements [sandbox.Files].
func (f *files) Read(ctx context.Context, path string, offset, limit int64) (io.ReadCloser, error) {
	s, served, err := f.use(ctx)
	if err != nil {
		return nil, err
	}
	r, err := served.Read(ctx, path, offset, limit)
	if err != nil {
		s.release()
		return nil, err
	}
	return &content{ReadCloser: r, seat: s}, nil
}

// content is what is being read. It keeps its instance up until it is closed.
type content struct {
	io.ReadCloser
	seat *seat
	once sync.Once
}

// Stat describes the file, see [sandbox.StatOf].
func (c *content) Stat() (fs.FileInfo, error) { return sandbox.StatOf(c.ReadCloser) }

func (c *content) Close() error {
	defer c.once.Do(c.seat.release)
	return c.ReadCloser.Close()
}

// WriteTo spares a copy where the content can do so.
func (c *content) WriteTo(w io.Writer) (int64, error) { return io.Copy(w, c.ReadCloser) }

// Changes implements [fsbridge.ChangeWatcher]. The watch keeps its instance up; it
// sees what is changed in mounts by any instance, and in tmpfs by its own.
func (f *files) Changes(ctx context.Context, path string, recursive bool) (fsbridge.Changes, error) {
	s, served, err := f.use(ctx)
	if err != nil {
		return nil, err
	}
	c, err := served.Changes(ctx, path, recursive)
	if err != nil {
		s.release()
		return nil, s.instance.whyEnded("watch", err)
	}
	return &changes{Changes: c, seat: s.keep()}, nil
}

// changes keep their instance up until they are closed.
type changes struct {
	fsbridge.Changes
	seat *seat
	once sync.Once
}

func (c *changes) Next() (fsbridge.Change, error) {
	out, err := c.Changes.Next()
	return out, c.seat.instance.whyEnded("watch", err)
}

func (c *changes) Close() error {
	defer c.once.Do(c.seat.drop)
	return c.Changes.Close()
}

// Write implements [sandbox.Files].
func (f *files) Write(ctx context.Context, path string, r io.Reader, o sandbox.WriteOptions) error {
	return f.do(ctx, []string{path}, func(c *client.Files) error { return c.Write(ctx, path, r, o) })
}

// Mkdir implements [sandbox.Files].
func (f *files) Mkdir(ctx context.Context, path string, perm fs.FileMode) error {
	return f.do(ctx, []string{path}, func(c *client.Files) error { return c.Mkdir(ctx, path, perm) })
}

// Remove implements [sandbox.Files].
func (f *files) Remove(ctx context.Context, path string, recursive bool) error {
	return f.do(ctx, []string{path}, func(c *client.Files) error { return c.Remove(ctx, path, recursive) })
}

// Clear implements [sandbox.Clearer].
func (f *files) Clear(ctx context.Context, path string) error {
	return f.do(ctx, []string{path}, func(c *client.Files) error { return c.Clear(ctx, path) })
}

// Rename implements [sandbox.Files].
func (f *files) Rename(ctx context.Context, from, to string) error {
	return f.do(ctx, []string{from, to}, func(c *client.Files) error { return c.Rename(ctx, from, to) })
}

// Stat implements [sandbox.Files].
func (f *files) Stat(ctx context.Context, path string) (fs.FileInfo, error) {
	return ask(ctx, f, func(c *client.Files) (fs.FileInfo, error) { return c.Stat(ctx, path) })
}

// Lstat is Stat of a link itself.
func (f *files) Lstat(ctx context.Context, path string) (fs.FileInfo, error) {
	return ask(ctx, f, func(c *client.Files) (fs.FileInfo, error) { return c.Lstat(ctx, path) })
}

// ReadDir implements [sandbox.Files].
func (f *files) ReadDir(ctx context.Context, path string) ([]fs.DirEntry, error) {
	return ask(ctx, f, func(c *client.Files) ([]fs.DirEntry, error) { return c.ReadDir(ctx, path) })
}

// ReadLink returns what a link holds.
func (f *files) ReadLink(ctx context.Context, path string) (string, error) {
	return ask(ctx, f, func(c *client.Files) (string, error) { return c.ReadLink(ctx, path) })
}

// Symlink makes a link.
func (f *files) Symlink(ctx context.Context, target, path string) error {
	return f.do(ctx, []string{path}, func(c *client.Files) error { return c.Symlink(ctx, target, path) })
}

// Note tells people what is less than it could be, or is empty.
func (f *files) Note() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.served == nil {
		return ""
	}
	return f.served.Note()
}

// do does an operation that changes what lies at the given paths.
func (f *files) do(ctx context.Context, paths []string, op func(*client.Files) error) error {
	s, served, err := f.use(ctx)
	if err != nil {
		return err
	}
	defer s.release()
	return s.held(s.instance.whyEnded("use files", op(served)), paths...)
}

// ask does one operation.
func ask[T any](ctx context.Context, f *files, op func(*client.Files) (T, error)) (T, error) {
	s, served, err := f.use(ctx)
	if err != nil {
		var none T
		return none, err
	}
	defer s.release()
	out, err := op(served)
	return out, s.instance.whyEnded("use files", err)
}

var (
	_ sandbox.Files          = (*files)(nil)
	_ sandbox.LinkRefuser    = (*files)(nil)
	_ sandbox.Clearer        = (*files)(nil)
	_ fsbridge.ChangeWatcher = (*files)(nil)
	_ sandbox.FileServer     = (*handle)(nil)
)
