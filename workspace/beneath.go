// Beneath: this part of the package opens what lies below an [os.Root] without passing through
// any link. A root alone keeps its user from leaving it, and follows links
// that stay inside; what untrusted code has put into a folder must not decide
// either which of the files inside is meant.

package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrChanged says that a path led to something else than what was looked at.
var ErrChanged = errors.New("is a link or was exchanged meanwhile")

// Dir opens the folder rel below root if it is a folder and no link, also when
// another process exchanges it between the check and the opening. Dir checks
// only the last name of rel, so rel is one name, or "." for root itself.
func Dir(root *os.Root, rel string) (*os.Root, error) {
	before, err := root.Lstat(rel)
	if err != nil {
		return nil, err
	}
	if !before.IsDir() {
		return nil, ErrChanged
	}
	sub, err := root.OpenRoot(rel)
	if err != nil {
		return nil, changed(err)
	}
	after, err := sub.Stat(".")
	if err != nil || !os.SameFile(before, after) {
		sub.Close()
		return nil, errors.Join(ErrChanged, err)
	}
	return sub, nil
}

// File opens the regular file rel below root for reading, never through a
// link, with the same care and the same bound on rel. It does not wait for
// anybody: what has become a pipe meanwhile is [ErrChanged].
func File(root *os.Root, rel string) (*os.File, fs.FileInfo, error) {
	before, err := root.Lstat(rel)
	if err != nil {
		return nil, nil, err
	}
	if !before.Mode().IsRegular() {
		return nil, nil, ErrChanged
	}
	f, err := root.OpenFile(rel, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, changed(err)
	}
	after, err := f.Stat()
	if err != nil || !os.SameFile(before, after) || !after.Mode().IsRegular() {
		f.Close()
		return nil, nil, errors.Join(ErrChanged, err)
	}
	return f, after, nil
}

// Descend opens the folder rel below root, name by name, none of them a link.
func Descend(root *os.Root, rel string) (*os.Root, error) {
	dir, err := root.OpenRoot(".")
	if err != nil || rel == "." {
		return dir, err
	}
	for part := range strings.SplitSeq(path.Clean(rel), "/") {
		next, err := Dir(dir, part)
		dir.Close()
		if err != nil {
			return nil, err
		}
		dir = next
	}
	return dir, nil
}

// changed adds ErrChanged to the refusal of a root to leave it: a link has
// come to where none was.
func changed(err error) error {
	if isEscape(err) {
		return errors.Join(ErrChanged, err)
	}
	return err
}

// IsEscape reports whether err is the refusal of an [os.Root] to leave its
// root. Package os has no sentinel for it.
func isEscape(err error) bool {
	return err != nil && strings.Contains(err.Error(), "path escapes from parent")
}
