package statedir

import (
	"errors"
	"io/fs"

	"github.com/bulkhead-dev/sandbox"
	"golang.org/x/sys/unix"
)

// Unavailable tells why something below the state folder could not be read
// or written, with what to do about it. The error's code is
// [sandbox.CodeUnavailable] and its Resource is path. An err that is a
// *sandbox.Error already is returned as it is; nil stays nil.
func Unavailable(op, path string, err error) error {
	if err == nil {
		return nil
	}
	var known *sandbox.Error
	if errors.As(err, &known) {
		return err
	}
	e := &sandbox.Error{Code: sandbox.CodeUnavailable, Op: op, Resource: path, Message: "cannot use " + path, Err: err}
	switch {
	case errors.Is(err, unix.EROFS):
		e.Hint = "its file system is read-only: mount it writable, or choose another folder with --state-dir"
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		e.Hint = "its file system is full: make room (sandbox prune --workspaces), or choose another folder with --state-dir"
		e.Retryable = true
	case errors.Is(err, fs.ErrPermission):
		e.Hint = "run as its owner, or choose another folder with --state-dir"
	case errors.Is(err, unix.ENOTDIR):
		e.Hint = "a file is where a folder should be: move it away"
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		e.Hint = "too many open files: raise the limit (ulimit -n)"
		e.Retryable = true
	case errors.Is(err, unix.EIO):
		e.Hint = "the disk reports an error: see the kernel log (dmesg)"
	default:
		e.Hint = "check the folder, or choose another one with --state-dir"
	}
	return e
}
