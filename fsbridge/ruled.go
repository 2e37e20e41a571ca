package fsbridge

import (
	"context"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/bulkhead-dev/sandbox"
)

// A Rule says whether op may be done to the file or folder at path, which is
// absolute, clean and inside. It returns nil, or an error of [fserr.Closed].
// With part, path lies in a tree that is removed or gets another name as a
// whole, and op is not aimed at it.
type Rule func(op sandbox.Operation, path string, part bool) error

// Ruled returns a view that does nothing that rule refuses, and so is every view
// of that. Both the name that an operation is given and the place that links
// lead it to have to pass. Where the transport can do without links, the
// operation follows none, so that code inside cannot exchange what was judged.
//
// Names and descriptions of files are not content: Stat, Lstat and the entries
// of a folder show what is closed. A listing of a folder that is itself closed
// is refused. So is the removal or renaming of a tree in which the rule closes a
// part, and a new name by which a part of it would come to be closed. A hard
// link is a name of its own.
func (b *Bridge) Ruled(rule Rule) *Bridge {
	ruled := *b
	r := &ruledFiles{files: b.files, table: b.table, rule: rule}
	if refuser, ok := b.files.(sandbox.LinkRefuser); ok {
		if plain, err := refuser.WithoutLinks(); err == nil {
			r.plain = plain
		}
	}
	ruled.files = r
	return &ruled
}

// ruledFiles are files behind a [Rule]. Paths are those of places of the table.
type ruledFiles struct {
	files    sandbox.Files
	plain    sandbox.Files // files that follow no link; nil where there are none
	table    *MountTable
	rule     Rule
	linkless bool // links are an error
}

var (
	_ sandbox.Files       = (*ruledFiles)(nil)
	_ sandbox.LinkRefuser = (*ruledFiles)(nil)
	_ sandbox.Clearer     = (*ruledFiles)(nil)
	_ Linker              = (*ruledFiles)(nil)
)

const (
	// maxFollowed bounds the links of one path, as the kernel does.
	maxFollowed = 40
	// maxMoves bounds how often a path is followed anew because code inside
	// has put a link on it meanwhile.
	maxMoves = 3
)

// judge asks the rule about name, as it is spelled.
func (f *ruledFiles) judge(op sandbox.Operation, name string) error {
	return f.rule(op, path.Clean(name), false)
}

// at does one operation on what name leads to, or on name itself where last is
// false: a link at the end of the path is then what is meant.
func (f *ruledFiles) at(ctx context.Context, op sandbox.Operation, what, name string, last bool, do func(sandbox.Files, string) error) error {
	if err := f.judge(op, name); err != nil {
		return err
	}
	if f.linkless {
		return do(f.plain, name)
	}
	var err error
	if f.plain != nil {
		if err = do(f.plain, name); !isLink(err) {
			return err
		}
	}
	for range maxMoves {
		var to string
		if to, err = f.follow(ctx, what, name, last); err != nil {
			return err
		}
		if err = f.judge(op, to); err != nil {
			return err
		}
		if f.plain == nil {
			return do(f.files, to)
		}
		if err = do(f.plain, to); !isLink(err) {
			return err
		}
	}
	return err
}

// linker is what links are looked up by.
func (f *ruledFiles) linker(what string) (Linker, error) {
	if f.plain != nil {
		return linkerOf(what, f.plain)
	}
	return linkerOf(what, f.files)
}

// follow returns the place that name leads to, without links as far as it is
// there. With last, a link at the end is followed too.
func (f *ruledFiles) follow(ctx context.Context, what, name string, last bool) (string, error) {
	place, err := f.table.Inside(name)
	if err != nil {
		return "", err
	}
	links, err := f.linker(what)
	if err != nil { // such a transport neither makes links nor knows them
		return path.Clean(name), nil
	}
	w := follower{links: links, what: what, name: place.Path(), root: place.Root.Target, at: place.Root.Target}
	w.rest = strings.Split(place.Rel, "/")
	for len(w.rest) > 0 {
		if over, err := w.step(ctx, last); over || err != nil {
			return w.at, err
		}
	}
	return w.at, nil
}

// A follower goes along one path.
type follower struct {
	links Linker
	what  string // the operation
	name  string // the path, for people
	root  string // the mount that it has to stay in
	at    string // the place so far
	rest  []string
	n     int // links so far
}

