package fake

import (
	"cmp"
	"io/fs"
	"path"
	"slices"
	"syscall"
)

// A View does operations. Paths are absolute. Errors are errnos, or
// [ErrEscape].
type memfsView struct {
	f     *memfsFS
	keep  *mount // paths must end in this mount; nil for anywhere
	plain bool   // no link is followed
}

// Free returns the view of a program inside.
func (f *memfsFS) Free() memfsView { return memfsView{f: f} }

// Confined returns the view of a tool that may touch only the mount at
// target: links that end elsewhere are not followed there.
func (f *memfsFS) Confined(target string) (memfsView, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	at, err := f.walk(target, false)
	switch {
	case err != nil:
		return memfsView{}, err
	case at.at.n == nil:
		return memfsView{}, syscall.ENOENT
	case at.at.n != at.at.m.root:
		return memfsView{}, syscall.EINVAL
	}
	return memfsView{f: f, keep: at.at.m}, nil
}

// WithoutLinks returns v as one that follows no link: what would be followed is
// [ErrLink].
func (v memfsView) WithoutLinks() memfsView {
	v.plain = true
	return v
}

// find walks and holds the confinement. The caller holds Disk.mu.
func (v memfsView) find(name string, follow bool) (found, error) {
	at, err := v.f.walkAs(name, follow, v.plain)
	if err != nil {
		return found{}, err
	}
	if v.keep != nil && (at.dir.m != v.keep || at.at.n != nil && at.at.m != v.keep) {
		return found{}, errEscape
	}
	return at, nil
}

// existing finds what must be there.
func (v memfsView) existing(name string, follow bool) (found, error) {
	at, err := v.find(name, follow)
	if err == nil && at.at.n == nil {
		err = syscall.ENOENT
	}
	return at, err
}

// changeable holds that names in the folder of at can be changed.
func (v memfsView) changeable(at found) error {
	switch {
	case at.dir.m.readOnly:
		return syscall.EROFS
	case at.name == "":
		return syscall.EBUSY
	case !v.f.may(at.dir.n, 3):
		return syscall.EACCES
	}
	return nil
}

// Stat describes what name leads to, under the name it was asked by.
func (v memfsView) Stat(name string) (fs.FileInfo, error) { return v.stat(name, true) }

// Lstat describes name itself.
func (v memfsView) Lstat(name string) (fs.FileInfo, error) { return v.stat(name, false) }

func (v memfsView) stat(name string, follow bool) (fs.FileInfo, error) {
	v.f.disk.mu.Lock()
	defer v.f.disk.mu.Unlock()
	at, err := v.existing(name, follow)
	if err != nil {
		return nil, err
	}
	return at.at.n.info(path.Base(name)), nil
}

// Real returns the path without links of the folder name.
func (v memfsView) Real(name string) (string, error) {
	v.f.disk.mu.Lock()
	defer v.f.disk.mu.Unlock()
	at, err := v.existing(name, true)
	switch {
	case err != nil:
		return "", err
	case !at.at.n.mode.IsDir():
		return "", syscall.ENOTDIR
	case !v.f.may(at.at.n, 1):
		return "", syscall.EACCES
	}
	real := ""
	for p := at.at; ; {
		for p.n == p.m.root && p.m != v.f.root {
			p = p.m.over
		}
		if p.n == v.f.root.root {
			return "/" + real, nil
		}
		parent := position{p.m, p.n.parent}
		for name, child := range parent.n.entries {
			if child == p.n {
				real = path.Join(name, real)
			}
		}
		p = parent
	}
}

// ReadDir returns the entries of a folder, sorted by name.
func (v memfsView) ReadDir(name string) ([]fs.DirEntry, error) {
	v.f.disk.mu.Lock()
	defer v.f.disk.mu.Unlock()
	at, err := v.existing(name, true)
	switch {
	case err != nil:
		return nil, err
	case !at.at.n.mode.IsDir():
		return nil, syscall.ENOTDIR
	case !v.f.may(at.at.n, 4):
		return nil, syscall.EACCES
	}
	list := make([]fs.DirEntry, 0, len(at.at.n.entries))
	for name, child := range at.at.n.entries {
		p := v.f.enter(position{at.at.m, child})
		list = append(list, fs.FileInfoToDirEntry(p.n.info(name)))
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return list, nil
}

// ReadLink returns what a link points to.
func (v memfsView) ReadLink(name string) (string, error) {
	v.f.disk.mu.Lock()
	defer v.f.disk.mu.Unlock()
	at, err := v.existing(name, false)
	switch {
	case err != nil:
		return "", err
	case at.at.n.mode.Type() != fs.ModeSymlink:
		return "", syscall.EINVAL
	}
	return at.at.n.target, nil
}

// Chmod sets the permission bits of what name leads to.
func (v memfsView) Chmod(name string, perm fs.FileMode) error {
	v.f.disk.mu.Lock()
	defer v.f.disk.mu.Unlock()
	at, err := v.existing(name, true)
	switch {
	case err != nil:
		return err
	case at.at.m.readOnly:
		return syscall.EROFS
	case at.at.n.uid != v.f.uid:
		return syscall.EPERM
	}
	at.at.n.mode = at.at.n.mode.Type() | perm&(fs.ModePerm|fs.ModeSticky)
	return nil
}

// Touch sets the time of what name leads to, or makes an empty file.
func (v memfsView) Touch(name string, perm fs.FileMode) error {
	h, err := v.Open(name, memfsAppend|memfsCreate, perm)
	if err != nil {
		if _, is := v.Stat(name); is == nil && err == syscall.EISDIR {
			return nil
		}
		return err
	}
	v.f.disk.mu.Lock()
	h.n.touch()
	v.f.disk.mu.Unlock()
	return h.Close()
}

// Access holds that the user has the permission bits want (4 read, 2 write, 1
// search) for what name leads to.
func (v memfsView) Access(name string, want fs.FileMode) error {
	v.f.disk.mu.Lock()
	defer v.f.disk.mu.Unlock()
	at, err := v.existing(name, true)
	switch {
	case err != nil:
		return err
	case want&2 != 0 && at.at.m.readOnly:
		return syscall.EROFS
	case !v.f.may(at.at.n, want):
		return syscall.EACCES
	}
	return nil
}
