package fake

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// A node is a file, a folder or a link in memory. Engine.disk guards it.
type node struct {
	mode     fs.FileMode
	data     []byte           // of a file
	target   string           // of a link
	children map[string]*node // of a folder
	modified time.Time
}

func newNode(mode fs.FileMode) *node {
	n := &node{mode: mode, modified: time.Now()}
	if mode.IsDir() {
		n.children = map[string]*node{}
	}
	return n
}

// image returns the files that a sandbox of s starts with outside its mounts.
func image(s sandbox.Spec) *node {
	root := newNode(fs.ModeDir | 0o755)
	for _, dir := range []string{"/bin", "/usr/bin", "/etc", "/dev", "/tmp", "/var/tmp", sandbox.WorkspaceDir, sandbox.HomeDir} {
		put(root, dir, newNode(fs.ModeDir|0o755))
	}
	for _, device := range []string{"/dev/null", "/dev/zero"} {
		put(root, device, newNode(fs.ModeDevice|fs.ModeCharDevice|0o666))
	}
	return root
}

// put places n at an absolute path, whose parents it makes.
func put(root *node, name string, n *node) {
	for dir, rest, _ := strings.Cut(name[1:], "/"); ; dir, rest, _ = strings.Cut(rest, "/") {
		if rest == "" {
			root.children[dir] = n
			return
		}
		if root.children[dir] == nil {
			root.children[dir] = newNode(fs.ModeDir | 0o755)
		}
		root = root.children[dir]
	}
}

// mountLocked puts a sandbox's files together for one run. What lies on a
// tmpfs is new each time; the root and folders of the host stay. Mounts of one
// source share a folder.
func (e *Engine) mountLocked(b *box) view {
	e.disk.Lock()
	defer e.disk.Unlock()
	v := view{e: e, root: b.root, sizes: map[string]int64{}}
	for _, t := range b.spec.Tmpfs {
		put(b.root, t.Target, newNode(fs.ModeDir|0o755))
		if t.Size > 0 {
			v.sizes[t.Target] = t.Size
		}
	}
	for _, m := range b.spec.Mounts {
		if m.Role == sandbox.RoleIdentity {
			continue // there is one user
		}
		if e.folders[m.Source] == nil {
			e.folders[m.Source] = newNode(fs.ModeDir | 0o755)
		}
		put(b.root, m.Target, e.folders[m.Source])
		if m.ReadOnly {
			v.readOnly = append(v.readOnly, m.Target)
		}
	}
	return v
}

// A view is how one sandbox sees its files. Paths are absolute. Errors are
// system call numbers, or errEscape.
type view struct {
	e        *Engine
	root     *node
	readOnly []string         // mounts that cannot be changed
	sizes    map[string]int64 // bytes of content that tmpfs hold at most, by target
	within   string           // what no path may leave, or empty
	plain    bool             // no link is followed
}

// What [view.within] and [view.plain] refuse.
var (
	errEscape = errors.New("the path leads out of its mount")
	errLink   = errors.New("the path leads over a link")
)

const maxLinks = 40

// What the one user, who owns everything, may do with a file or a folder.
const (
	readable   fs.FileMode = 0o400
	writable   fs.FileMode = 0o200
	searchable fs.FileMode = 0o100
)

func below(dir, name string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }

// find resolves a path. It returns the real path of what it names, with its
// folder and its node; the node is nil where the folder has no such entry. The
// last element is followed if it is a link and follow is set.
func (v view) find(name string, follow bool) (real string, dir, n *node, err error) {
	at, nodes := []string{}, []*node{v.root}
	todo := strings.Split(name, "/")
	for links := 0; len(todo) > 0; {
		part := todo[0]
		todo = todo[1:]
		last := !slices.ContainsFunc(todo, func(s string) bool { return s != "" && s != "." })
		here := nodes[len(nodes)-1]
		switch part {
		case "", ".":
			continue
		case "..":
			at, nodes = at[:max(len(at)-1, 0)], nodes[:max(len(nodes)-1, 1)]
			continue
		}
		if !here.mode.IsDir() {
			return "", nil, nil, syscall.ENOTDIR
		}
		if here.mode&searchable == 0 {
			return "", nil, nil, syscall.EACCES
		}
		next := here.children[part]
		switch {
		case next == nil && !last:
			return "", nil, nil, syscall.ENOENT
		case next != nil && next.mode.Type() == fs.ModeSymlink && (!last || follow):
			if v.plain {
				return "", nil, nil, errLink
			}
			if links++; links > maxLinks {
				return "", nil, nil, syscall.ELOOP
			}
			if path.IsAbs(next.target) {
				at, nodes = nil, nodes[:1]
			}
			todo = append(strings.Split(next.target, "/"), todo...)
			continue
		case last:
			real = "/" + strings.Join(append(at, part), "/")
			if v.within != "" && !below(v.within, real) {
				return "", nil, nil, errEscape
			}
			return real, here, next, nil
		}
		at, nodes = append(at, part), append(nodes, next)
	}
	real = "/" + strings.Join(at, "/")
	if v.within != "" && !below(v.within, real) {
		return "", nil, nil, errEscape
	}
	return real, nil, nodes[len(nodes)-1], nil
}

