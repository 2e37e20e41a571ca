// This file defines the errors of file operations of a sandbox, the same for
// every transport.
//
// The cause of each error is the errno of the kernel, so that callers can
// tell cases apart with errors.Is: fs.ErrNotExist, fs.ErrExist (which ENOTEMPTY
// matches as well), fs.ErrPermission (EACCES, EPERM, EROFS and refusals), or
// the errno itself.

package fsbridge

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// New returns the error for operation op on path that failed with errno.
//
//	ENOENT                                  CodeNotFound
//	EACCES, EPERM, EROFS, EBUSY             CodeCapabilityBlocked
//	ENOSPC, EDQUOT, EFBIG, EMFILE, EAGAIN…  CodeBudgetExceeded
//	EEXIST, ENOTEMPTY, EISDIR, ENOTDIR,
//	ELOOP, ENAMETOOLONG, EINVAL             CodeValidation: the request does not fit what is there
//	EXDEV, EOPNOTSUPP                       CodeUnsupported
//	others                                  CodeExecution
func NewError(op, path string, errno syscall.Errno) *sandbox.Error {
	safe := termsafe.Line(path)
	e := &sandbox.Error{Code: sandbox.CodeExecution, Op: op, Field: "path", Resource: safe, Message: safe, Err: cause{errno}}
	switch errno {
	case syscall.ENOENT:
		e.Code = sandbox.CodeNotFound
	case syscall.EACCES, syscall.EPERM:
		e.Code = sandbox.CodeCapabilityBlocked
	case syscall.EROFS:
		e.Code, e.Hint = sandbox.CodeCapabilityBlocked, "the mount is read-only for files and commands alike; write under "+sandbox.WorkspaceDir
	case syscall.EBUSY:
		e.Code, e.Hint = sandbox.CodeCapabilityBlocked, "a mount itself cannot be removed, renamed or replaced"
	case syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG: // see Full
		e.Code, e.Hint = sandbox.CodeBudgetExceeded, "remove files, or raise the size in the settings"
	case syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE:
		e.Code, e.Retryable, e.Hint = sandbox.CodeBudgetExceeded, true, "the sandbox is at a limit of processes, memory or descriptors"
	case syscall.EEXIST, syscall.ENOTEMPTY, syscall.EISDIR, syscall.ENOTDIR, syscall.ELOOP, syscall.ENAMETOOLONG, syscall.EINVAL:
		e.Code = sandbox.CodeValidation
	case syscall.EXDEV:
		e.Code, e.Hint = sandbox.CodeUnsupported, "copy to the other mount and remove the original"
	case syscall.EOPNOTSUPP:
		e.Code = sandbox.CodeUnsupported
	}
	return e
}

// Full returns the error for a path that cannot grow because the disk of the
// machine is full, as opposed to a quota.
func fullFserr(op, path string) *sandbox.Error {
	e := NewError(op, path, syscall.ENOSPC)
	e.Code, e.Retryable = sandbox.CodeUnavailable, true
	e.Message = "the disk of the machine on which " + e.Resource + " lies is full"
	e.Hint = "no limit of the sandbox was reached: have room made on the machine (sandbox prune --workspaces)"
	return e
}

// Escape returns the error for a path that leads out of its mount through a link.
func Escape(op, path string) *sandbox.Error {
	safe := termsafe.Line(path)
	return &sandbox.Error{
		Code: sandbox.CodeCapabilityBlocked, Op: op, Field: "path", Resource: safe,
		Message: safe + " leads out of its mount through a link",
		Hint:    "use the path that the link points to, if it is in a mount", Err: fs.ErrPermission,
	}
}

// Link returns the error for a path with a link on the way, or at its end,
// where none may be followed.
func Link(op, path string) *sandbox.Error {
	safe := termsafe.Line(path)
	return &sandbox.Error{
		Code: sandbox.CodeCapabilityBlocked, Op: op, Field: "path", Resource: safe,
		Message: safe + " is, or leads through, a link, and links are not followed here",
		Hint:    "use the path that the link points to", Err: link{},
	}
}

// IsLink reports whether err is one of [Link].
func isLink(err error) bool {
	_, is := errors.AsType[link](err)
	return is
}

// link is the cause of an error of [Link].
type link struct{}

func (link) Error() string        { return fs.ErrPermission.Error() }
func (link) Is(target error) bool { return target == fs.ErrPermission }

// closedBy is the field of errors of [Closed]: the settings that closed paths
// come from. It survives the way between programs, as a type does not.
const closedBy = "filesystem"

// Closed returns the error for a path that a rule closes. Message says what is
// closed, and by which rule.
func Closed(op, path, message, hint string) *sandbox.Error {
	return &sandbox.Error{
		Code: sandbox.CodeCapabilityBlocked, Op: op, Field: closedBy, Resource: termsafe.Line(path),
		Message: message, Hint: hint, Err: fs.ErrPermission,
	}
}

// IsClosed reports whether err is one of [Closed], also one that was received
// from another program.
func IsClosed(err error) bool {
	e, is := errors.AsType[*sandbox.Error](err)
	return is && e.Code == sandbox.CodeCapabilityBlocked && e.Field == closedBy
}

// Irregular returns the error for a path that is a pipe, socket or device,
// on which reading and replacing have no meaning and could block for ever.
func Irregular(op, path string) *sandbox.Error {
	safe := termsafe.Line(path)
	return &sandbox.Error{
		Code: sandbox.CodeCapabilityBlocked, Op: op, Field: "path", Resource: safe,
		Message: safe + " is not a regular file", Err: cause{syscall.EINVAL},
	}
}

// cause is an errno for which a read-only file system is a lack of
// permission, too.
type cause struct{ errno syscall.Errno }

func (c cause) Error() string { return c.errno.Error() }
func (c cause) Unwrap() error { return c.errno }

func (c cause) Is(target error) bool {
	return target == fs.ErrPermission && (c.errno == syscall.EROFS || c.errno == syscall.EBUSY)
}
