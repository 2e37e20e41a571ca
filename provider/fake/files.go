package fake

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"syscall"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// files are the file operations of a handle. They know links as well.
type files struct {
	h     *handle
	table *fsbridge.MountTable
	plain bool // no link is followed
}

var (
	_ sandbox.Files       = (*files)(nil)
	_ sandbox.LinkRefuser = (*files)(nil)
	_ sandbox.Clearer     = (*files)(nil)
)

// WithoutLinks implements [sandbox.LinkRefuser].
func (f *files) WithoutLinks() (sandbox.Files, error) { return &files{f.h, f.table, true}, nil }

// Files implements [sandbox.FileServer]. Mounts and tmpfs of the Spec that
// the sandbox was made from are served.
func (h *handle) Files(ctx context.Context) (sandbox.Files, error) {
	if err := h.lacks(h.e.without.Files, "open files"); err != nil {
		return nil, err
	}
	if err := h.step(ctx, "open files", StepFile); err != nil {
		return nil, err
	}
	table, err := fsbridge.NewMountTable(h.box.Mounts, h.box.Tmpfs)
	if err != nil {
		return nil, err
	}
	return &files{h: h, table: table}, nil
}

// at begins an operation: it finds the mount of a path and a view that stays
// in it.
func (f *files) at(ctx context.Context, op, name string) (memfsView, fsbridge.Place, error) {
	if err := f.h.step(ctx, op, StepFile); err != nil {
		return memfsView{}, fsbridge.Place{}, err
	}
	place, err := f.table.Inside(name)
	if err != nil {
		return memfsView{}, fsbridge.Place{}, err
	}
	view, err := f.h.boot.files.Confined(place.Root.Target)
	if err != nil {
		return memfsView{}, fsbridge.Place{}, reported(op, name, err)
	}
	if f.plain {
		view = view.WithoutLinks()
	}
	return view, place, nil
}

// reported gives an error of the file system its code.
func reported(op, name string, err error) error {
	errno := syscall.Errno(0)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errEscape):
		return fsbridge.Escape(op, name)
	case errors.Is(err, errLink):
		return fsbridge.Link(op, name)
	case err == syscall.EOPNOTSUPP:
		return fsbridge.Irregular(op, name)
	case errors.As(err, &errno):
		return fsbridge.NewError(op, name, errno)
	}
	return &sandbox.Error{Code: sandbox.CodeInternal, Op: op, Resource: termsafe.Line(name), Message: "a strange error", Err: err}
}

// Read implements [sandbox.Files].
func (f *files) Read(ctx context.Context, name string, offset, limit int64) (io.ReadCloser, error) {
	view, place, err := f.at(ctx, "read", name)
	if err != nil {
		return nil, err
	}
	if offset < 0 {
		return nil, &sandbox.Error{
			Code: sandbox.CodeValidation, Op: "read", Field: "offset", Resource: termsafe.Line(name), Message: "the offset is negative",
		}
	}
	info, err := view.Stat(place.Path())
	if err != nil {
		return nil, reported("read", name, err)
	}
	switch {
	case info.IsDir():
		return nil, fsbridge.NewError("read", name, syscall.EISDIR)
	case !info.Mode().IsRegular():
		return nil, fsbridge.Irregular("read", name)
	}
	h, err := view.Open(place.Path(), 0, 0)
	if err != nil {
		return nil, reported("read", name, err)
	}
	if limit < 0 {
		limit = info.Size()
	}
	return &content{f: f, ctx: ctx, name: name, file: h, offset: offset, left: limit}, nil
}

// A content is a file that is being read.
type content struct {
	f            *files
	ctx          context.Context // of the Read that it belongs to
	name         string
	file         *memfsHandle
	offset, left int64
}

func (c *content) Read(b []byte) (int, error) {
	if err := c.f.h.step(c.ctx, "read", StepFileData); err != nil {
		return 0, err
	}
	if c.left == 0 {
		return 0, io.EOF
	}
	n, err := c.file.ReadAt(b[:min(int64(len(b)), c.left, chunkSize)], c.offset)
	c.offset += int64(n)
	c.left -= int64(n)
	if err != nil && err != io.EOF {
		err = reported("read", c.name, err)
	}
	return n, err
}

func (c *content) Close() error { return reported("close", c.name, c.file.Close()) }

