package fsbridge

import (
	"strconv"
	"strings"
	"syscall"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// The exit statuses of prelude.sh.
const (
	exitNoEntry     = 71
	exitEscape      = 72
	exitIsDir       = 73
	exitNotDir      = 74
	exitExists      = 75
	exitAccess      = 76
	exitIrregular   = 77
	exitLoop        = 78
	exitTruncated   = 79
	exitBusy        = 80
	exitNoRoot      = 81
	exitInvalid     = 82
	exitUnsupported = 83
	exitLink        = 84
)

// explain is the error of a script that ended with e. The status says what
// the script found out itself; otherwise the errno in the last line of stderr
// counts.
func explain(c call, e sandbox.Exit, stderr string) error {
	if errno := statusErrno(e.Code); errno != 0 {
		return NewError(c.op, c.path, errno)
	}
	switch e.Code {
	case exitEscape:
		return Escape(c.op, c.path)
	case exitLink:
		return Link(c.op, c.path)
	case exitIrregular:
		return Irregular(c.op, c.path)
	case exitTruncated:
		return confused(c.op, c.path, "the content arrived cut short; nothing was changed")
	case exitNoRoot:
		return confused(c.op, c.path, "the mount of "+termsafe.Line(c.path)+" cannot be entered")
	}
	if errno := textErrno(stderr); errno != 0 {
		return NewError(c.op, c.path, errno)
	}
	how := "status " + strconv.Itoa(e.Code)
	if e.Signal != "" {
		how = "signal " + termsafe.Line(e.Signal)
	}
	return &sandbox.Error{
		Code: sandbox.CodeExecution, Op: c.op, Field: "path", Resource: termsafe.Line(c.path),
		Message: strings.TrimSuffix(termsafe.Line(c.path)+": the file script ended with "+how+": "+safeText(strings.TrimSpace(stderr)), ": "),
	}
}

func statusErrno(code int) syscall.Errno {
	switch code {
	case exitNoEntry:
		return syscall.ENOENT
	case exitIsDir:
		return syscall.EISDIR
	case exitNotDir:
		return syscall.ENOTDIR
	case exitExists:
		return syscall.EEXIST
	case exitAccess:
		return syscall.EACCES
	case exitLoop:
		return syscall.ELOOP
	case exitBusy:
		return syscall.EBUSY
	case exitInvalid:
		return syscall.EINVAL
	case exitUnsupported:
		return syscall.EOPNOTSUPP
	}
	return 0
}

// textErrno finds the errno that the last line of stderr ends with. Only the
// end counts: names, which the sandbox chooses, come before it. The words are
// those of glibc, musl, dash and busybox in the C locale.
func textErrno(stderr string) syscall.Errno {
	text := strings.TrimRight(stderr, "\n")
	text = strings.TrimRight(text[strings.LastIndexByte(text, '\n')+1:], ".")
	for _, w := range []struct {
		text  string
		errno syscall.Errno
	}{
		{"No such file or directory", syscall.ENOENT},
		{"no such file", syscall.ENOENT},
		{"no such file or directory", syscall.ENOENT},
		{"No such file", syscall.ENOENT},
		{"nonexistent directory", syscall.ENOENT},
		{"Directory nonexistent", syscall.ENOENT},
		{"Permission denied", syscall.EACCES},
		{"Operation not permitted", syscall.EPERM},
		{"Read-only file system", syscall.EROFS},
		{"No space left on device", syscall.ENOSPC},
		{"Disk quota exceeded", syscall.EDQUOT},
		{"Quota exceeded", syscall.EDQUOT},
		{"File too large", syscall.EFBIG},
		{"File exists", syscall.EEXIST},
		{"file exists", syscall.EEXIST},
		{"cannot overwrite existing file", syscall.EEXIST},
		{"Directory not empty", syscall.ENOTEMPTY},
		{"Is a directory", syscall.EISDIR},
		{"Not a directory", syscall.ENOTDIR},
		{"Too many levels of symbolic links", syscall.ELOOP},
		{"Symbolic link loop", syscall.ELOOP},
		{"File name too long", syscall.ENAMETOOLONG},
		{"Filename too long", syscall.ENAMETOOLONG},
		{"Device or resource busy", syscall.EBUSY},
		{"Resource busy", syscall.EBUSY},
		{"Invalid cross-device link", syscall.EXDEV},
		{"Cross-device link", syscall.EXDEV},
		{"Invalid argument", syscall.EINVAL},
		{"Input/output error", syscall.EIO},
		{"I/O error", syscall.EIO},
		{"Cannot fork", syscall.EAGAIN},
		{"can't fork", syscall.EAGAIN},
		{"Resource temporarily unavailable", syscall.EAGAIN},
		{"Cannot allocate memory", syscall.ENOMEM},
		{"Out of memory", syscall.ENOMEM},
		{"Too many open files", syscall.EMFILE},
		{"Operation not supported", syscall.EOPNOTSUPP},
		{"Not supported", syscall.EOPNOTSUPP},
	} {
		// A word on its own, or after ": " at the end of a message.
		if before, ok := strings.CutSuffix(text, w.text); ok && (before == "" || strings.HasSuffix(before, ": ")) {
			return w.errno
		}
	}
	return 0
}
