//go:build linux

package server

import "golang.org/x/sys/unix"

// olderTargetsOf is targetsOf for calls that newer processors do not have.
func olderTargetsOf(number int32) []target {
	switch number {
	case unix.SYS_OPEN:
		return []target{{notifierOpen, absent, 0, 1, unix.O_NOFOLLOW}}
	case unix.SYS_CREAT:
		return []target{{notifierPut, absent, 0, absent, 0}}
	case unix.SYS_MKDIR, unix.SYS_MKNOD:
		return []target{{notifierCreate, absent, 0, absent, never}}
	case unix.SYS_SYMLINK, unix.SYS_LINK:
		return []target{{notifierCreate, absent, 1, absent, never}}
	case unix.SYS_RMDIR, unix.SYS_UNLINK:
		return []target{{remove, absent, 0, absent, never}}
	case unix.SYS_RENAMEAT:
		return renamed()
	case unix.SYS_RENAME:
		return []target{{remove, absent, 0, absent, never}, {notifierPut, absent, 1, absent, never}}
	case unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_UTIME, unix.SYS_UTIMES:
		return []target{{change, absent, 0, absent, 0}}
	case unix.SYS_LCHOWN:
		return []target{{change, absent, 0, absent, never}}
	case unix.SYS_FUTIMESAT:
		return []target{{change, 0, 1, absent, 0}}
	}
	return nil
}

// isRmdir reports whether a call is rmdir(2), which newer processors do not have.
func isRmdir(number int32) bool { return number == unix.SYS_RMDIR }

// olderMetadataOf is metadataOf for calls that newer processors do not have.
func olderMetadataOf(number int32) (metadata, bool) {
	switch number {
	case unix.SYS_CHMOD:
		return metadata{changeMode, absent, absent, 0, absent, 0, 1}, true
	case unix.SYS_CHOWN:
		return metadata{changeOwner, absent, absent, 0, absent, 0, 1}, true
	case unix.SYS_LCHOWN:
		return metadata{changeOwner, absent, absent, 0, absent, never, 1}, true
	case unix.SYS_UTIME:
		return metadata{changeSeconds, absent, absent, 0, absent, 0, 1}, true
	case unix.SYS_UTIMES:
		return metadata{changeTimevals, absent, absent, 0, absent, 0, 1}, true
	case unix.SYS_FUTIMESAT:
		return metadata{changeTimevals, absent, 0, 1, absent, 0, 2}, true
	}
	return metadata{}, false
}
