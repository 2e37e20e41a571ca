package fsbridge

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"

	"github.com/bulkhead-dev/sandbox"
)

// FS returns the workspace as an [fs.FS]; see [SubFS].
func FS(ctx context.Context, f sandbox.Files) fs.FS { return SubFS(ctx, f, sandbox.WorkspaceDir) }

// SubFS returns the folder root inside as an [fs.FS] that also implements
// [fs.StatFS], [fs.ReadDirFS], [fs.ReadFileFS] and [fs.ReadLinkFS]. Each call
// is a call of f with ctx, which io/fs leaves no other way to pass; nothing
// is cached. Errors are *[fs.PathError] around those of f. An open file must
// be closed: it may hold a process in the sandbox.
func SubFS(ctx context.Context, f sandbox.Files, root string) fs.FS {
	return &view{ctx: ctx, files: f, root: root}
}

// A view is the io/fs side of a Files.
type view struct {
	ctx     context.Context // of every call
	files   sandbox.Files
	root    string
	lenient bool // for Glob: any name goes, and unreadable folders are empty
}

var (
	_ fs.StatFS     = (*view)(nil)
	_ fs.ReadDirFS  = (*view)(nil)
	_ fs.ReadFileFS = (*view)(nil)
	_ fs.ReadLinkFS = (*view)(nil)
)

// inside returns the path of name, or an error when io/fs does not allow it.
func (v *view) inside(op, name string) (string, error) {
	ok := fs.ValidPath(name)
	if v.lenient {
		ok = name != "" && !strings.HasPrefix(name, "/")
	}
	switch {
	case !ok:
		return "", &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	case name == ".":
		return v.root, nil
	}
	full := join(v.root, name)
	if v.lenient && len(full) > maxPath {
		return "", &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist} // for everybody who would name it
	}
	return full, nil
}

func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// Open implements [fs.FS].
func (v *view) Open(name string) (fs.File, error) {
	full, err := v.inside("open", name)
	if err != nil {
		return nil, err
	}
	info, err := v.files.Stat(v.ctx, full)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	info = named(info, name)
	if info.IsDir() {
		return &openDir{view: v, name: name, info: info}, nil
	}
	r, err := v.files.Read(v.ctx, full, 0, -1)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return &openFile{name: name, info: info, r: r}, nil
}

// Stat implements [fs.StatFS].
func (v *view) Stat(name string) (fs.FileInfo, error) {
	full, err := v.inside("stat", name)
	if err != nil {
		return nil, err
	}
	info, err := v.files.Stat(v.ctx, full)
	if err != nil {
		return nil, pathError("stat", name, err)
	}
	return named(info, name), nil
}

// ReadDir implements [fs.ReadDirFS].
func (v *view) ReadDir(name string) ([]fs.DirEntry, error) {
	full, err := v.inside("readdir", name)
	var entries []fs.DirEntry
	if err == nil {
		entries, err = v.files.ReadDir(v.ctx, full)
		err = pathError("readdir", name, err)
	}
	if v.lenient && name != "." && (errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist)) {
		return nil, nil
	}
	return entries, err
}

// ReadFile implements [fs.ReadFileFS].
func (v *view) ReadFile(name string) ([]byte, error) {
	full, err := v.inside("readfile", name)
	if err != nil {
		return nil, err
	}
	r, err := v.files.Read(v.ctx, full, 0, -1)
	if err != nil {
		return nil, pathError("readfile", name, err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	return b, pathError("readfile", name, err)
}

// Lstat implements [fs.ReadLinkFS].
func (v *view) Lstat(name string) (fs.FileInfo, error) {
	full, err := v.inside("lstat", name)
	if err != nil {
		return nil, err
	}
	info, err := lstat(v.ctx, v.files, full)
	if err != nil {
		return nil, pathError("lstat", name, err)
	}
	return named(info, name), nil
}

// ReadLink implements [fs.ReadLinkFS].
func (v *view) ReadLink(name string) (string, error) {
	full, err := v.inside("readlink", name)
	if err != nil {
		return "", err
	}
	l, err := linkerOf("readlink", v.files)
	if err != nil {
		return "", pathError("readlink", name, err)
	}
	target, err := l.ReadLink(v.ctx, full)
	return target, pathError("readlink", name, err)
}

// named gives the root the name that io/fs wants for it.
func named(info fs.FileInfo, name string) fs.FileInfo {
	if name == "." {
		return rootInfo{info}
	}
	return info
}

type rootInfo struct{ fs.FileInfo }

func (rootInfo) Name() string { return "." }
