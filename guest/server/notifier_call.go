//go:build linux

package server

import "golang.org/x/sys/unix"

// A kind says what a call does with a path.
type kind uint8

const (
	notifierOpen   kind = iota // for writing; flags say what must be there
	notifierCreate             // something that is not there yet
	notifierPut                // something in the place of what may be there
	remove                     // something that is there
	change                     // something about what is there
)

// absent says that a call has no such argument.
const absent = -1

// A target is a path of a call: the numbers of its arguments.
type target struct {
	kind  kind
	dir   int8 // descriptor of the folder it starts at; absent: the working directory
	path  int8
	flags int8 // absent: there are none
	// nofollow are the flags that keep a link at the end from being followed;
	// all of them: it never is.
	nofollow uint32
}

const (
	never  = ^uint32(0)
	noLink = unix.AT_SYMLINK_NOFOLLOW
)

// targetsOf returns the paths that a call changes, by its number; none for a
// call that we know nothing of. It is the meaning of the names in package
// seccomp/bpf.
func targetsOf(number int32) []target {
	switch number {
	case unix.SYS_OPENAT:
		return []target{{notifierOpen, 0, 1, 2, unix.O_NOFOLLOW}}
	case unix.SYS_MKDIRAT, unix.SYS_MKNODAT:
		return []target{{notifierCreate, 0, 1, absent, never}}
	case unix.SYS_SYMLINKAT:
		return []target{{notifierCreate, 1, 2, absent, never}}
	case unix.SYS_LINKAT:
		return []target{{notifierCreate, 2, 3, absent, never}}
	case unix.SYS_UNLINKAT:
		return []target{{remove, 0, 1, absent, never}}
	case unix.SYS_RENAMEAT2:
		return renamed()
	case unix.SYS_TRUNCATE, unix.SYS_SETXATTR, unix.SYS_REMOVEXATTR:
		return []target{{change, absent, 0, absent, 0}}
	case unix.SYS_LSETXATTR, unix.SYS_LREMOVEXATTR:
		return []target{{change, absent, 0, absent, never}}
	case unix.SYS_FCHMODAT:
		return []target{{change, 0, 1, absent, 0}}
	case unix.SYS_FCHMODAT2, unix.SYS_UTIMENSAT:
		return []target{{change, 0, 1, 3, noLink}}
	case unix.SYS_FCHOWNAT, unix.SYS_FILE_SETATTR:
		return []target{{change, 0, 1, 4, noLink}}
	case unix.SYS_SETXATTRAT, unix.SYS_REMOVEXATTRAT:
		return []target{{change, 0, 1, 2, noLink}}
	}
	return olderTargetsOf(number)
}

// renamed are the targets of renameat and renameat2.
func renamed() []target {
	return []target{{remove, 0, 1, absent, never}, {notifierPut, 2, 3, absent, never}}
}
