package workspace

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// parent returns the folder rel of the workspace and makes what is missing,
// owned by the sandbox.
func (s *seeder) parent(rel string) (*os.Root, error) {
	dir, err := s.dst.OpenRoot(".")
	if err != nil || rel == "." {
		return dir, err
	}
	for part := range strings.SplitSeq(rel, "/") {
		err := dir.Mkdir(part, 0o755)
		made := err == nil
		var next *os.Root
		if err == nil || errors.Is(err, fs.ErrExist) {
			next, err = Dir(dir, part)
		}
		dir.Close()
		if err != nil {
			return nil, err
		}
		if made {
			if err := give(next, s.owner); err != nil {
				next.Close()
				return nil, err
			}
		}
		dir = next
	}
	return dir, nil
}

// give gives an open folder to o.
func give(dir *os.Root, o Owner) error {
	f, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	return errors.Join(f.Chmod(0o755), f.Chown(o.UID, o.GID))
}

// place writes the file base in dir in one step. The content is written to a
// temporary file that is new for certain, and ownership is changed through
// its descriptor, so code that runs in the workspace meanwhile can spoil its
// own file and reach no other. Without replace an existing file is
// fs.ErrExist, whenever it came to exist.
func place(dir *os.Root, base string, data []byte, mode fs.FileMode, o Owner, replace bool) error {
	tmp := ".sandbox-seed-" + rand.Text()
	f, err := dir.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Remove(tmp) }()
	_, err = f.Write(data)
	err = errors.Join(err, f.Chown(o.UID, o.GID), f.Chmod(mode), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if replace {
		return dir.Rename(tmp, base)
	}
	return dir.Link(tmp, base)
}

// reasonOf completes the sentence "<path> …" without naming host paths.
func reasonOf(err error) string {
	switch {
	case errors.Is(err, ErrChanged), errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR), isEscape(err):
		return ErrChanged.Error()
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return "there is no room left"
	case errors.Is(err, fs.ErrExist):
		return "appeared meanwhile"
	case errors.Is(err, fs.ErrNotExist):
		return "vanished meanwhile"
	case errors.Is(err, fs.ErrPermission):
		return "cannot be read"
	}
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}
