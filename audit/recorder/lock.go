package recorder

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// errHeld is why a lock cannot be taken now.
var errHeld = errors.New("the lock is held")

// tryLock takes the lock of an open file, LOCK_EX or LOCK_SH. flock(2) belongs to the open file, so
// that it works among the goroutines of a process as among processes.
func tryLock(f *os.File, how int) error {
	return control(f, func(fd int) error {
		err := unix.Flock(fd, how|unix.LOCK_NB)
		for errors.Is(err, unix.EINTR) {
			err = unix.Flock(fd, how|unix.LOCK_NB)
		}
		if errors.Is(err, unix.EWOULDBLOCK) {
			return errHeld
		}
		return err
	})
}

// letGo unlocks and closes the file. It unlocks explicitly: a program that is
// being started at this moment has a copy of the descriptor until it runs.
func letGo(f *os.File) error {
	err := control(f, func(fd int) error { return unix.Flock(fd, unix.LOCK_UN) })
	return errors.Join(err, f.Close())
}

func control(f *os.File, fn func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var result error
	if err := raw.Control(func(fd uintptr) { result = fn(int(fd)) }); err != nil {
		return err
	}
	return result
}

// leadsTo reports whether path leads to the open file.
func leadsTo(path string, f *os.File) (bool, error) {
	have, err := f.Stat()
	if err != nil {
		return false, err
	}
	want, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(have, want), err
}
