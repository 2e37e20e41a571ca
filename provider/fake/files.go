package fake

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
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
	if err := h.step(ctx, "open files", StepFile); err != nil {
		return nil, err
	}
	table, err := fsbridge.NewMountTable(h.box.Mounts, h.box.Tmpfs)
	if err != nil {
		return nil, err
	}
	return &files{h: h, table: table}, nil
}

// do runs one operation with the path of name and a view that stays in the
// mount of name, and gives the operation's error its code.
func (f *files) do(ctx context.Context, op, name string, run func(v view, p string) error) error {
	if err := f.h.step(ctx, op, StepFile); err != nil {
		return err
	}
	place, err := f.table.Inside(name)
	if err != nil {
		return err
	}
	v := f.h.boot.files
	v.within, v.plain = place.Root.Target, f.plain
	err = run(v, place.Path())
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
	return err
}

// Read implements [sandbox.Files]. The content is that of the moment.
func (f *files) Read(ctx context.Context, name string, offset, limit int64) (r io.ReadCloser, err error) {
	if offset < 0 {
		return nil, &sandbox.Error{
			Code: sandbox.CodeValidation, Op: "read", Field: "offset", Resource: termsafe.Line(name), Message: "the offset is negative",
		}
	}
	err = f.do(ctx, "read", name, func(v view, p string) error {
		data, err := v.read(p)
		data = data[min(offset, int64(len(data))):]
		if limit >= 0 {
			data = data[:min(limit, int64(len(data)))]
		}
		r = &content{f.h, ctx, bytes.NewReader(data)}
		return err
	})
	return r, err
}

// A content is a file that is being read.
type content struct {
	h   *handle
	ctx context.Context // of the Read that it belongs to
	r   io.Reader
}

func (c *content) Read(b []byte) (int, error) {
	if err := c.h.step(c.ctx, "read", StepFileData); err != nil {
		return 0, err
	}
	return c.r.Read(b)
}

func (c *content) Close() error { return nil }

// Write implements [sandbox.Files]. The content has no name until all of it
// is there.
func (f *files) Write(ctx context.Context, name string, r io.Reader, o sandbox.WriteOptions) error {
	if r == nil {
		r = bytes.NewReader(nil)
	}
	perm := o.Perm.Perm()
	if perm == 0 {
		perm = 0o644
	}
	return f.do(ctx, "write", name, func(v view, p string) error {
		if _, err := v.stat(p, true); o.Exclusive && err == nil {
			return syscall.EEXIST
		}
		data, err := io.ReadAll(&source{f.h, ctx, r})
		if err == nil {
			err = f.h.step(ctx, "write", StepFileDone)
		}
		if _, coded := errors.AsType[*sandbox.Error](err); err != nil && !coded {
			err = &sandbox.Error{
				Code: sandbox.CodeExecution, Op: "write", Field: "content", Resource: termsafe.Line(name),
				Message: "the content could not be read; " + termsafe.Line(name) + " is unchanged", Err: err,
			}
		}
		if err != nil {
			return err
		}
		return v.replace(p, data, perm, o.Exclusive)
	})
}

// A source is content that is being written.
type source struct {
	h   *handle
	ctx context.Context
	r   io.Reader
}

func (s *source) Read(b []byte) (int, error) {
	n, err := s.r.Read(b)
	if stopped := s.h.step(s.ctx, "write", StepFileData); stopped != nil {
		return n, stopped
	}
	return n, err
}

// Mkdir implements [sandbox.Files].
func (f *files) Mkdir(ctx context.Context, name string, perm fs.FileMode) error {
	if perm.Perm() == 0 {
		perm = 0o755
	}
	return f.do(ctx, "mkdir", name, func(v view, p string) error { return v.mkdir(p, perm.Perm()) })
}

// Remove implements [sandbox.Files].
func (f *files) Remove(ctx context.Context, name string, recursive bool) error {
	return f.do(ctx, "remove", name, func(v view, p string) error { return v.remove(p, recursive, false) })
}

// Clear implements [sandbox.Clearer].
func (f *files) Clear(ctx context.Context, name string) error {
	return f.do(ctx, "clear", name, func(v view, p string) error { return v.remove(p, true, true) })
}

// Rename implements [sandbox.Files].
func (f *files) Rename(ctx context.Context, from, to string) error {
	target, err := f.table.Inside(to)
	if err != nil {
		return err
	}
	return f.do(ctx, "rename", from, func(v view, p string) error {
		if !below(v.within, target.Path()) {
			return syscall.EXDEV
		}
		return v.rename(p, target.Path())
	})
}

// Stat implements [sandbox.Files].
func (f *files) Stat(ctx context.Context, name string) (info fs.FileInfo, err error) {
	err = f.do(ctx, "stat", name, func(v view, p string) (err error) { info, err = v.stat(p, false); return })
	return info, err
}

// Lstat describes a link itself.
func (f *files) Lstat(ctx context.Context, name string) (info fs.FileInfo, err error) {
	err = f.do(ctx, "lstat", name, func(v view, p string) (err error) { info, err = v.stat(p, true); return })
	return info, err
}

// ReadDir implements [sandbox.Files].
func (f *files) ReadDir(ctx context.Context, name string) (list []fs.DirEntry, err error) {
	err = f.do(ctx, "readdir", name, func(v view, p string) (err error) { list, err = v.readDir(p); return })
	return list, err
}

// ReadLink returns what a link points to.
func (f *files) ReadLink(ctx context.Context, name string) (target string, err error) {
	err = f.do(ctx, "readlink", name, func(v view, p string) error {
		_, _, n, err := v.locked(p)
		if err == nil && n.mode.Type() != fs.ModeSymlink {
			err = syscall.EINVAL
		}
		if err == nil {
			target = n.target
		}
		return err
	})
	return target, err
}

// Symlink makes a link.
func (f *files) Symlink(ctx context.Context, target, name string) error {
	return f.do(ctx, "symlink", name, func(v view, p string) error { return v.symlink(target, p) })
}