// existing returns the node of a path, or an error.
func (v view) existing(name string, follow bool) (string, *node, error) {
	real, _, n, err := v.find(name, follow)
	if err == nil && n == nil {
		err = syscall.ENOENT
	}
	return real, n, err
}

// change calls do with the folder and the name of what a path stands for, which
// do may change. A missing folder, a root and a read-only mount are errors.
func (v view) change(name string, follow bool, do func(dir *node, base string, n *node) error) error {
	v.e.disk.Lock()
	defer v.e.disk.Unlock()
	real, dir, n, err := v.find(name, follow)
	switch {
	case err != nil:
		return err
	case dir == nil || real == v.within:
		return syscall.EBUSY
	case slices.ContainsFunc(v.readOnly, func(mount string) bool { return below(mount, real) }):
		return syscall.EROFS
	case dir.mode&writable == 0:
		return syscall.EACCES
	}
	if err := do(dir, path.Base(real), n); err != nil {
		return err
	}
	dir.modified = time.Now()
	return nil
}

// A nodeInfo describes a node as it was.
type nodeInfo struct {
	name     string
	size     int64
	mode     fs.FileMode
	modified time.Time
}

func (i nodeInfo) Name() string       { return i.name }
func (i nodeInfo) Size() int64        { return i.size }
func (i nodeInfo) Mode() fs.FileMode  { return i.mode }
func (i nodeInfo) ModTime() time.Time { return i.modified }
func (i nodeInfo) IsDir() bool        { return i.mode.IsDir() }
func (i nodeInfo) Sys() any           { return nil }

func (n *node) info(name string) nodeInfo {
	return nodeInfo{name, int64(max(len(n.data), len(n.target))), n.mode, n.modified}
}

// stat describes a file; link describes a link itself.
func (v view) stat(name string, link bool) (fs.FileInfo, error) {
	v.e.disk.RLock()
	defer v.e.disk.RUnlock()
	_, n, err := v.existing(name, !link)
	if err != nil {
		return nil, err
	}
	return n.info(path.Base(path.Clean(name))), nil
}

func (v view) readDir(name string) ([]fs.DirEntry, error) {
	v.e.disk.RLock()
	defer v.e.disk.RUnlock()
	_, n, err := v.existing(name, true)
	if err != nil {
		return nil, err
	}
	switch {
	case !n.mode.IsDir():
		return nil, syscall.ENOTDIR
	case n.mode&readable == 0:
		return nil, syscall.EACCES
	}
	list := []fs.DirEntry{}
	for _, base := range slices.Sorted(maps.Keys(n.children)) {
		list = append(list, fs.FileInfoToDirEntry(n.children[base].info(base)))
	}
	return list, nil
}

// read returns the content of a file as it is.
func (v view) read(name string) ([]byte, error) {
	v.e.disk.RLock()
	defer v.e.disk.RUnlock()
	_, n, err := v.existing(name, true)
	switch {
	case err != nil:
		return nil, err
	case n.mode.IsDir():
		return nil, syscall.EISDIR
	case !n.mode.IsRegular() && !strings.HasPrefix(name, "/dev/"):
		return nil, syscall.EOPNOTSUPP
	case n.mode&readable == 0:
		return nil, syscall.EACCES
	}
	return slices.Clone(n.data), nil
}

// replace gives a path a new file, and makes its missing parents.
func (v view) replace(name string, data []byte, perm fs.FileMode, exclusive bool) error {
	if err := v.mkdirAll(path.Dir(name)); err != nil {
		return err
	}
	return v.change(name, !exclusive, func(dir *node, base string, n *node) error {
		switch {
		case n != nil && exclusive:
			return syscall.EEXIST
		case n != nil && n.mode.IsDir():
			return syscall.EISDIR
		case n != nil && !n.mode.IsRegular():
			return syscall.EOPNOTSUPP
		case n != nil:
			perm = n.mode.Perm()
		}
		for target, size := range v.sizes {
			if _, mount, err := v.existing(target, false); err == nil && below(target, name) && mount.size()+len(data) > int(size) {
				return syscall.ENOSPC
			}
		}
		dir.children[base] = newNode(perm)
		dir.children[base].data = data
		return nil
	})
}

