package images

import (
	"os/exec"
	"syscall"
)

// ownGroup puts cmd into a process group of its own, which the end of its
// context asks to end as a whole.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
}

// ownMounts gives cmd a mount namespace of its own, so that what it mounts
// vanishes with it.
func ownMounts(cmd *exec.Cmd) {
	cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
}

// killGroup ends what cmd left behind.
func killGroup(cmd *exec.Cmd) {
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
}
