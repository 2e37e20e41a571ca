package fsbridge

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"

	"github.com/bulkhead-dev/sandbox"
)

// Write implements [sandbox.Files]. The content goes to a temporary file of
// the same folder, .sbx-*.tmp, which then gets the name; when r fails or ctx
// ends it is removed. A link of that name is replaced and never followed. A
// new file gets the wanted mode less the umask of this process. The content is
// not forced to the disk: a copy is not worth more than the original.
func (f *Files) Write(ctx context.Context, name string, r io.Reader, o sandbox.WriteOptions) error {
	dir, base := path.Split(rel(name))
	if base == "." || base == ".." {
		return f.errno("write", name, syscall.EISDIR)
	}
	folder, err := f.parent(rel(dir))
	if err != nil {
		return f.failed("write", name, err)
	}
	defer folder.Close()
	perm := o.Perm.Perm()
	if perm == 0 {
		perm = 0o644
	}
	was, err := folder.Lstat(base)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		was = nil
	case err != nil:
		return f.failed("write", name, err)
	case o.Exclusive:
		return f.errno("write", name, syscall.EEXIST)
	case was.IsDir():
		return f.errno("write", name, syscall.EISDIR)
	case was.Mode().Type() == fs.ModeSymlink:
		was = nil
	case !was.Mode().IsRegular():
		return f.irregular("write", name)
	}
	temp := ".sbx-" + randomName() + ".tmp"
	if err := stage(ctx, folder, temp, r, perm, was); err != nil {
		return f.content(name, errors.Join(err, gone(folder.Remove(temp))))
	}
	if err := place(folder, temp, base, o.Exclusive); err != nil {
		return f.failed("write", name, errors.Join(err, gone(folder.Remove(temp))))
	}
	return nil
}

// parent opens the folder dir, which is made when missing.
func (f *Files) parent(dir string) (*os.Root, error) {
	folder, err := f.root.OpenRoot(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return folder, err
	}
	if err := f.root.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	return f.root.OpenRoot(dir)
}

// stage writes the content to the new file temp. One that replaces was gets
// its mode.
func stage(ctx context.Context, folder *os.Root, temp string, r io.Reader, perm fs.FileMode, was fs.FileInfo) error {
	file, err := folder.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	if r != nil {
		_, err = io.Copy(file, &source{ctx: ctx, r: r})
	}
	if err == nil && was != nil {
		err = file.Chmod(was.Mode().Perm())
	}
	return errors.Join(err, file.Close(), ctx.Err())
}

// place gives the temporary file its name.
func place(folder *os.Root, temp, base string, exclusive bool) error {
	if !exclusive {
		return folder.Rename(temp, base)
	}
	if err := folder.Link(temp, base); err != nil {
		return err
	}
	return folder.Remove(temp)
}

// A source ends with its context, and keeps its errors apart from those of
// the host's disk.
type source struct {
	ctx context.Context // of the Write that it belongs to
	r   io.Reader
}

type sourceError struct{ error }

func (e sourceError) Unwrap() error { return e.error }

func (s *source) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, sourceError{err}
	}
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF {
		err = sourceError{err}
	}
	return n, err
}

// content is the error of a write whose staging failed.
func (f *Files) content(name string, err error) error {
	var s sourceError
	if errors.As(err, &s) {
		return sandbox.Errorf(sandbox.CodeExecution, "write", "%s is unchanged because its content could not be read: %w", f.full(name), s.error)
	}
	return f.failed("write", name, err)
}

// gone is nil when err says that there is nothing to remove.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
