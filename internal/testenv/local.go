package testenv

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// OrdinaryUser is the id of the user and group that [AsUser] runs programs
// as when the tests run as root. No account needs to have it.
const OrdinaryUser = 471100

// AsUser makes cmd run as an ordinary user, without any group of ours: as
// [OrdinaryUser] when we are root, else as ourselves. What it needs must be
// readable for that user.
func AsUser(cmd *exec.Cmd) {
	if os.Geteuid() != 0 {
		return
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: OrdinaryUser, Gid: OrdinaryUser}
}

// UserEnviron returns the environment of this process for tests that [AsUser]
// runs once more: root is not required of them.
func UserEnviron() []string {
	needs := slices.DeleteFunc(strings.Split(os.Getenv(require), ","), func(need string) bool { return need == "root" })
	return append(os.Environ(), require+"="+strings.Join(needs, ","))
}

// userMissing asks once a process whether programs run as an ordinary user.
var userMissing = sync.OnceValue(func() string {
	cmd := exec.Command("id", "-u")
	cmd.Dir = "/"
	AsUser(cmd)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "no program runs as an ordinary user: " + err.Error()
	}
	if strings.TrimSpace(string(out)) == "0" {
		return "an ordinary user is root here"
	}
	return ""
})

// sandboxMissing checks once a process whether bubblewrap starts a sandbox for an
// ordinary user; root's sandboxes run as one too. It does not ask the code
// under test whether the machine is good enough for it.
var sandboxMissing = sync.OnceValue(func() string {
	path, err := exec.LookPath("bwrap")
	if err != nil {
		return "bubblewrap is not installed"
	}
	cmd := exec.Command(path, "--unshare-user", "--disable-userns", "--unshare-pid", "--unshare-net", "--cap-drop", "ALL",
		"--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--", path, "--version")
	cmd.Dir = "/"
	AsUser(cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "bubblewrap starts no sandbox: " + err.Error() + ": " + strings.TrimSpace(string(out))
	}
	return ""
})
