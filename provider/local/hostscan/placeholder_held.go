package hostscan

import (
	"crypto/sha256"
	"encoding/binary"
	"path/filepath"

	"github.com/bulkhead-dev/sandbox/internal/hostpath"

	"golang.org/x/sys/unix"
)

// heldName is the file with the locks of the users of stubs. It is not the file
// that guards the records, because some systems keep both kinds of locks in one
// table.
const heldName = "held"

// openLocks opens the lock file. All locks taken through one descriptor have
// one owner; they end when it is closed, which a kill -9 does too.
func (d *Placeholders) openLocks() (fd int, err error) {
	name := filepath.Join(d.path, heldName)
	err = hostpath.Retry(func() (err error) {
		fd, err = unix.Open(name, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		return err
	})
	if err != nil {
		return -1, placeholderFailed(name, err)
	}
	return fd, nil
}

// at returns the lock of the stub at path: one byte at an offset that is a
// digest of the path. If two paths share an offset, both stubs stay until both
// are released.
func at(path string, kind int16) *unix.Flock_t {
	sum := sha256.Sum256([]byte(path))
	return &unix.Flock_t{Type: kind, Start: int64(binary.BigEndian.Uint64(sum[:]) >> 2), Len: 1}
}

// hold adds the lock of the stub at path to locks. The caller has locked the
// folder of records; no other lock is exclusive, so hold never waits.
func hold(locks int, path string) error {
	return hostpath.Retry(func() error { return unix.FcntlFlock(uintptr(locks), setLock, at(path, unix.F_RDLCK)) })
}

// isHeld reports whether an owner other than locks holds the stub at path. The
// caller has locked the folder of records, so no other process can take the
// lock meanwhile.
func isHeld(locks int, path string) (bool, error) {
	l := at(path, unix.F_WRLCK)
	err := hostpath.Retry(func() error { return unix.FcntlFlock(uintptr(locks), getLock, l) })
	return l.Type != unix.F_UNLCK, err
}

// letGo releases every lock of locks.
func letGo(locks int) error {
	return hostpath.Retry(func() error { return unix.FcntlFlock(uintptr(locks), setLock, &unix.Flock_t{Type: unix.F_UNLCK}) })
}
