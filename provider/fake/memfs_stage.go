package fake

import (
	"io/fs"
	"syscall"
)

// A Staged is content that has no name yet. It takes room on its volume.
// Exactly one of Commit and Discard ends it.
type memfsStaged struct {
	*memfsHandle
	v    memfsView
	name string
	perm fs.FileMode
	only bool
}

// Stage begins to replace the file that name leads to, or to make it with
// perm, and makes missing folders with mode 0755. With exclusive nothing of
// that name, not even a dangling link, may exist. What replaced a file keeps
// its mode.
func (v memfsView) Stage(name string, perm fs.FileMode, exclusive bool) (*memfsStaged, error) {
	v.f.disk.mu.Lock()
	defer v.f.disk.mu.Unlock()
	at, err := v.target(name, exclusive)
	if err != nil {
		return nil, err
	}
	n := at.dir.n.vol.newNode(perm.Perm(), v.f.uid)
	h := &memfsHandle{n: n, flags: memfsWrite}
	return &memfsStaged{memfsHandle: h, v: v, name: name, perm: perm, only: exclusive}, nil
}

// target finds what a write is going to replace, with its folder.
func (v memfsView) target(name string, exclusive bool) (found, error) {
	at, err := v.find(name, !exclusive)
	if err == syscall.ENOENT {
		if err = v.makeParents(name); err == nil {
			at, err = v.find(name, !exclusive)
		}
	}
	switch {
	case err != nil:
		return found{}, err
	case at.at.n == nil:
	case exclusive:
		return found{}, syscall.EEXIST
	case at.at.n.mode.IsDir():
		return found{}, syscall.EISDIR
	case !at.at.n.mode.IsRegular():
		return found{}, syscall.EOPNOTSUPP
	case at.dir.m.readOnly:
		return found{}, syscall.EROFS
	case !v.f.may(at.at.n, 2):
		return found{}, syscall.EACCES
	}
	return at, v.changeable(at)
}

// makeParents makes the folders on the way to name.
func (v memfsView) makeParents(name string) error {
	for i := 1; i < len(name); i++ {
		if name[i] != '/' || name[i-1] == '/' {
			continue
		}
		at, err := v.f.walkAs(name[:i], true, v.plain)
		if err != nil {
			return err
		}
		if at.at.n != nil {
			continue
		}
		if v.keep != nil && at.dir.m != v.keep {
			return errEscape
		}
		if err := v.changeable(at); err != nil {
			return err
		}
		at.dir.n.put(at.name, at.dir.n.vol.newNode(fs.ModeDir|0o755, v.f.uid))
	}
	return nil
}

// Commit gives the content its name in one step.
func (s *memfsStaged) Commit() error {
	d := s.v.f.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	s.closed = true
	at, err := s.v.target(s.name, s.only)
	if err == nil && at.dir.n.vol != s.n.vol {
		err = syscall.EXDEV // the folder was moved to another volume
	}
	if err != nil {
		s.n.release()
		return err
	}
	if old := at.at.n; old != nil {
		s.n.mode = old.mode
		at.dir.n.drop(at.name).release()
	}
	at.dir.n.put(at.name, s.n)
	return nil
}

// Discard drops the content.
func (s *memfsStaged) Discard() { _ = s.Close() }
