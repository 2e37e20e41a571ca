//go:build linux

package server

import "golang.org/x/sys/unix"

// olderTargetsOf is targetsOf for calls that newer processors do not have.
func olderTargetsOf(number int32) []target {
	if number == unix.SYS_RENAMEAT {
		return renamed()
	}
	return nil
}

// isRmdir reports whether a call is rmdir(2), which newer processors do not have.
func isRmdir(int32) bool { return false }

func olderMetadataOf(int32) (metadata, bool) { return metadata{}, false }
