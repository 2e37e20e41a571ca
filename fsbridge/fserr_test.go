package fsbridge_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
)

func TestNew(t *testing.T) {
	for _, c := range []struct {
		errno    syscall.Errno
		code     sandbox.Code
		sentinel error
	}{
		{syscall.ENOENT, sandbox.CodeNotFound, fs.ErrNotExist},
		{syscall.EACCES, sandbox.CodeCapabilityBlocked, fs.ErrPermission},
		{syscall.EPERM, sandbox.CodeCapabilityBlocked, fs.ErrPermission},
		{syscall.EROFS, sandbox.CodeCapabilityBlocked, fs.ErrPermission},
		{syscall.EBUSY, sandbox.CodeCapabilityBlocked, fs.ErrPermission},
		{syscall.ENOSPC, sandbox.CodeBudgetExceeded, nil},
		{syscall.EDQUOT, sandbox.CodeBudgetExceeded, nil},
		{syscall.EAGAIN, sandbox.CodeBudgetExceeded, nil},
		{syscall.EEXIST, sandbox.CodeValidation, fs.ErrExist},
		{syscall.ENOTEMPTY, sandbox.CodeValidation, fs.ErrExist},
		{syscall.EISDIR, sandbox.CodeValidation, nil},
		{syscall.ENOTDIR, sandbox.CodeValidation, nil},
		{syscall.EXDEV, sandbox.CodeUnsupported, nil},
		{syscall.EIO, sandbox.CodeExecution, nil},
	} {
		err := error(fsbridge.NewError("write", "/workspace/f", c.errno))
		if sandbox.CodeOf(err) != c.code || !errors.Is(err, c.errno) {
			t.Errorf("%v: %v", c.errno, err)
		}
		for _, s := range []error{fs.ErrNotExist, fs.ErrPermission, fs.ErrExist} {
			if got := errors.Is(err, s); got != (s == c.sentinel) {
				t.Errorf("%v: errors.Is(%v) is %v", c.errno, s, got)
			}
		}
	}
}

func TestNamesAreEscaped(t *testing.T) {
	for _, err := range []error{
		fsbridge.NewError("stat", "/w/\x1b[2J\n", syscall.ENOENT), fsbridge.Escape("stat", "/w/\x1b[2J\n"), fsbridge.Irregular("stat", "/w/\x1b[2J\n"),
	} {
		if strings.ContainsAny(err.Error(), "\x1b\n") {
			t.Errorf("%q reaches the terminal", err)
		}
	}
}

func Example() {
	err := fsbridge.NewError("read", "/workspace/a.txt", syscall.ENOENT)
	fmt.Println(err)
	fmt.Println(errors.Is(err, fs.ErrNotExist))
	// Output:
	// SANDBOX.NOT_FOUND: read: path: /workspace/a.txt: no such file or directory
	// true
}
