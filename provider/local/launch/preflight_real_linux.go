package launch

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// nobody is the id of the user and the group that a try runs as when root makes it.
const nobody = 65534

// asNobody keeps root's rights from cmd: what works for root only would not
// work for an instance.
func asNobody(cmd *exec.Cmd) {
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
}

func landlockVersion() (int, error) {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0, errno
	}
	return int(v), nil
}

// getActionAvail is SECCOMP_GET_ACTION_AVAIL of seccomp(2).
const getActionAvail = 2

// filterSupport asks the kernel for both answers that the instance's filters give.
func filterSupport() error {
	for _, action := range []uint32{unix.SECCOMP_RET_ERRNO, unix.SECCOMP_RET_USER_NOTIF} {
		_, _, errno := unix.Syscall(unix.SYS_SECCOMP, getActionAvail, 0, uintptr(unsafe.Pointer(&action)))
		if errno != 0 {
			return fmt.Errorf("action %#x: %w", action, errno)
		}
	}
	return nil
}

// LandlockABI returns the version of the kernel's Landlock interface, 0 where there is
// none for this process.
func LandlockABI() int {
	v, _ := landlockVersion()
	return v
}