// Write implements [sandbox.Files]. The content has no name until all of it
// is there.
func (f *files) Write(ctx context.Context, name string, r io.Reader, o sandbox.WriteOptions) error {
	view, place, err := f.at(ctx, "write", name)
	if err != nil {
		return err
	}
	perm := o.Perm.Perm()
	if perm == 0 {
		perm = 0o644
	}
	staged, err := view.Stage(place.Path(), perm, o.Exclusive)
	if err != nil {
		return reported("write", name, err)
	}
	if r == nil {
		r = strings.NewReader("")
	}
	if err := f.fill(ctx, name, staged, r); err != nil {
		staged.Discard()
		return err
	}
	return reported("write", name, staged.Commit())
}

// fill copies all of r, unless ctx ends, also at the very end.
func (f *files) fill(ctx context.Context, name string, to io.Writer, r io.Reader) error {
	for b := make([]byte, chunkSize); ; {
		n, err := r.Read(b)
		if stopped := f.h.step(ctx, "write", StepFileData); stopped != nil {
			return stopped
		}
		if _, err := to.Write(b[:n]); err != nil {
			return reported("write", name, err)
		}
		if err == io.EOF {
			return f.h.step(ctx, "write", StepFileDone)
		}
		if err != nil {
			return &sandbox.Error{
				Code: sandbox.CodeExecution, Op: "write", Field: "content", Resource: termsafe.Line(name),
				Message: "the content could not be read; " + termsafe.Line(name) + " is unchanged", Err: err,
			}
		}
	}
}

// Mkdir implements [sandbox.Files].
func (f *files) Mkdir(ctx context.Context, name string, perm fs.FileMode) error {
	view, place, err := f.at(ctx, "mkdir", name)
	if err != nil {
		return err
	}
	if perm.Perm() == 0 {
		perm = 0o755
	}
	return reported("mkdir", name, view.Mkdir(place.Path(), perm))
}

// Remove implements [sandbox.Files].
func (f *files) Remove(ctx context.Context, name string, recursive bool) error {
	view, place, err := f.at(ctx, "remove", name)
	if err != nil {
		return err
	}
	return reported("remove", name, view.Remove(place.Path(), recursive))
}

// Clear implements [sandbox.Clearer].
func (f *files) Clear(ctx context.Context, name string) error {
	view, place, err := f.at(ctx, "clear", name)
	if err != nil {
		return err
	}
	return reported("clear", name, view.Clear(place.Path()))
}

// Rename implements [sandbox.Files].
func (f *files) Rename(ctx context.Context, from, to string) error {
	view, a, err := f.at(ctx, "rename", from)
	if err != nil {
		return err
	}
	_, b, err := f.at(ctx, "rename", to)
	switch {
	case err != nil:
		return err
	case a.Root != b.Root:
		return fsbridge.NewError("rename", to, syscall.EXDEV)
	}
	return reported("rename", from, view.Rename(a.Path(), b.Path()))
}

// Stat implements [sandbox.Files].
func (f *files) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	view, place, err := f.at(ctx, "stat", name)
	if err != nil {
		return nil, err
	}
	info, err := view.Stat(place.Path())
	return info, reported("stat", name, err)
}

// ReadDir implements [sandbox.Files].
func (f *files) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	view, place, err := f.at(ctx, "readdir", name)
	if err != nil {
		return nil, err
	}
	list, err := view.ReadDir(place.Path())
	return list, reported("readdir", name, err)
}

// Lstat describes a link itself.
func (f *files) Lstat(ctx context.Context, name string) (fs.FileInfo, error) {
	view, place, err := f.at(ctx, "lstat", name)
	if err != nil {
		return nil, err
	}
	info, err := view.Lstat(place.Path())
	return info, reported("lstat", name, err)
}

// ReadLink returns what a link points to.
func (f *files) ReadLink(ctx context.Context, name string) (string, error) {
	view, place, err := f.at(ctx, "readlink", name)
	if err != nil {
		return "", err
	}
	target, err := view.ReadLink(place.Path())
	return target, reported("readlink", name, err)
}

// Symlink makes a link.
func (f *files) Symlink(ctx context.Context, target, name string) error {
	view, place, err := f.at(ctx, "symlink", name)
	if err != nil {
		return err
	}
	if target == "" || strings.IndexByte(target, 0) >= 0 {
		return fsbridge.NewError("symlink", name, syscall.EINVAL)
	}
	return reported("symlink", name, view.Symlink(target, place.Path()))
}
