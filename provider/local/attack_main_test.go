//go:build linux

package local_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// Users that no other program has: what one of them runs is ours.
const (
	wallUser     = 471_177 // of the sandboxes that root puts up
	ordinaryUser = 471_178 // who runs the suite a second time
)

// A kit is what all stages of one run share.
type kit struct {
	dir   string // that everybody may enter
	tool  string // this binary
	guest string
	state string // of all stages but those with [ownState]
	uid   int    // of the sandboxes, and of what they show
}

func newKit(t testing.TB) *kit {
	t.Helper()
	testenv.Require(t, "local")
	dir, err := os.MkdirTemp("", "attack-") // short: sockets lie below
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	must(t, os.Chmod(dir, 0o755))
	self, err := os.Executable()
	must(t, err)
	k := &kit{dir: dir, tool: filepath.Join(dir, "tool"), guest: filepath.Join(dir, "sandbox-guest"), state: filepath.Join(dir, "state"), uid: os.Geteuid()}
	if k.uid == 0 {
		k.uid = wallUser
	}
	copyProgram(t, self, k.tool)
	copyProgram(t, testenv.Guest(t), k.guest)
	return k
}

// ordinary are the attacks that concern an ordinary user: his sandboxes run as
// himself, so that what they attack, the orchestrator and its state, has the
// same owner as the code inside. What sandboxes show and hide is the same for root,
// whose sandboxes run as an ordinary user too.
const ordinary = `^(TestAttacks|TestClose|TestPlaceholderGone)$/^(processes|wide|grants)$`

// attacks are all tests of attacks, which the files attack_*_test.go hold. Each
// is an attempt to get out of a sandbox by a program or script that runs as an
// ordinary command inside; then the test looks from the host whether anything
// has happened. An attempt that a typing error keeps from doing anything would
// pass, so nearly each is also made where nothing stands in its way: on the
// host itself, in namespaces of its own, or in a sandbox without the rule. There it
// has to succeed.
const attacks = `^(TestAttacks|TestForkBomb|TestFullMemory|TestFlood|TestProgramOfTheSandboxKilled|TestClose|TestKnownLimits|TestMaskTakenByGit|TestKnownMoment|TestSwappedRoot|TestPlaceholderGone|TestSecondSession|TestOldSandboxCannotOpenTheNew|TestManyClosedFiles|TestEveryWayIn)$`

// TestAsOrdinaryUser runs the attacks that concern him without any privilege,
// and with "make test-all" all of them.
func TestAsOrdinaryUser(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("long")
	}
	if os.Geteuid() != 0 {
		t.Skip("this is an ordinary user already")
	}
	testenv.Require(t, "user")
	k := newKit(t)
	home := filepath.Join(k.dir, "u")
	must(t, os.Mkdir(home, 0o700))
	must(t, os.Chown(home, ordinaryUser, ordinaryUser))
	pattern := ordinary
	if testenv.All() {
		pattern = attacks
	}
	cmd := exec.Command(k.tool, "-test.timeout=15m", "-test.v", "-test.run="+pattern)
	cmd.Dir = home
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + home, "LANG=C.UTF-8", "SANDBOX_GUEST=" + k.guest,
		"SANDBOX_TEST_REQUIRE=" + os.Getenv("SANDBOX_TEST_REQUIRE"), "GORACE=" + os.Getenv("GORACE"),
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinaryUser, Gid: ordinaryUser}}
	out, err := cmd.CombinedOutput()
	if err != nil || testing.Verbose() {
		t.Logf("%s", out)
	}
	must(t, err)
	for _, name := range []string{"TestAttacks/wide/wide-state", "TestAttacks/grants/grant-state", "TestAttacks/processes/process-trace-host", "TestClose", "TestPlaceholderGone"} {
		if !bytes.Contains(out, []byte("--- PASS: "+name+" (")) {
			t.Errorf("%s did not run:\n%s", name, out)
		}
	}
}
