package client

import (
	"context"
	"errors"
	"strconv"
	"syscall"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/guest/wire"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// errEnded ends the channels of an operation that is over.
var errEnded = errors.New("the operation is over")

// failed translates why an operation failed.
func (k *fileCall) failed(m wire.Failed) error {
	text := wire.Quote(m.Text)
	e := &sandbox.Error{Code: sandbox.CodeExecution, Op: k.op, Field: "path", Resource: termsafe.Line(k.path)}
	switch m.Kind {
	case wire.KindEscape:
		return fsbridge.Escape(k.op, k.path)
	case wire.KindLink:
		return fsbridge.Link(k.op, k.path)
	case wire.KindIrregular:
		return fsbridge.Irregular(k.op, k.path)
	case wire.KindFile:
		if errno := hostErrno(m.Errno); errno != 0 {
			return fsbridge.NewError(k.op, k.path, errno)
		}
		e.Message = e.Resource + ": error " + strconv.FormatUint(uint64(m.Errno), 10) + ": " + text
	case wire.KindNoRoot:
		e.Code, e.Message = sandbox.CodeUnavailable, "the mount of "+e.Resource+" cannot be entered"
		e.Hint = "recreate the sandbox"
	case wire.KindUnsupported:
		e.Code, e.Message, e.Hint = sandbox.CodeUnsupported, "the guest cannot do that: "+text, "recreate the sandbox to get the current guest"
	case wire.KindResource:
		e.Code, e.Retryable, e.Message = sandbox.CodeBudgetExceeded, true, "the guest has no room for the operation: "+text
	case wire.KindInvalid:
		e.Code, e.Message = sandbox.CodeValidation, "the guest does not understand the operation: "+text
	case wire.KindCalledOff:
		e.Code, e.Message = sandbox.CodeUnavailable, e.Resource+": called off"
	default:
		e.Message = e.Resource + ": " + text
	}
	return e
}

// hostErrno translates an errno of Linux, which the guest always runs on,
// into the same one of this system, or returns 0.
func hostErrno(n uint32) syscall.Errno {
	switch n {
	case 1:
		return syscall.EPERM
	case 2:
		return syscall.ENOENT
	case 5:
		return syscall.EIO
	case 11:
		return syscall.EAGAIN
	case 12:
		return syscall.ENOMEM
	case 13:
		return syscall.EACCES
	case 16:
		return syscall.EBUSY
	case 17:
		return syscall.EEXIST
	case 18:
		return syscall.EXDEV
	case 20:
		return syscall.ENOTDIR
	case 21:
		return syscall.EISDIR
	case 22:
		return syscall.EINVAL
	case 23:
		return syscall.ENFILE
	case 24:
		return syscall.EMFILE
	case 26:
		return syscall.ETXTBSY
	case 27:
		return syscall.EFBIG
	case 28:
		return syscall.ENOSPC
	case 30:
		return syscall.EROFS
	case 31:
		return syscall.EMLINK
	case 36:
		return syscall.ENAMETOOLONG
	case 39:
		return syscall.ENOTEMPTY
	case 40:
		return syscall.ELOOP
	case 95:
		return syscall.EOPNOTSUPP
	case 116:
		return syscall.ESTALE
	case 122:
		return syscall.EDQUOT
	}
	return 0
}

// gaveUp is the error of an operation whose ctx has ended.
func (k *fileCall) gaveUp(ctx context.Context) error {
	code := sandbox.CodeUnavailable
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		code = sandbox.CodeTimeout
	}
	err := ctx.Err()
	if cause := context.Cause(ctx); cause != err {
		err = errors.Join(err, cause)
	}
	return &sandbox.Error{Code: code, Op: k.op, Resource: termsafe.Line(k.path), Message: "gave up", Retryable: true, Err: err}
}
