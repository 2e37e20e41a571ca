package orchestrator

import "golang.org/x/sys/unix"

// hostMemory is the memory of this host in bytes; 0 when it cannot be told.
func hostMemory() int64 {
	var i unix.Sysinfo_t
	if err := unix.Sysinfo(&i); err != nil {
		return 0
	}
	return int64(uint64(i.Totalram) * uint64(i.Unit))
}
