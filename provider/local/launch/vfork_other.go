//go:build linux && !amd64 && !arm64

package launch

import "syscall"

// vfork is not there for this processor.
//
//go:nosplit
func vfork(uintptr) (pid, errno uintptr) { return 0, uintptr(syscall.ENOSYS) }