// step goes on by one name. Over says that at is the place.
func (w *follower) step(ctx context.Context, last bool) (over bool, err error) {
	name := w.rest[0]
	w.rest = w.rest[1:]
	switch name {
	case "", ".":
		return false, nil
	case "..":
		if w.at == w.root {
			return true, Escape(w.what, w.name)
		}
		w.at = path.Dir(w.at)
		return false, nil
	}
	next := path.Join(w.at, name)
	if !last && len(w.rest) == 0 {
		w.at = next
		return true, nil
	}
	info, err := w.links.Lstat(ctx, next)
	switch {
	case sandbox.IsNotFound(err) && !slices.Contains(w.rest, ".."):
		w.at = path.Join(next, path.Join(w.rest...))
		return true, nil
	case err != nil:
		return true, err
	case info.Mode()&fs.ModeSymlink == 0:
		w.at = next
		return false, nil
	}
	if w.n++; w.n > maxFollowed {
		return true, NewError(w.what, w.name, syscall.ELOOP)
	}
	target, err := w.links.ReadLink(ctx, next)
	if err != nil {
		return true, err
	}
	if path.IsAbs(target) {
		below, inside := cutRoot(target, w.root)
		if !inside {
			return true, Escape(w.what, w.name)
		}
		w.at, target = w.root, below
	}
	w.rest = append(strings.Split(target, "/"), w.rest...)
	return false, nil
}

// cutRoot returns what of the absolute target lies below root, and whether it
// begins there. What follows is not cleaned: ".." in it may lead up from a link.
func cutRoot(target, root string) (below string, inside bool) {
	names := strings.FieldsFunc(target, func(r rune) bool { return r == '/' })
	for want := range strings.SplitSeq(strings.TrimPrefix(root, "/"), "/") {
		if len(names) == 0 || names[0] != want {
			return "", false
		}
		names = names[1:]
	}
	return strings.Join(names, "/"), true
}

// Read implements [sandbox.Files].
func (f *ruledFiles) Read(ctx context.Context, name string, offset, limit int64) (r io.ReadCloser, err error) {
	err = f.at(ctx, sandbox.OpRead, "read", name, true, func(files sandbox.Files, name string) (err error) {
		r, err = files.Read(ctx, name, offset, limit)
		return err
	})
	return r, err
}

// ReadDir implements [sandbox.Files].
func (f *ruledFiles) ReadDir(ctx context.Context, name string) (list []fs.DirEntry, err error) {
	err = f.at(ctx, sandbox.OpRead, "readdir", name, true, func(files sandbox.Files, name string) (err error) {
		list, err = files.ReadDir(ctx, name)
		return err
	})
	return list, err
}

// Write implements [sandbox.Files]. Whether a link is on the way has to be known
// before the content is touched, which comes once.
func (f *ruledFiles) Write(ctx context.Context, name string, r io.Reader, o sandbox.WriteOptions) error {
	return f.at(ctx, sandbox.OpWrite, "write", name, !o.Exclusive, func(files sandbox.Files, name string) error {
		if !f.linkless && f.plain != nil {
			_, err := files.Stat(ctx, name)
			switch {
			case !isLink(err):
			case o.Exclusive && f.ends(ctx, name):
				return NewError("write", name, syscall.EEXIST)
			default:
				return err
			}
		}
		return files.Write(ctx, name, r, o)
	})
}

// ends reports whether the only link on the way to name is at its end.
func (f *ruledFiles) ends(ctx context.Context, name string) bool {
	links, err := f.linker("lstat")
	if err != nil {
		return false
	}
	_, err = links.Lstat(ctx, name)
	return err == nil
}

// Mkdir implements [sandbox.Files].
func (f *ruledFiles) Mkdir(ctx context.Context, name string, perm fs.FileMode) error {
	return f.at(ctx, sandbox.OpWrite, "mkdir", name, false, func(files sandbox.Files, name string) error { return files.Mkdir(ctx, name, perm) })
}

// Remove implements [sandbox.Files].
func (f *ruledFiles) Remove(ctx context.Context, name string, recursive bool) error {
	return f.at(ctx, sandbox.OpWrite, "remove", name, false, func(files sandbox.Files, name string) error {
		if recursive {
			if err := f.tree(ctx, files, name, ""); err != nil {
				return err
			}
		}
		return files.Remove(ctx, name, recursive)
	})
}

