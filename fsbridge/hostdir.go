// The hostdir files serve a folder of the host with the interface that a
// sandbox's files have, so that the same code copies trees between the two.
//
// Everything goes through os.Root: nothing outside of the folder is read or
// written, whatever links lie in it and even if they are exchanged meanwhile.
// A link that stays in the folder is followed like anywhere else.

package fsbridge

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/bulkhead-dev/sandbox"
)

// Files are the files in a folder. Paths are relative to it, with "" and "/"
// for the folder itself; a leading slash changes nothing. It is safe for
// concurrent use. Errors are those of a sandbox's files.
type Files struct {
	root *os.Root
	name string // of the folder, for messages
}

var (
	_ sandbox.Files = (*Files)(nil)
	_ Linker        = (*Files)(nil)
)

// New returns the files in root, which stays the caller's to close. Messages
// call the folder name.
func NewHostFiles(root *os.Root, name string) *Files { return &Files{root: root, name: name} }

// rel is what os.Root calls the path.
func rel(name string) string {
	if name = strings.Trim(name, "/"); name != "" {
		return name
	}
	return "."
}

// Read implements [sandbox.Files].
func (f *Files) Read(ctx context.Context, name string, offset, limit int64) (io.ReadCloser, error) {
	if offset < 0 {
		return nil, f.errno("read", name, syscall.EINVAL)
	}
	// Opening a device can have effects, and a pipe would wait for a writer.
	info, err := f.root.Stat(rel(name))
	if err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		return nil, f.irregular("read", name)
	}
	file, err := f.root.OpenFile(rel(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, f.failed("read", name, err)
	}
	if err := f.readable(file, name, offset); err != nil {
		file.Close()
		return nil, err
	}
	var content io.Reader = file
	if limit >= 0 {
		content = io.LimitReader(file, limit)
	}
	return &reader{ctx: ctx, r: content, file: file}, nil
}

// readable checks what was opened and goes to offset.
func (f *Files) readable(file *os.File, name string, offset int64) error {
	info, err := file.Stat()
	switch {
	case err != nil:
		return f.failed("read", name, err)
	case info.IsDir():
		return f.errno("read", name, syscall.EISDIR)
	case !info.Mode().IsRegular():
		return f.irregular("read", name)
	}
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		return f.failed("read", name, err)
	}
	return nil
}

// A reader ends with its context.
type reader struct {
	ctx  context.Context // of the Read that it belongs to
	r    io.Reader
	file *os.File
}

// Stat describes the file, see [sandbox.StatOf].
func (r *reader) Stat() (fs.FileInfo, error) { return r.file.Stat() }

func (r *reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

func (r *reader) Close() error { return r.file.Close() }

// Mkdir implements [sandbox.Files]. The umask of this process counts.
func (f *Files) Mkdir(_ context.Context, name string, perm fs.FileMode) error {
	if perm.Perm() == 0 {
		perm = 0o755
	}
	if rel(name) == "." {
		return f.errno("mkdir", name, syscall.EEXIST)
	}
	return f.failed("mkdir", name, f.root.Mkdir(rel(name), perm.Perm()))
}

// Remove implements [sandbox.Files].
func (f *Files) Remove(_ context.Context, name string, recursive bool) error {
	if rel(name) == "." {
		return f.errno("remove", name, syscall.EBUSY)
	}
	if !recursive {
		return f.failed("remove", name, f.root.Remove(rel(name)))
	}
	if _, err := f.root.Lstat(rel(name)); err != nil {
		return f.failed("remove", name, err)
	}
	return f.failed("remove", name, f.root.RemoveAll(rel(name)))
}

// Rename implements [sandbox.Files].
func (f *Files) Rename(_ context.Context, from, to string) error {
	if rel(from) == "." || rel(to) == "." {
		return f.errno("rename", from, syscall.EBUSY)
	}
	return f.failed("rename", from, f.root.Rename(rel(from), rel(to)))
}

// Stat implements [sandbox.Files].
func (f *Files) Stat(_ context.Context, name string) (fs.FileInfo, error) {
	info, err := f.root.Stat(rel(name))
	return info, f.failed("stat", name, err)
}

// Lstat implements [fsbridge.Linker].
func (f *Files) Lstat(_ context.Context, name string) (fs.FileInfo, error) {
	info, err := f.root.Lstat(rel(name))
	return info, f.failed("lstat", name, err)
}

// ReadLink implements [fsbridge.Linker].
func (f *Files) ReadLink(_ context.Context, name string) (string, error) {
	target, err := f.root.Readlink(rel(name))
	return target, f.failed("readlink", name, err)
}

// Symlink implements [fsbridge.Linker].
func (f *Files) Symlink(_ context.Context, target, name string) error {
	return f.failed("symlink", name, f.root.Symlink(target, rel(name)))
}

// ReadDir implements [sandbox.Files]. Entries are looked at in the folder
// that was opened, wherever its path leads by then.
func (f *Files) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	dir, err := f.root.OpenRoot(rel(name))
	if err != nil {
		return nil, f.failed("readdir", name, err)
	}
	defer dir.Close()
	list, err := dir.Open(".")
	if err != nil {
		return nil, f.failed("readdir", name, err)
	}
	defer list.Close()
	names, err := list.Readdirnames(-1)
	if err != nil {
		return nil, f.failed("readdir", name, err)
	}
	slices.Sort(names)
	entries := make([]fs.DirEntry, 0, len(names))
	for _, n := range names {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		info, err := dir.Lstat(n)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it went away meanwhile
		}
		if err != nil {
			return nil, f.failed("readdir", path.Join(name, n), err)
		}
		entries = append(entries, fs.FileInfoToDirEntry(info))
	}
	return entries, nil
}

// full is what messages call a path.
func (f *Files) full(name string) string {
	if name = rel(name); name == "." {
		return f.name
	}
	return strings.TrimSuffix(f.name, "/") + "/" + name
}

// errno is fserr.New without its hints, which speak of a sandbox's mounts.
func (f *Files) errno(op, name string, errno syscall.Errno) error {
	e := NewError(op, f.full(name), errno)
	e.Hint = ""
	return e
}

func (f *Files) irregular(op, name string) error { return Irregular(op, f.full(name)) }

// failed turns an error of os.Root into ours. Two of them have no errno and
// no name, only a text: that a path would leave the folder, and that a part
// of it is no folder.
func (f *Files) failed(op, name string, err error) error {
	var errno syscall.Errno
	switch {
	case err == nil:
		return nil
	case errors.As(err, &errno):
		return f.errno(op, name, errno)
	case errors.Is(err, fs.ErrNotExist):
		return f.errno(op, name, syscall.ENOENT)
	case strings.HasSuffix(err.Error(), "not a directory"):
		return f.errno(op, name, syscall.ENOTDIR)
	case strings.HasSuffix(err.Error(), "path escapes from parent"):
		e := Escape(op, f.full(name))
		e.Message = e.Resource + " leads out of its folder through a link"
		e.Hint = "name the place that the link points to"
		return e
	}
	return sandbox.Errorf(sandbox.CodeExecution, op, "%s: %w", f.full(name), err)
}
