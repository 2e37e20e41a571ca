package testenv

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// SSHD returns a command of the server of OpenSSH with these arguments: the
// one that scripts/sshd.sh has unpacked into the tree, else the machine's own.
// It is asked for with Require(t, "sshd").
func SSHD(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	own := unpackedSSHD()
	program := filepath.Join(own, "usr/sbin/sshd")
	if _, err := os.Stat(program); err != nil {
		return exec.Command("/usr/sbin/sshd", args...)
	}
	// It may run as a user who cannot look into the folder of the tree.
	public, err := os.MkdirTemp("", "sbx-sshd-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(public) })
	if err := errors.Join(os.Chmod(public, 0o755), os.CopyFS(filepath.Join(public, "usr"), os.DirFS(filepath.Join(own, "usr")))); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(public, "usr/sbin/sshd"), args...)
	libraries, err := filepath.Glob(filepath.Join(public, "usr/lib/*-linux-*"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+strings.Join(libraries, ":"))
	return cmd
}

// sshdMissing asks once a process for the server and the programs beside it.
var sshdMissing = sync.OnceValue(func() string {
	for _, name := range []string{"ssh", "ssh-keygen"} {
		if _, err := exec.LookPath(name); err != nil {
			return name + " is not installed"
		}
	}
	if _, err := os.Stat(filepath.Join(unpackedSSHD(), "usr/sbin/sshd")); err == nil {
		return ""
	}
	if _, err := os.Stat("/usr/sbin/sshd"); err != nil {
		return "there is no sshd, which `make sshd` unpacks: " + err.Error()
	}
	return ""
})

// unpackedSSHD lies in the bin folder of the module.
func unpackedSSHD() string {
	return filepath.Join(root(), "bin", "sshd")
}
