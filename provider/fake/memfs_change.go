package fake

import (
	"io/fs"
	"syscall"
)

// make enters a new node as name.
func (v memfsView) make(name string, mode fs.FileMode, target string) error {
	v.f.disk.mu.Lock()
	defer v.f.disk.mu.Unlock()
	at, err := v.find(name, false)
	if err != nil {
		return err
	}
	if at.at.n != nil {
		return syscall.EEXIST
	}
	if err := v.changeable(at); err != nil {
		return err
	}
	n := at.dir.n.vol.newNode(mode, v.f.uid)
	n.target = target
	at.dir.n.put(at.name, n)
	return nil
}

// Mkdir makes one folder.
func (v memfsView) Mkdir(name string, perm fs.FileMode) error {
	return v.make(trim(name), fs.ModeDir|perm.Perm(), "")
}

func trim(name string) string {
	for len(name) > 1 && name[len(name)-1] == '/' {
		name = name[:len(name)-1]
	}
	return name
}

// Symlink makes a link; an empty target is ENOENT as in symlink(2).
func (v memfsView) Symlink(target, name string) error {
	if target == "" {
		return syscall.ENOENT
	}
	return v.make(name, fs.ModeSymlink|0o777, target)
}

// Mkfifo makes the name of a pipe; nothing can be read from or written to it.
func (v memfsView) Mkfifo(name string, perm fs.FileMode) error {
	return v.make(name, fs.ModeNamedPipe|perm.Perm(), "")
}

// Link gives a file a second name.
func (v memfsView) Link(old, name string) error {
	v.f.disk.mu.Lock()
	defer v.f.disk.mu.Unlock()
	from, err := v.existing(old, false)
	if err != nil {
		return err
	}
	to, err := v.find(name, false)
	switch {
	case err != nil:
		return err
	case to.at.n != nil:
		return syscall.EEXIST
	case from.at.n.mode.IsDir():
		return syscall.EPERM
	case from.at.m != to.dir.m:
		return syscall.EXDEV
	}
	if err := v.changeable(to); err != nil {
		return err
	}
	from.at.n.links++
	to.dir.n.put(to.name, from.at.n)
	return nil
}

// Remove removes a file, a link itself or an empty folder; with tree also a
// full folder, where what cannot be removed stays and is the error.
func (v memfsView) Remove(name string, tree bool) error { return v.remove(name, tree, false) }

// Clear removes a tree and opens folders of the user that are closed to him.
func (v memfsView) Clear(name string) error { return v.remove(name, true, true) }

func (v memfsView) remove(name string, tree, opens bool) error {
	v.f.disk.mu.Lock()
	defer v.f.disk.mu.Unlock()
	at, err := v.existing(name, false)
	if err != nil {
		return err
	}
	if err := v.changeable(at); err != nil {
		return err
	}
	if tree {
		if err := v.empty(at.at, opens); err != nil {
			return err
		}
	}
	return v.unlink(at)
}

// unlink takes the name of a file or empty folder away.
func (v memfsView) unlink(at found) error {
	switch {
	case len(at.at.n.entries) > 0:
		return syscall.ENOTEMPTY
	case v.f.covered(at.at):
		return syscall.EBUSY
	}
	at.dir.n.drop(at.name).release()
	return nil
}

// covered reports whether something is mounted over p.
func (f *memfsFS) covered(p position) bool { return f.mounts[p.n] != nil && f.mounts[p.n].over == p }

// empty removes what is in a folder and goes on after the first failure.
func (v memfsView) empty(p position, opens bool) error {
	if !p.n.mode.IsDir() || len(p.n.entries) == 0 {
		return nil
	}
	if opens && p.n.uid == v.f.uid {
		p.n.mode |= 0o700
	}
	if !v.f.may(p.n, 7) {
		return syscall.EACCES
	}
	var first error
	for name, child := range p.n.entries {
		c := position{p.m, child}
		err := v.empty(c, opens)
		if err == nil {
			err = v.unlink(found{dir: p, name: name, at: c})
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// Rename moves a name and replaces what is at to, as rename(2) does.
func (v memfsView) Rename(from, to string) error {
	v.f.disk.mu.Lock()
	defer v.f.disk.mu.Unlock()
	a, err := v.existing(trim(from), false)
	if err != nil {
		return err
	}
	b, err := v.find(trim(to), false)
	if err != nil {
		return err
	}
	for _, at := range []found{a, b} {
		if err := v.changeable(at); err != nil {
			return err
		}
		if at.at.n != nil && v.f.covered(at.at) {
			return syscall.EBUSY
		}
	}
	if err := v.replaceable(a, b); err != nil {
		return err
	}
	if a.at.n == b.at.n {
		return nil
	}
	if b.at.n != nil {
		b.dir.n.drop(b.name).release()
	}
	b.dir.n.put(b.name, a.dir.n.drop(a.name))
	return nil
}

// replaceable holds that b can become a.
func (v memfsView) replaceable(a, b found) error {
	if a.dir.m != b.dir.m {
		return syscall.EXDEV
	}
	if a.at.n.mode.IsDir() {
		for p := b.dir.n; ; p = p.parent {
			if p == a.at.n {
				return syscall.EINVAL
			}
			if p == p.parent {
				break
			}
		}
	}
	switch old := b.at.n; {
	case old == nil:
		return nil
	case a.at.n.mode.IsDir() && !old.mode.IsDir():
		return syscall.ENOTDIR
	case !a.at.n.mode.IsDir() && old.mode.IsDir():
		return syscall.EISDIR
	case len(old.entries) > 0:
		return syscall.ENOTEMPTY
	}
	return nil
}
