//go:build linux

package server

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Isolation says what Landlock can do here to isolate commands from each other.
type shimIsolation struct {
	Proc   bool // commands cannot trace each other or open each other's /proc/PID files
	Signal bool // commands cannot signal each other or reach each other's abstract sockets
	// Truncate says that [Confinement.Landlock] holds truncate(2) too.
	Truncate bool
}

// Versions of the Landlock interface.
const (
	abiRefer    = 2 // LANDLOCK_ACCESS_FS_REFER can be allowed
	abiTruncate = 3
	abiIoctl    = 5
	abiScope    = 6 // LANDLOCK_SCOPE_*
)

// Probe asks the kernel.
func probeShim() shimIsolation {
	abi := landlockABI()
	return shimIsolation{Proc: abi >= abiRefer, Signal: abi >= abiScope, Truncate: abi >= abiTruncate}
}

func landlockABI() int {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(v)
}

// scopes makes the rule set that every command enters between fork and
// exec, or returns -1 where there is no Landlock. Each entering makes a
// domain of its own: processes of one domain cannot trace those of another.
// No access to files is taken away. The rule set handles renaming between
// folders and allows it everywhere: before the scopes existed, it had to
// handle some access to files, and inside of a domain that handles none, a
// program that enters one that does cannot rename between folders (EXDEV),
// because the kernel denies what the outer one does not handle.
func scopes(abi int) int {
	if abi < abiRefer {
		return -1
	}
	fd, err := newRuleset(abi, unix.LANDLOCK_ACCESS_FS_REFER)
	if err != nil {
		return -1
	}
	if allowBeneath(fd, "/", unix.LANDLOCK_ACCESS_FS_REFER) != nil {
		unix.Close(fd)
		return -1
	}
	return fd
}

// newRuleset makes an empty rule set that handles access to files, and, where
// they exist, the scopes.
func newRuleset(abi int, access uint64) (int, error) {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: access}
	size := unsafe.Sizeof(attr.Handled_access_fs)
	if abi >= abiScope {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
		size = unsafe.Offsetof(attr.Scoped) + unsafe.Sizeof(attr.Scoped)
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil // close-on-exec by definition
}

// allowBeneath adds a rule for a path and what lies below it. Rights that
// only folders have are left out for a file.
func allowBeneath(ruleset int, path string, access uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		access &= ofFiles
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset),
		unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
