package wire

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// errFile means that a descriptor is not one of a file in memory, or that
// there is too much in it.
var errFile = errors.New("a descriptor is not that of a small file in memory")

// Open makes a file of a descriptor that a stranger has sent. It takes files
// in memory only (memfd_create), of at most most bytes. What it looks at is in
// the kernel's hands: no descriptor can make it wait. With an error the
// descriptor stays open.
func Open(fd int, most int64) (*os.File, error) {
	// First, because nothing else is known to be harmless: a file system in
	// user space answers any other question when it likes.
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0); err != nil {
		return nil, errFile
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size > most {
		return nil, errFile
	}
	return os.NewFile(uintptr(fd), "state"), nil
}

// Sealed returns a new file in memory with content, which cannot be changed.
func Sealed(content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("state", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "state")
	if _, err = f.WriteAt(content, 0); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
