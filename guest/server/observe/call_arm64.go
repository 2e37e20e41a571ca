//go:build linux

package observe

import "golang.org/x/sys/unix"

// olderTargetsOf is targetsOf for calls that newer processors do not have.
func olderTargetsOf(number int32) []target {
	if number == unix.SYS_RENAMEAT {
		return renamed()
	}
	return nil
}
