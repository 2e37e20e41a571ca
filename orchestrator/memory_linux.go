package orchestrator

import "golang.org/x/sys/unix"

// hostMemory returns the memory of this host in bytes, or 0 when it is unknown.
func hostMemory() int64 {
	var i unix.Sysinfo_t
	if err := unix.Sysinfo(&i); err != nil {
		return 0
	}
	return int64(uint64(i.Totalram) * uint64(i.Unit))
}
