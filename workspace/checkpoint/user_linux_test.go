package checkpoint

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestAsOrdinaryUser runs the tests that need no root as a user who is not,
// whose means are copies.
func TestAsOrdinaryUser(t *testing.T) {
	testenv.Require(t, "root")
	const nobody = 65534
	dir, err := os.MkdirTemp("", "checkpoint-user-")
	must(t, err)
	defer os.RemoveAll(dir) //nolint:errcheck // it is the system's folder for temporary files
	must(t, os.Chown(dir, nobody, nobody))
	self, err := os.Executable()
	must(t, err)
	program := filepath.Join(dir, "tests")
	in, err := os.Open(self)
	must(t, err)
	defer in.Close()
	out, err := os.OpenFile(program, os.O_WRONLY|os.O_CREATE, 0o755)
	must(t, err)
	_, err = io.Copy(out, in)
	must(t, err)
	must(t, out.Close())
	must(t, os.Chown(program, nobody, nobody))
	c := exec.CommandContext(t.Context(), program, "-test.short", "-test.v", "-test.run",
		"^(TestMeans|TestCreateRollbackFork|TestPrivate|TestExportImport|TestImportHostile|TestCopyKeeps|TestUnchangedAreLinked|TestPrune)$/^(copy|)$")
	c.Dir = dir
	c.Env = []string{"TMPDIR=" + dir, "HOME=" + dir}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	text, err := c.CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, text)
	}
	if n := strings.Count(string(text), "--- PASS"); n < 10 {
		t.Errorf("%d tests passed: %s", n, text)
	}
}
