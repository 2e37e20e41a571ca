package page

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// openPlain opens a regular file below dir for reading. It refuses symbolic
// links on the path, even those that stay below dir.
func openPlain(dir, file string) (*os.File, int64, error) {
	root, name, err := folderOf(dir, file)
	if err != nil {
		return nil, 0, err
	}
	defer root.Close()
	seen, err := root.Lstat(name)
	if err != nil {
		return nil, 0, missing(file, err)
	}
	if !seen.Mode().IsRegular() {
		return nil, 0, notPlain(file, seen.Mode())
	}
	// A program in the workspace may exchange the file meanwhile, also for a
	// pipe, which must not block the open.
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, 0, missing(file, err)
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || !os.SameFile(seen, info) {
		f.Close()
		return nil, 0, notPlain(file, fs.ModeIrregular)
	}
	return f, info.Size(), nil
}

// folderOf opens the parent folder of a file below dir without following
// links, and returns the file's name in it.
func folderOf(dir, file string) (*os.Root, string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, "", &sandbox.Error{Code: sandbox.CodeNotFound, Op: "browse", Resource: network.WorkspaceHost, Message: "there is no workspace yet"}
	}
	parts := strings.Split(file, "/")
	for _, part := range parts[:len(parts)-1] {
		below, err := enter(root, part, file)
		root.Close()
		if err != nil {
			return nil, "", err
		}
		root = below
	}
	return root, parts[len(parts)-1], nil
}

// enter opens the folder of that name in root, unless it is a link.
func enter(root *os.Root, name, file string) (*os.Root, error) {
	seen, err := root.Lstat(name)
	if err != nil {
		return nil, missing(file, err)
	}
	if !seen.IsDir() {
		return nil, notPlain(file, seen.Mode())
	}
	below, err := root.OpenRoot(name)
	if err != nil {
		return nil, missing(file, err)
	}
	info, err := below.Stat(".")
	if err != nil || !os.SameFile(seen, info) {
		below.Close()
		return nil, notPlain(file, fs.ModeSymlink)
	}
	return below, nil
}

// missing is the error for a file that does not exist or cannot be opened.
func missing(file string, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return &sandbox.Error{Code: sandbox.CodeNotFound, Op: "browse", Resource: shown(file), Message: "the workspace has no file " + shown(file),
			Hint: "sandbox cp FILE sandbox: copies one into it"}
	}
	return blocked(file, "the file cannot be opened without leaving the workspace", "")
}

// notPlain is the error for a path that is not a regular file or contains a
// link.
func notPlain(file string, mode fs.FileMode) error {
	if mode&fs.ModeSymlink != 0 {
		return blocked(file, "links in the workspace are not followed", "name the file itself")
	}
	return blocked(file, "it is no regular file", "")
}
