package fsbridge

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"
	"syscall"

	"github.com/bulkhead-dev/sandbox"
)

// Copy copies the file or the tree from to the path to, both inside. A file
// replaces a file; a tree is merged into a folder that exists. Modes are
// kept, links are copied as links, pipes, sockets and devices are an error.
// The content passes through this program. A tree cannot be copied into
// itself.
func Copy(ctx context.Context, f sandbox.Files, from, to string) error {
	info, err := lstat(ctx, f, from)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return copyOne(ctx, f, from, to, info)
	}
	if inside, err := within(f, to, from); err != nil {
		return err
	} else if inside {
		return NewError("copy", to, syscall.EINVAL)
	}
	return Walk(ctx, f, from, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := to + strings.TrimPrefix(name, from)
		info, err := d.Info()
		if err != nil {
			return err
		}
		if d.IsDir() {
			return copyDir(ctx, f, target, info.Mode())
		}
		return copyOne(ctx, f, name, target, info)
	})
}

func copyDir(ctx context.Context, f sandbox.Files, to string, mode fs.FileMode) error {
	err := f.Mkdir(ctx, to, mode.Perm()|0o700)
	if sandbox.IsNotFound(err) {
		if err = MkdirAll(ctx, f, path.Dir(to), 0); err == nil {
			err = f.Mkdir(ctx, to, mode.Perm()|0o700)
		}
	}
	if errors.Is(err, fs.ErrExist) {
		return MkdirAll(ctx, f, to, 0)
	}
	return err
}

func copyOne(ctx context.Context, f sandbox.Files, from, to string, info fs.FileInfo) error {
	switch info.Mode().Type() {
	case 0:
		r, err := f.Read(ctx, from, 0, -1)
		if err != nil {
			return err
		}
		defer r.Close()
		return f.Write(ctx, to, r, sandbox.WriteOptions{Perm: info.Mode().Perm()})
	case fs.ModeSymlink:
		l, err := linkerOf("copy", f)
		if err != nil {
			return err
		}
		target, err := l.ReadLink(ctx, from)
		if err != nil {
			return err
		}
		return l.Symlink(ctx, target, to)
	}
	return Irregular("copy", from)
}

// lstat describes path itself where the transport can, else what it leads to.
func lstat(ctx context.Context, f sandbox.Files, path string) (fs.FileInfo, error) {
	if l, err := linkerOf("lstat", f); err == nil {
		info, err := l.Lstat(ctx, path)
		if sandbox.CodeOf(err) != sandbox.CodeUnsupported {
			return info, err
		}
	}
	return f.Stat(ctx, path)
}

// within reports whether the path inner names outer or something below it,
// as far as the names tell.
func within(f sandbox.Files, inner, outer string) (bool, error) {
	if b, ok := f.(*Bridge); ok {
		p, err := b.Locate(inner)
		if err != nil {
			return false, err
		}
		q, err := b.Locate(outer)
		if err != nil {
			return false, err
		}
		inner, outer = p.Path(), q.Path()
	}
	inner, outer = path.Clean(inner), path.Clean(outer)
	return inner == outer || strings.HasPrefix(inner, outer+"/"), nil
}