// Clear implements [sandbox.Clearer].
func (f *ruledFiles) Clear(ctx context.Context, name string) error {
	return f.at(ctx, sandbox.OpWrite, "clear", name, false, func(files sandbox.Files, name string) error {
		c, ok := files.(sandbox.Clearer)
		if !ok {
			return lacks("clear", "cannot open closed folders")
		}
		if err := f.tree(ctx, files, name, ""); err != nil {
			return err
		}
		return c.Clear(ctx, name)
	})
}

// Rename implements [sandbox.Files]. Links on the way to either name are
// followed in turn.
func (f *ruledFiles) Rename(ctx context.Context, from, to string) error {
	return f.at(ctx, sandbox.OpWrite, "rename", from, false, func(_ sandbox.Files, from string) error {
		return f.at(ctx, sandbox.OpWrite, "rename", to, false, func(files sandbox.Files, to string) error {
			if err := f.tree(ctx, files, from, to); err != nil {
				return err
			}
			return files.Rename(ctx, from, to)
		})
	})
}

// tree asks about all that lies in the tree name, which is removed or, with to,
// renamed. What cannot be listed cannot be removed either, and what is gone
// needs no answer.
func (f *ruledFiles) tree(ctx context.Context, files sandbox.Files, name, to string) error {
	links, err := linkerOf("lstat", files)
	if err == nil {
		if info, err := links.Lstat(ctx, name); err != nil || !info.IsDir() {
			return nil // the operation says what is wrong
		}
	} else if info, err := files.Stat(ctx, name); err != nil || !info.IsDir() {
		return nil
	}
	return Walk(ctx, files, name, func(p string, _ fs.DirEntry, err error) error {
		if err != nil {
			if ctx.Err() != nil || sandbox.CodeOf(err) == sandbox.CodeBudgetExceeded {
				return err
			}
			return nil
		}
		if err := f.rule(sandbox.OpWrite, path.Clean(p), true); err != nil || to == "" || p == name {
			return err
		}
		if f.judge(sandbox.OpWrite, p) != nil {
			return nil // it is closed under either name
		}
		return f.judge(sandbox.OpWrite, path.Join(to, strings.TrimPrefix(p, name)))
	})
}

// Stat implements [sandbox.Files].
func (f *ruledFiles) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	return f.looks().Stat(ctx, name)
}

// looks are the files that a description is asked of.
func (f *ruledFiles) looks() sandbox.Files {
	if f.linkless {
		return f.plain
	}
	return f.files
}

// Lstat implements [Linker].
func (f *ruledFiles) Lstat(ctx context.Context, name string) (fs.FileInfo, error) {
	l, err := linkerOf("lstat", f.looks())
	if err != nil {
		return nil, err
	}
	return l.Lstat(ctx, name)
}

// ReadLink implements [Linker].
func (f *ruledFiles) ReadLink(ctx context.Context, name string) (target string, err error) {
	err = f.at(ctx, sandbox.OpRead, "readlink", name, false, func(files sandbox.Files, name string) error {
		l, err := linkerOf("readlink", files)
		if err == nil {
			target, err = l.ReadLink(ctx, name)
		}
		return err
	})
	return target, err
}

// Symlink implements [Linker]. What the link leads to is judged when the link
// is followed.
func (f *ruledFiles) Symlink(ctx context.Context, target, name string) error {
	return f.at(ctx, sandbox.OpWrite, "symlink", name, false, func(files sandbox.Files, name string) error {
		l, err := linkerOf("symlink", files)
		if err != nil {
			return err
		}
		return l.Symlink(ctx, target, name)
	})
}

// WithoutLinks implements [sandbox.LinkRefuser].
func (f *ruledFiles) WithoutLinks() (sandbox.Files, error) {
	refuser, ok := f.files.(sandbox.LinkRefuser)
	if !ok {
		return nil, lacks("open files without links", "cannot refuse links")
	}
	plain, err := refuser.WithoutLinks()
	if err != nil {
		return nil, err
	}
	view := *f
	view.plain, view.linkless = plain, true
	return &view, nil
}
