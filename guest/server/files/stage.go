//go:build linux

package files

import (
	"sync"

	"golang.org/x/sys/unix"
)

// writebackEvery is how many bytes are written between two requests to the
// kernel to begin with bringing them to the disk, so that little is left to
// do at the end.
const writebackEvery = 4 << 20

// A Staged file is the new content of a file on its way. It has no name
// until all of it is there, where the file system can do that, and then one
// for a moment; elsewhere it has a name of the form .sbx-*.tmp beside the
// file, and is left behind only when this process is killed. It must be
// ended by Close. Its methods are not safe for concurrent use.
type Staged struct {
	root      *Root
	place     place
	perm      uint32
	exclusive bool

	fd      int
	temp    string // its name in the folder, or empty
	size    int64
	flushed int64 // how much the kernel was asked to write back
}

// Stage begins to replace the content of what rel leads to, or with
// exclusive to make rel, which must not exist in any form. Missing folders
// are made. A file that is there keeps its permission bits, a new one gets
// perm.
func (r *Root) Stage(rel string, perm uint32, exclusive bool) (*Staged, error) {
	if r.single != "" && rel == "" {
		return nil, unix.EOPNOTSUPP // there is no folder to rename in
	}
	p, err := r.parent(rel, true)
	if err != nil {
		return nil, err
	}
	s := &Staged{root: r, place: p, perm: perm, exclusive: exclusive, fd: -1}
	if err = s.settle(rel); err == nil {
		err = s.create()
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// settle finds out where the content belongs and which permission bits it
// gets.
func (s *Staged) settle(rel string) error {
	if s.place.base == "." {
		if s.exclusive {
			return unix.EEXIST
		}
		return unix.EISDIR
	}
	for range maxTries {
		st, err := lstat(s.place.dir, s.place.base)
		switch {
		case err == unix.ENOENT:
			return nil
		case err != nil:
			return err
		case s.exclusive:
			return unix.EEXIST
		case kind(&st) == unix.S_IFDIR:
			return unix.EISDIR
		case kind(&st) == unix.S_IFREG:
			s.perm = st.Mode & 0o777
			// A hint only: what counts is the folder, as with rename(2). But
			// a command could not write to a file without this permission.
			return unix.Faccessat(s.place.dir, s.place.base, unix.W_OK, 0)
		case kind(&st) != unix.S_IFLNK:
			return ErrIrregular
		case s.root.plain:
			return ErrLink
		}
		p, err := s.root.follow(rel, true)
		if err != nil {
			return err
		}
		s.place.close()
		if s.place = p; p.base == "." {
			return unix.EISDIR
		}
	}
	return unix.EAGAIN
}

// create makes the file that takes the content.
func (s *Staged) create() error {
	if !s.root.named.Load() {
		fd, err := unix.Openat(s.place.dir, ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
		if err == nil || !cannot(err) {
			s.fd = fd
			return err
		}
		s.root.named.Store(true)
	}
	temp, err := randomName()
	if err != nil {
		return err
	}
	s.root.staging.add(temp, false)
	s.fd, err = unix.Openat(s.place.dir, temp, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err == nil {
		s.temp = temp
	}
	return err
}

// cannot reports whether err says that the file system, or the kernel, does
// not know what it was asked for.
func cannot(err error) bool {
	switch err {
	case unix.EOPNOTSUPP, unix.EISDIR, unix.EINVAL, unix.ENOSYS, unix.ENOTTY:
		return true
	}
	return false
}

// Write appends b.
func (s *Staged) Write(b []byte) (int, error) {
	for done := 0; done < len(b); {
		n, err := unix.Write(s.fd, b[done:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return done, err
		}
		done += n
		s.size += int64(n)
	}
	if s.size-s.flushed >= writebackEvery {
		// Only a hint; the end waits for everything.
		_ = unix.SyncFileRange(s.fd, s.flushed, s.size-s.flushed, unix.SYNC_FILE_RANGE_WRITE)
		s.flushed = s.size
	}
	return len(b), nil
}

// Commit brings the content to the disk and puts it in its place as one
// step. Just before that it calls ready; an error of ready ends it.
func (s *Staged) Commit(ready func() error) error {
	if err := unix.Fchmod(s.fd, s.perm); err != nil {
		return err
	}
	if err := fsync(s.fd); err != nil {
		return err
	}
	if err := ready(); err != nil {
		return err
	}
	if err := s.put(); err != nil {
		return err
	}
	s.temp = ""
	return s.syncFolder()
}

// put gives the file its name.
func (s *Staged) put() error {
	dir, base := s.place.dir, s.place.base
	if s.temp == "" && s.exclusive {
		return s.name(base)
	}
	if s.temp == "" {
		temp, err := randomName()
		if err != nil {
			return err
		}
		s.root.staging.add(temp, false)
		if err := s.name(temp); err != nil {
			return err
		}
		s.temp = temp
	}
	// User code may have put something else in its place.
	var own unix.Stat_t
	if err := unix.Fstat(s.fd, &own); err != nil {
		return err
	}
	if st, err := lstat(dir, s.temp); err != nil || !same(&st, &own) {
		s.temp = "" // what is there now is not ours to remove
		return ErrSwapped
	}
	if !s.exclusive {
		if _, err := lstat(dir, base); err == nil {
			s.root.staging.add(s.temp, true)
		}
		return unix.Renameat(dir, s.temp, dir, base)
	}
	err := unix.Renameat2(dir, s.temp, dir, base, unix.RENAME_NOREPLACE)
	if !cannot(err) {
		return err
	}
	if err := unix.Linkat(dir, s.temp, dir, base, 0); err != nil {
		return err
	}
	return unix.Unlinkat(dir, s.temp, 0)
}

// name gives a file without name the name base, which must not exist. The
// path through /proc is our own and needs no privilege.
func (s *Staged) name(base string) error {
	err := unix.Linkat(unix.AT_FDCWD, procFD(s.fd), s.place.dir, base, unix.AT_SYMLINK_FOLLOW)
	if err == unix.EPERM || err == unix.EXDEV || cannot(err) {
		s.root.named.Store(true) // the next try does without
		return unix.EAGAIN
	}
	return err
}

// syncFolder brings the name to the disk.
func (s *Staged) syncFolder() error {
	fd, err := openat(s.place.dir, ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err == unix.EACCES { // a folder that may be written and not read
		return unix.Syncfs(s.fd)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return fsync(fd)
}

// fsync brings fd to the disk. A file system that has nothing to bring
// there says EINVAL.
func fsync(fd int) error {
	for {
		err := unix.Fsync(fd)
		switch err {
		case unix.EINTR:
		case unix.EINVAL, unix.EOPNOTSUPP:
			return nil
		default:
			return err
		}
	}
}

// Close ends it. What was not committed goes away.
func (s *Staged) Close() {
	if s.temp != "" {
		_ = unix.Unlinkat(s.place.dir, s.temp, 0) // may have been moved or removed
	}
	if s.fd >= 0 {
		unix.Close(s.fd)
	}
	s.place.close()
}

// maxStaging is how many names are kept, so that a watch that is late still knows
// them.
const maxStaging = 8 << 10

// staging knows the names that content on its way has or has had, so that a watch
// reports the file and not how it came to be. The zero value is ready, and it is
// safe for concurrent use.
type staging struct {
	mu    sync.Mutex
	names map[string]bool // and whether there was such a file before
	order []string        // as a ring
	next  int
}

func (s *staging) add(name string, replaces bool) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names == nil {
		s.names = map[string]bool{}
	}
	if _, known := s.names[name]; !known {
		if len(s.order) < maxStaging {
			s.order = append(s.order, name)
		} else {
			delete(s.names, s.order[s.next])
			s.order[s.next] = name
			s.next = (s.next + 1) % maxStaging
		}
	}
	s.names[name] = replaces
}

func (s *staging) find(name string) (known, replaces bool) {
	if s == nil {
		return false, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	replaces, known = s.names[name]
	return known, replaces
}