// size is how much content lies in n and below it.
func (n *node) size() int {
	sum := len(n.data)
	for _, c := range n.children {
		sum += c.size()
	}
	return sum
}

// mkdir makes a folder, symlink a link.
func (v view) mkdir(name string, perm fs.FileMode) error {
	return v.make(name, newNode(fs.ModeDir|perm))
}

// mkdirAll makes a folder and its missing parents in the mount.
func (v view) mkdirAll(name string) error {
	for i := 1; i <= len(name); i++ {
		if i < len(name) && name[i] != '/' || v.within != "" && !below(v.within, name[:i]) {
			continue
		}
		info, err := v.stat(name[:i], false)
		switch {
		case err == syscall.ENOENT:
			err = v.mkdir(name[:i], 0o755)
		case err == nil && !info.IsDir():
			err = syscall.ENOTDIR
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (v view) symlink(target, name string) error {
	n := newNode(fs.ModeSymlink | 0o777)
	n.target = target
	return v.make(name, n)
}

func (v view) make(name string, made *node) error {
	return v.change(name, false, func(dir *node, base string, n *node) error {
		if n != nil {
			return syscall.EEXIST
		}
		dir.children[base] = made
		return nil
	})
}

// remove removes a file, a link or an empty folder, with recursive a tree, and
// with open also a tree with closed folders.
func (v view) remove(name string, recursive, open bool) error {
	if _, _, _, err := v.locked(name); err != nil { // before what its folder forbids
		return err
	}
	return v.change(name, false, func(dir *node, base string, n *node) error {
		switch {
		case n == nil:
			return syscall.ENOENT
		case len(n.children) > 0 && !recursive:
			return syscall.ENOTEMPTY
		case !open && n.closed():
			return syscall.EACCES
		}
		delete(dir.children, base)
		return nil
	})
}

// closed reports whether something below n cannot be removed.
func (n *node) closed() bool {
	if len(n.children) > 0 && n.mode&(readable|writable|searchable) != readable|writable|searchable {
		return true
	}
	for _, c := range n.children {
		if c.closed() {
			return true
		}
	}
	return false
}

func (v view) rename(from, to string) error {
	real, _, n, err := v.locked(from)
	if err != nil {
		return err
	}
	err = v.change(to, false, func(dir *node, base string, old *node) error {
		switch {
		case old == n:
			return nil
		case old != nil && old.mode.IsDir() && !n.mode.IsDir():
			return syscall.EISDIR
		case old != nil && n.mode.IsDir() && !old.mode.IsDir():
			return syscall.ENOTDIR
		case old != nil && len(old.children) > 0:
			return syscall.ENOTEMPTY
		}
		if there, _, _, err := v.find(to, false); err == nil && there != real && below(real, there) {
			return syscall.EINVAL
		}
		dir.children[base] = n
		return nil
	})
	if err != nil {
		return err
	}
	return v.change(from, false, func(dir *node, base string, had *node) error {
		if there, _, _, err := v.find(to, false); err == nil && there != real && had == n {
			delete(dir.children, base)
		}
		return nil
	})
}

// locked is find of what exists, with the lock held meanwhile.
func (v view) locked(name string) (string, *node, *node, error) {
	v.e.disk.RLock()
	defer v.e.disk.RUnlock()
	real, dir, n, err := v.find(name, false)
	if err == nil && n == nil {
		err = syscall.ENOENT
	}
	return real, dir, n, err
}

// A memFile is an open file of a program.
type memFile struct {
	e      *Engine
	n      *node
	offset int
	append bool
}

// create opens a file for writing, as a redirection does.
func (v view) create(name string, truncate, atEnd bool) (*memFile, error) {
	f := &memFile{e: v.e, append: atEnd}
	err := v.change(name, true, func(dir *node, base string, n *node) error {
		switch {
		case n == nil:
			n = newNode(0o644)
			dir.children[base] = n
		case n.mode.IsDir():
			return syscall.EISDIR
		case truncate:
			n.data, n.modified = nil, time.Now()
		}
		f.n = n
		return nil
	})
	return f, err
}

func (f *memFile) Write(b []byte) (int, error) {
	f.e.disk.Lock()
	defer f.e.disk.Unlock()
	if f.n.mode&fs.ModeDevice != 0 {
		return len(b), nil
	}
	if f.append {
		f.offset = len(f.n.data)
	}
	if end := f.offset + len(b); end > len(f.n.data) {
		f.n.data = append(f.n.data, make([]byte, end-len(f.n.data))...)
	}
	f.offset += copy(f.n.data[f.offset:], b)
	f.n.modified = time.Now()
	return len(b), nil
}

func (f *memFile) Read([]byte) (int, error) { return 0, io.EOF }
func (f *memFile) Close() error             { return nil }
