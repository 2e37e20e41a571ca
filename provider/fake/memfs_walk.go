package fake

import (
	"errors"
	"io/fs"
	"path"
	"strings"
	"syscall"
)

// ErrEscape is what a confined [View] says of a path that leads out of its
// mount.
var errEscape = errors.New("the path leads out of its mount")

// ErrLink is what a [View] without links says of a link on the way.
var errLink = errors.New("a link is on the way")

// Limits of Linux.
const (
	maxLinks = 40
	maxName  = 255
)

// An FS is what one sandbox sees. It is safe for concurrent use.
type memfsFS struct {
	disk   *memfsDisk
	uid    int // the only user of the view
	root   *mount
	mounts map[*node]*mount // by the node that a mount covers; guarded by Disk.mu
}

// A mount is a volume in its place.
type mount struct {
	root     *node
	readOnly bool
	over     position // what it covers; zero for the root
}

// A position is a node as reached through a mount.
type position struct {
	m *mount
	n *node
}

// NewFS returns a file system for the user uid with root as its root.
func newFS(root *memfsVolume, uid int, readOnly bool) *memfsFS {
	f := &memfsFS{disk: root.disk, uid: uid, mounts: map[*node]*mount{}}
	f.root = &mount{root: root.root, readOnly: readOnly}
	return f
}

// Mount puts v at target, an absolute path. What is missing on the way is
// made, also in a read-only root, as engines do.
func (f *memfsFS) Mount(target string, v *memfsVolume, readOnly bool) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	at := position{f.root, f.root.root}
	elements := split(target)
	for i, name := range elements {
		if !at.n.mode.IsDir() {
			return syscall.ENOTDIR
		}
		if at.n.entries[name] == nil {
			made := at.n.vol.newNode(fs.ModeDir|0o755, 0)
			if i == len(elements)-1 && !v.root.mode.IsDir() {
				made = at.n.vol.newNode(0o644, 0)
			}
			at.n.put(name, made)
		}
		at = f.enter(position{at.m, at.n.entries[name]})
	}
	f.mounts[at.n] = &mount{root: v.root, readOnly: readOnly, over: at}
	return nil
}

// Chown gives what name leads to to the user uid, whatever the modes say.
func (f *memfsFS) Chown(name string, uid int) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	at, err := f.walk(name, true)
	switch {
	case err != nil:
		return err
	case at.at.n == nil:
		return syscall.ENOENT
	}
	at.at.n.uid = uid
	return nil
}

// enter steps from a node to what is mounted over it.
func (f *memfsFS) enter(p position) position {
	for f.mounts[p.n] != nil && f.mounts[p.n].over == p {
		m := f.mounts[p.n]
		p = position{m, m.root}
	}
	return p
}

// up is the parent of a folder.
func (f *memfsFS) up(p position) position {
	for p.n == p.m.root {
		if p.m == f.root {
			return p
		}
		p = p.m.over
	}
	return position{p.m, p.n.parent}
}

func split(name string) []string {
	var elements []string
	for e := range strings.SplitSeq(name, "/") {
		if e != "" && e != "." {
			elements = append(elements, e)
		}
	}
	return elements
}

// A found is the place that a path names.
type found struct {
	dir  position // the folder that holds it
	name string   // in dir; empty when the path ends with ".." or is a mount
	at   position // what is there; at.n is nil for nothing
}

// walk finds an absolute path. With follow a link at its end is followed;
// what a dangling link names is found as nothing in the folder it points to.
// A trailing slash demands a folder. The caller holds Disk.mu.
func (f *memfsFS) walk(name string, follow bool) (found, error) { return f.walkAs(name, follow, false) }

// walkAs is walk, which with plain follows no link at all.
func (f *memfsFS) walkAs(name string, follow, plain bool) (found, error) {
	if !path.IsAbs(name) {
		return found{}, syscall.EINVAL
	}
	at := position{f.root, f.root.root}
	w := walker{f: f, f0: found{dir: at, at: at}, follow: follow, plain: plain}
	if err := w.along(name); err != nil {
		return found{}, err
	}
	return w.f0, nil
}

type walker struct {
	f      *memfsFS
	f0     found
	follow bool
	plain  bool // a link that would be followed is ErrLink
	links  int
}

func (w *walker) along(name string) error {
	elements := split(name)
	slash := strings.HasSuffix(name, "/") && len(elements) > 0
	for i, e := range elements {
		last := i == len(elements)-1
		if err := w.step(e, !last || w.follow || slash); err != nil {
			return err
		}
		if w.f0.at.n == nil && !last {
			return syscall.ENOENT
		}
	}
	if n := w.f0.at.n; slash && n != nil && !n.mode.IsDir() {
		return syscall.ENOTDIR
	}
	return nil
}

// step goes from where the walk stands to the element e.
func (w *walker) step(e string, follow bool) error {
	here := w.f0.at
	switch {
	case here.n == nil:
		return syscall.ENOENT
	case !here.n.mode.IsDir():
		return syscall.ENOTDIR
	case !w.f.may(here.n, 1):
		return syscall.EACCES
	case len(e) > maxName:
		return syscall.ENAMETOOLONG
	case e == "..":
		up := w.f.up(here)
		w.f0 = found{dir: up, at: up}
		return nil
	}
	w.f0 = found{dir: here, name: e}
	child := here.n.entries[e]
	if child == nil {
		return nil
	}
	w.f0.at = w.f.enter(position{here.m, child})
	if w.f0.at.m != here.m { // a mount has no name in the folder below it
		w.f0 = found{dir: w.f0.at, at: w.f0.at}
	}
	if !follow || w.f0.at.n.mode.Type() != fs.ModeSymlink {
		return nil
	}
	if w.plain {
		return errLink
	}
	if w.links++; w.links > maxLinks {
		return syscall.ELOOP
	}
	if path.IsAbs(child.target) {
		here = position{w.f.root, w.f.root.root}
	}
	w.f0 = found{dir: here, at: here}
	inner := walker{f: w.f, f0: w.f0, follow: true, links: w.links}
	err := inner.along(child.target)
	w.f0, w.links = inner.f0, inner.links
	return err
}

// may reports whether the user has the permission bits want (4 read, 2 write,
// 1 search) for n. There are no groups.
func (f *memfsFS) may(n *node, want fs.FileMode) bool {
	bits := n.mode.Perm()
	if n.uid == f.uid {
		bits >>= 6
	}
	return bits&want == want
}
