//go:build linux

package stage

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Isolation says what Landlock can do here for the walls between commands.
type Isolation struct {
	Proc   bool // commands cannot trace each other or open each other's /proc/PID files
	Signal bool // commands cannot signal each other or reach each other's abstract sockets
}

// Versions of the Landlock interface.
const (
	abiRefer = 2 // LANDLOCK_ACCESS_FS_REFER can be allowed
	abiScope = 6 // LANDLOCK_SCOPE_*
)

// Probe asks the kernel.
func Probe() Isolation {
	abi := landlockABI()
	return Isolation{Proc: abi >= abiRefer, Signal: abi >= abiScope}
}

func landlockABI() int {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(v)
}

// newRuleset makes the rule set that every command enters between fork and
// exec, or returns -1 where there is no Landlock. Each entering makes a
// domain of its own: processes of one domain cannot trace those of another.
// No access to files is taken away. Where scopes exist, they are all there
// is to the rule set. Before, a rule set had to handle some access to
// files; it handles renaming between folders and allows that everywhere,
// because it would be denied otherwise.
func newRuleset() int {
	attr := unix.LandlockRulesetAttr{Scoped: unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL}
	size := unsafe.Offsetof(attr.Scoped) + unsafe.Sizeof(attr.Scoped)
	abi := landlockABI()
	switch {
	case abi < abiRefer:
		return -1
	case abi < abiScope:
		attr = unix.LandlockRulesetAttr{Handled_access_fs: unix.LANDLOCK_ACCESS_FS_REFER}
		size = unsafe.Sizeof(attr.Handled_access_fs)
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return -1
	}
	if attr.Handled_access_fs != 0 && !allowBeneathRoot(int(fd), attr.Handled_access_fs) {
		unix.Close(int(fd))
		return -1
	}
	return int(fd) // close-on-exec by definition
}

func allowBeneathRoot(ruleset int, access uint64) bool {
	root, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(root)
	rule := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(root)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset),
		unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	return errno == 0
}
