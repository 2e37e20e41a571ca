//go:build linux

package local_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// alike are the tests in which it does not matter whether root or an ordinary
// user has built the sandbox: those of what the guest does inside, which is the
// same program, those of what git does on the host, and those of what is refused
// or computed before there is a sandbox. Checks that count processes are not among
// them: those of an ordinary user count too.
const alike = `^TestConformance$/(shell|line|file|read|writ|output|stream|terminal|way out|memory|time|` +
	`stdin|input|arguments|environment|exit|executed|dir|rename|stat|path|close|grace|signal|kill|connection|listener|port|dialling|number|callers)|` +
	`^(TestNoCommandHasGitOnTheHostRunIt|TestOrdinaryWorkInARepository|TestGitCleanPassesPlaceholders|` +
	`TestFiltersAreComputedOnce|TestTracing|TestFirstWindowsSubsystemIsRefused|TestNotesOfSampledLimits|TestRefusedSettings|TestRefusedSockets|` +
	`TestManyBytesThroughASocket|TestShellOutlivesItsSandbox|TestStateThatEndsItsShell|TestStateThatIsLost)$`

// TestAsAnOrdinaryUser runs the other tests once more as an ordinary user, whose
// sandboxes are built without root's way down; with "make test-all" those that
// are [alike] too. The attacks have a test of their own for that.
func TestAsAnOrdinaryUser(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("long")
	}
	testenv.Require(t, "root") // else all tests run as an ordinary user already
	testenv.Require(t, "user")
	dir, err := os.MkdirTemp("", "local-user-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Chown(dir, testenv.OrdinaryUser, testenv.OrdinaryUser))
	must(t, os.Chmod(dir, 0o755))
	self, err := os.Executable()
	must(t, err)
	program, guest := filepath.Join(dir, "tests"), filepath.Join(dir, "sandbox-guest")
	copyProgram(t, self, program)
	copyProgram(t, testenv.Guest(t), guest)
	skip := attacks // which TestAsOrdinaryUser runs
	if !testenv.All() {
		skip += "|" + alike
	}
	cmd := exec.Command(program, "-test.v", "-test.count=1", "-test.skip="+skip)
	testenv.AsUser(cmd)
	cmd.Dir = dir
	cmd.Env = append(testenv.UserEnviron(), "TMPDIR="+dir, "HOME="+dir, "SANDBOX_GUEST="+guest)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"TestNobodyIsRoot", "TestKilledOrchestrator", "TestConformance/create_twice_is_busy_and_harms_nothing"} {
		if !bytes.Contains(out, []byte("--- PASS: "+name+" (")) {
			t.Errorf("%s did not run:\n%s", name, out)
		}
	}
}

func copyProgram(t testing.TB, from, to string) {
	t.Helper()
	src, err := os.Open(from)
	must(t, err)
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	must(t, err)
	_, err = io.Copy(dst, src)
	must(t, err)
	must(t, dst.Close())
	must(t, os.Chmod(to, 0o755))
}
