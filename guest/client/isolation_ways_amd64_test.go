package client_test

import "golang.org/x/sys/unix"

// olderWays are those by calls that newer processors do not have.
func olderWays(p uintptr) map[string]func() error {
	raw := func(nr uintptr, a, b, c uintptr) error {
		_, _, errno := unix.Syscall(nr, a, b, c)
		return errno
	}
	return map[string]func() error{
		"open":   func() error { return raw(unix.SYS_OPEN, p, unix.O_WRONLY, 0) },
		"creat":  func() error { return raw(unix.SYS_CREAT, p, 0o600, 0) },
		"unlink": func() error { return raw(unix.SYS_UNLINK, p, 0, 0) },
		"chmod":  func() error { return raw(unix.SYS_CHMOD, p, 0o777, 0) },
		"chown":  func() error { return raw(unix.SYS_CHOWN, p, 1000, 1000) },
		"lchown": func() error { return raw(unix.SYS_LCHOWN, p, 1000, 1000) },
		"utimes": func() error { return raw(unix.SYS_UTIMES, p, 0, 0) },
		"utime":  func() error { return raw(unix.SYS_UTIME, p, 0, 0) },
	}
}
