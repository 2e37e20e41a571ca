package testenv

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// landlockMissing says why there can be no sandbox without namespaces here.
func landlockMissing() string {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return "the kernel has no Landlock: " + errno.Error()
	}
	if abi < 6 {
		return fmt.Sprintf("Landlock has version %d, and scopes come with 6", abi)
	}
	return ""
}
