package hostscan

import (
	"bytes"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestAsOrdinaryUser runs tests of this package again as a user who is subject
// to permissions.
func TestAsOrdinaryUser(t *testing.T) {
	testenv.Require(t, "root")
	asOrdinaryUser(t, "^(TestHardLinks|TestSeesEveryChange)$")
}

// asOrdinaryUser runs the matching tests as another user if the current user is
// root.
func asOrdinaryUser(t *testing.T, match string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "scan-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	data, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	exe := dir + "/scan.test"
	if err := os.WriteFile(exe, data, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o1777); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run", match, "-test.v")
	cmd.Dir, cmd.Env = dir, append(testenv.UserEnviron(), "TMPDIR="+dir, "HOME="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: ")) {
		t.Errorf("%v\n%s", err, out)
	}
}
