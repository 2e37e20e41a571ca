//go:build !linux

package orchestrator

// hostMemory returns the memory of this host in bytes, or 0 when it is unknown.
func hostMemory() int64 { return 0 }
