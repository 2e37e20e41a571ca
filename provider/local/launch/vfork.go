//go:build linux && (amd64 || arm64)

package launch

// vfork starts a process that shares our memory and our stack. It returns
// twice: in the process first, with pid 0.
func vfork(flags uintptr) (pid, errno uintptr)
