//go:build linux && amd64

package probe

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// foreignCall returns getpid as x32 programs number it.
func foreignCall() (nr uintptr, known bool) { return 0x40000000 | unix.SYS_GETPID, true }

// olderWaysToSetMode are the calls that newer processors do not have.
func olderWaysToSetMode() map[string]func(path string, mode uint32) (int, error) {
	call := func(nr uintptr, path string, args ...uintptr) (int, error) {
		name, err := unix.BytePtrFromString(path)
		if err != nil {
			return -1, err
		}
		all := [2]uintptr{}
		copy(all[:], args)
		fd, _, errno := unix.Syscall(nr, uintptr(unsafe.Pointer(name)), all[0], all[1])
		if errno != 0 {
			return -1, errno
		}
		return int(fd), nil
	}
	return map[string]func(string, uint32) (int, error){
		"open": func(path string, mode uint32) (int, error) {
			return call(unix.SYS_OPEN, path, unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, uintptr(mode))
		},
		"creat": func(path string, mode uint32) (int, error) { return call(unix.SYS_CREAT, path, uintptr(mode)) },
		"mknod": func(path string, mode uint32) (int, error) {
			_, err := call(unix.SYS_MKNOD, path, uintptr(unix.S_IFREG|mode))
			return -1, err
		},
		"chmod": func(path string, mode uint32) (int, error) {
			fd, err := call(unix.SYS_OPEN, path, unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o755)
			if err != nil {
				return -1, err
			}
			unix.Close(fd)
			_, err = call(unix.SYS_CHMOD, path, uintptr(mode))
			return -1, err
		},
	}
}
