package hostscan

import (
	"crypto/sha256"
	"encoding/binary"
	"path/filepath"

	"github.com/bulkhead-dev/sandbox/internal/hostpath"

	"golang.org/x/sys/unix"
)

// heldName is the file that the locks of those who use stubs are on. It is not
// the one that guards the records: some systems keep both kinds of locks in one
// place.
const heldName = "held"

// openLocks opens the file of the locks. What is locked by way of it counts as
// one holder, until it is closed, by a kill -9 too.
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

// at describes the lock of the stub at path: a byte whose place is a digest of
// the path. Two paths at one place would have their stubs stay until both are
// given up.
func at(path string, kind int16) *unix.Flock_t {
	sum := sha256.Sum256([]byte(path))
	return &unix.Flock_t{Type: kind, Start: int64(binary.BigEndian.Uint64(sum[:]) >> 2), Len: 1}
}

// hold adds the lock of the stub at path to locks. The caller has locked the
// folder of records; no other lock is exclusive, so there is nothing to wait
// for.
func hold(locks int, path string) error {
	return hostpath.Retry(func() error { return unix.FcntlFlock(uintptr(locks), setLock, at(path, unix.F_RDLCK)) })
}

// isHeld reports whether another than locks holds the stub at path. The caller
// has locked the folder of records, so that this stays so as long as no holder
// gives it up.
func isHeld(locks int, path string) (bool, error) {
	l := at(path, unix.F_WRLCK)
	err := hostpath.Retry(func() error { return unix.FcntlFlock(uintptr(locks), getLock, l) })
	return l.Type != unix.F_UNLCK, err
}

// letGo removes every lock of locks.
func letGo(locks int) error {
	return hostpath.Retry(func() error { return unix.FcntlFlock(uintptr(locks), setLock, &unix.Flock_t{Type: unix.F_UNLCK}) })
}
