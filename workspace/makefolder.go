package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"golang.org/x/sys/unix"
)

// makeFolder opens the folder at the canonical path and makes what is missing
// of it, mode 0755. It goes from folder to folder by descriptors and follows
// no link, so that nothing is ever made anywhere else. made reports whether
// the folder itself is new; of two processes at once one makes it. Without
// read the folder is opened for its identity alone and need not be readable.
func makeFolder(path string, read bool) (f *os.File, made bool, err error) {
	const how = unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := openAt(unix.AT_FDCWD, "/", how|searchOnly)
	if err != nil {
		return nil, false, statedir.Unavailable("open agent folder", path, err)
	}
	at := "/"
	parts := strings.Split(strings.Trim(path, "/"), "/")
	for i, part := range parts {
		if part == "" {
			break // the path is the root
		}
		mode := how | searchOnly
		if read && i == len(parts)-1 {
			mode = how
		}
		at = filepath.Join(at, part)
		err := unix.Mkdirat(fd, part, 0o755)
		made = err == nil
		if err != nil && !errors.Is(err, fs.ErrExist) {
			// An existing folder may be refused for other reasons first: a
			// file system that is read-only, a parent that is not ours.
			var st unix.Stat_t
			if unix.Fstatat(fd, part, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
				unix.Close(fd)
				return nil, false, statedir.Unavailable("make agent folder", at, err)
			}
		}
		next, err := openAt(fd, part, mode)
		if err != nil {
			err = notOpened(fd, part, at, err)
		}
		unix.Close(fd)
		if err != nil {
			return nil, false, err
		}
		fd = next
	}
	return os.NewFile(uintptr(fd), path), made, nil
}

// notOpened says why the entry part of the open folder fd, whose path is at,
// is not a folder that can be opened.
func notOpened(fd int, part, at string, cause error) error {
	var st unix.Stat_t
	if err := unix.Fstatat(fd, part, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return statedir.Unavailable("open agent folder", at, cause)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return statedir.Unavailable("open agent folder", at, cause)
	case unix.S_IFLNK:
		return agentError(sandbox.CodeCapabilityBlocked, at, at+" became a link while it was looked at")
	}
	return agentError(sandbox.CodeValidation, at, fmt.Sprintf("%s is not a folder", at))
}

// openAt is openat(2), tried again when a signal interrupts it.
func openAt(fd int, name string, flags int) (int, error) {
	for {
		got, err := unix.Openat(fd, name, flags, 0)
		if !errors.Is(err, unix.EINTR) {
			return got, err
		}
	}
}
