//go:build linux

package files

import "golang.org/x/sys/unix"

const (
	// openLevels is how many folders of a branch a removal keeps open.
	openLevels = 32
	// maxLevels is how many it remembers. Of a deeper branch it forgets the
	// upper half, and comes back for that from the top.
	maxLevels = 4096
	// maxRounds bounds how often it starts from the top, and how often it comes
	// back to a folder that another process keeps filling.
	maxRounds = 1000
	// pauseEvery is how many names it removes between two pauses.
	pauseEvery = 128
)

// RemoveAll removes what is at rel and, when that is a folder, everything in
// it. It never follows a link, and stops at the first thing that cannot be
// removed; another mount is such a thing. It calls pause again and again; an
// error of pause ends it.
func (r *Root) RemoveAll(rel string, pause func() error) error { return r.removeAll(rel, false, pause) }

// Clear is RemoveAll that also opens folders which their owner, our user, has
// made inaccessible to itself.
func (r *Root) Clear(rel string, pause func() error) error { return r.removeAll(rel, true, pause) }

func (r *Root) removeAll(rel string, opens bool, pause func() error) error {
	p, err := r.change(rel, unix.EBUSY)
	if err != nil {
		return err
	}
	defer p.close()
	s := &sweep{k: r.k, top: p, opens: opens, pause: pause}
	defer s.drop(0)
	for range maxRounds {
		err := unlink(p.dir, p.base, unix.DT_UNKNOWN)
		if err != unix.ENOTEMPTY {
			return err
		}
		if err := s.run(); err != nil {
			return err
		}
	}
	return unix.ENOTEMPTY
}

// A sweep empties a folder and everything below, however deep: what it
// holds is bounded. It descends by descriptors. It ascends by them too, or
// by ".." when it has closed the folder above; then it makes sure that this
// is the folder it came from, because user code may have moved the branch.
type sweep struct {
	k       Kernel
	top     place
	opens   bool // folders that are closed
	pause   func() error
	levels  []*level // from the top down to where it works
	removed int
}

// A level is a folder on the way down.
type level struct {
	name   string // in the folder above
	fd     int    // -1 when it was closed
	st     unix.Stat_t
	scan   scan
	rounds int
}

// run empties what it can. It returns nil when that is all, or when it has
// to start from the top again.
func (s *sweep) run() error {
	defer s.drop(0)
	if err := s.descend(s.top.dir, s.top.base); err != nil {
		return ignoreGone(err)
	}
	for len(s.levels) > 0 {
		l := s.levels[len(s.levels)-1]
		below, err := s.clear(l)
		if err != nil {
			return err
		}
		if below != "" {
			if err := ignoreGone(s.descend(l.fd, below)); err != nil {
				return err
			}
			continue
		}
		if up, err := s.ascend(); err != nil || !up {
			return err
		}
	}
	return nil
}

// ignoreGone makes nothing of what has gone, or become something that can be
// removed without descending.
func ignoreGone(err error) error {
	if err == unix.ENOENT || err == unix.ENOTDIR || err == unix.ELOOP {
		return nil
	}
	return err
}

// clear removes names until it finds a folder that is not empty.
func (s *sweep) clear(l *level) (below string, err error) {
	for {
		name, kind, err := l.scan.next(l.fd)
		if err != nil || name == "" {
			return "", err
		}
		if err := unlink(l.fd, name, kind); err == unix.ENOTEMPTY {
			return name, nil
		} else if err != nil && err != unix.ENOENT {
			return "", err
		}
		if s.removed++; s.removed%pauseEvery == 0 {
			if err := s.pause(); err != nil {
				return "", err
			}
		}
	}
}

// descend opens the folder name in the folder dir.
func (s *sweep) descend(dir int, name string) error {
	if err := s.pause(); err != nil {
		return err
	}
	var outer unix.Stat_t
	if err := unix.Fstat(dir, &outer); err != nil {
		return err
	}
	fd, err := s.enter(dir, name)
	if err == unix.EACCES && s.opens {
		if err = s.unlock(dir, name, outer.Dev); err == nil {
			fd, err = s.enter(dir, name)
		}
	}
	if err != nil {
		return err
	}
	l := &level{name: name, fd: fd}
	if err = unix.Fstat(fd, &l.st); err == nil && outer.Dev != l.st.Dev {
		err = unix.EBUSY // another mount
	}
	if err == nil && s.opens && l.st.Mode&0o700 != 0o700 {
		err = unix.Fchmod(fd, 0o700)
	}
	if err != nil {
		unix.Close(fd)
		return err
	}
	if len(s.levels) >= maxLevels {
		s.drop(maxLevels / 2)
	}
	s.levels = append(s.levels, l)
	if n := len(s.levels) - openLevels; n > 0 {
		s.levels[n-1].close()
	}
	return nil
}

// enter opens the folder name in the folder dir, unless it is another mount.
func (s *sweep) enter(dir int, name string) (int, error) {
	fd, err := s.k.openat2(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, unix.RESOLVE_NO_XDEV|unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_BENEATH)
	if err == unix.ENOSYS {
		fd, err = openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY)
	}
	if err == unix.EXDEV {
		err = unix.EBUSY
	}
	return fd, err
}

// unlock opens a folder that its owner has closed to himself. What is changed
// is what was looked at, by its descriptor, and never what a link leads to.
func (s *sweep) unlock(dir int, name string, device uint64) error {
	if !s.k.Proc {
		return unix.EACCES
	}
	fd, err := openat(dir, name, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Dev != device {
		return unix.EBUSY // another mount
	}
	return unix.Chmod(procFD(fd), 0o700)
}

func (l *level) close() {
	if l.fd >= 0 {
		unix.Close(l.fd)
		l.fd, l.scan = -1, scan{}
	}
}

// drop forgets the uppermost levels; 0 means all.
func (s *sweep) drop(n int) {
	if n == 0 {
		n = len(s.levels)
	}
	for _, l := range s.levels[:n] {
		l.close()
	}
	s.levels = append([]*level(nil), s.levels[n:]...)
}

// ascend leaves the lowest level, which looks empty, and removes it. It
// reports whether it could: with false it has to start from the top.
func (s *sweep) ascend() (bool, error) {
	l := s.levels[len(s.levels)-1]
	if len(s.levels) == 1 {
		return false, nil // the top, or below levels that were dropped
	}
	above := s.levels[len(s.levels)-2]
	if above.fd < 0 {
		fd, err := openat(l.fd, "..", unix.O_RDONLY|unix.O_DIRECTORY)
		if err != nil {
			return false, ignoreGone(err)
		}
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil || !same(&st, &above.st) {
			unix.Close(fd)
			return false, err // the branch was moved
		}
		above.fd = fd
	}
	l.close()
	s.levels = s.levels[:len(s.levels)-1]
	err := unlink(above.fd, l.name, unix.DT_DIR)
	if err == unix.ENOTEMPTY {
		// Another process has added an entry. The next round finds it.
		if above.rounds++; above.rounds > maxRounds {
			return false, err
		}
		if _, err := unix.Seek(above.fd, 0, 0); err != nil {
			return false, err
		}
		above.scan = scan{}
		return true, nil
	}
	if err == unix.ENOENT {
		err = nil
	}
	return true, err
}
