//go:build !linux

package orchestrator

// hostMemory is the memory of this host in bytes; 0 when it cannot be told.
func hostMemory() int64 { return 0 }
