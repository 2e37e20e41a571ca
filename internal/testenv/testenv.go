// Package testenv says what tests may expect of the machine. A test that
// needs a Docker engine asks for it here: it is skipped where there is
// none, and fails instead where SANDBOX_TEST_REQUIRE names the need, so
// that nothing is skipped in silence where it matters.
package testenv

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/container"
)

// Require skips the test unless the machine has what is named: "docker", an
// engine that answers; "root", a process with user id 0; "local", a bubblewrap
// that starts sandboxes for ordinary users; "landlock", a kernel whose Landlock keeps
// signals in; "user", the means to run a program
// as an ordinary user, which root and ordinary users have; "nettools", curl,
// wget, git, python3 with pip and requests, node, npm and go; "browser", an
// engine that has the image of browsers made from this tree's recipe or an
// older one; "code", an engine that has the image of the code interpreter, or
// makes it from this tree's recipe; "playwright", what scripts/playwright.sh
// installs; "sshd", the server of OpenSSH, which scripts/sshd.sh unpacks;
// "inspector", what scripts/inspector.sh installs; "redocly", what
// scripts/redocly.sh installs; "e2b", "agents", "swerex", "codingagents", "adapters",
// "pyadapters", "pyclient", "tsclient" and "webconsole", what scripts/clients.sh installs;
// "kube", a cluster that scripts/kube.sh has started, for tests whose names begin
// with TestKube alone; "helm", what scripts/helm.sh builds;
// "dist", the packages that scripts/dist.sh makes; "languages", where it is named;
// "cgroup2", control groups of version 2 alone, and a service manager that gives this
// user some.
func Require(t testing.TB, need string) {
	t.Helper()
	if need == "kube" && strings.HasPrefix(t.Name(), "Test") && !strings.HasPrefix(t.Name(), "TestKube") {
		t.Fatal("scripts/test.sh finds tests that need a cluster by their names: this one has to begin with TestKube")
	}
	if why := missing(need); why != "" {
		Lack(t, need, why)
	}
}

// Patient are deadlines for tests that claim nothing about how long an engine
// takes: beside others, on a busy machine, it takes many times as long as usual.
func Patient() container.Deadlines {
	const most = 5 * time.Minute
	return container.Deadlines{Query: time.Minute, Create: most, Change: most, Start: most}
}

// Lack is for a test that found out by itself that the machine lacks what
// need names: the test is skipped, or fails where SANDBOX_TEST_REQUIRE names
// the need.
func Lack(t testing.TB, need string, why any) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv(require), ","), need) {
		t.Fatalf("%s is required by %s, but %v", need, require, why)
	}
	t.Skipf("needs %s: %v", need, why)
}

// require names the variable with what a machine has to have, separated by
// commas.
const require = "SANDBOX_TEST_REQUIRE"

func missing(need string) string {
	switch need {
	case "docker":
		return engineMissing()
	case "root":
		if os.Geteuid() != 0 {
			return "this is not root"
		}
		return ""
	case "local":
		return sandboxMissing()
	case "landlock":
		return landlockMissing()
	case "user":
		return userMissing()
	case "nettools":
		return netToolsMissing()
	case "browser":
		return browserMissing()
	case "code":
		return codeMissing()
	case "playwright":
		return playwrightMissing()
	case "sshd":
		return sshdMissing()
	case "e2b":
		return e2bMissing()
	case "agents":
		return agentsMissing()
	case "swerex":
		return swerexMissing()
	case "codingagents":
		return missingCodingAgents()
	case "adapters":
		return adaptersMissing()
	case "pyclient":
		return pyClient.missing()
	case "tsclient":
		return tsClient.missing()
	case "webconsole":
		return console.missing()
	case "pyadapters":
		return pyAdaptersMissing()
	case "inspector":
		return inspectorMissing()
	case "redocly":
		return redoclyMissing()
	case "kube":
		return kubeMissing()
	case "helm":
		return helmMissing()
	case "dist":
		return distMissing()
	case "languages":
		if !slices.Contains(strings.Split(os.Getenv(require), ","), need) {
			return "it makes images for ten minutes and fetches packages; make test-languages runs it"
		}
		return ""
	case "cgroup2":
		return cgroup2Missing()
	}
	return "there is no check for it"
}

// engineMissing asks once a process whether an engine answers.
var engineMissing = sync.OnceValue(func() string {
	api, err := container.Dial()
	if err != nil {
		return err.Error()
	}
	e := container.New(api, Patient())
	defer e.Close()
	if err := e.Ping(context.Background()); err != nil {
		return err.Error()
	}
	return ""
})

// Guest returns the path of a guest binary built from this tree. It is the
// one that SANDBOX_GUEST names, else it is built once a process.
func Guest(t testing.TB) string {
	t.Helper()
	if p := os.Getenv("SANDBOX_GUEST"); p != "" {
		return p
	}
	g := buildGuest()
	if g.err != "" {
		t.Fatal(g.err)
	}
	return g.path
}

// TLSGuest is Guest for the binary that also serves a TCP port: the one beside that of
// SANDBOX_GUEST, else one that is built once a process.
func TLSGuest(t testing.TB) string {
	t.Helper()
	if p := os.Getenv("SANDBOX_GUEST"); p != "" {
		if _, err := os.Stat(p + "-tls"); err == nil {
			return p + "-tls"
		}
	}
	g := buildTLSGuest()
	if g.err != "" {
		t.Fatal(g.err)
	}
	return g.path
}

type built struct{ path, err string }

var (
	buildGuest    = sync.OnceValue(func() built { return buildGuestWith("") })
	buildTLSGuest = sync.OnceValue(func() built { return buildGuestWith("sandbox_guest_tls") })
)

func buildGuestWith(tags string) built {
	dir, err := os.MkdirTemp("", "sandbox-guest-")
	if err != nil {
		return built{err: err.Error()}
	}
	path := filepath.Join(dir, "sandbox-guest")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-tags="+tags, "-o", path, "github.com/bulkhead-dev/sandbox/cmd/sandbox-guest")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return built{err: "build the guest: " + err.Error() + "\n" + string(out)}
	}
	return built{path: path}
}

// allTests names the variable that "make test-all" sets.
const allTests = "SANDBOX_TEST_ALL"

// DiskDir is t.TempDir on a disk: TMPDIR may lie in memory.
func DiskDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "sandbox-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// ImagesVariable names the folder of [Images].
const ImagesVariable = "SANDBOX_TEST_IMAGES"

// Images returns the folder in which the providers of all tests of one run keep
// what images have in folders that are in memory, as those of one state folder do,
// or "". Without it each start of a container makes another one to read that.
func Images() string { return os.Getenv(ImagesVariable) }

// All reports whether the run includes what "make test" leaves to
// "make test-all"; see [Exhaustive].
func All() bool { return os.Getenv(allTests) != "" }

// Exhaustive skips the test, or the variant of it that t stands for, unless
// SANDBOX_TEST_ALL is set, as "make test-all" sets it. It is for what repeats a
// test that "make test" runs: further shells and transports, attacks run again
// as another user, mutants of the product, and soaks. What names the repetition
// in the message of the skip.
func Exhaustive(t testing.TB, what string) {
	t.Helper()
	if !All() {
		t.Skipf("%s: only with %s=1 (make test-all)", what, allTests)
	}
}

// Rounds returns how often a test repeats what it tries: short with the flag
// -short, all where SANDBOX_TEST_ALL is set, else usual. It is for soaks, whose
// usual rounds show a leak or a race of the kind that every round can have; all
// rounds look for rarer ones.
func Rounds(short, usual, all int) int {
	switch {
	case testing.Short():
		return short
	case All():
		return all
	}
	return usual
}

// AtOnce lets n of a package's tests that call t.Parallel run at a time, unless
// the flag -parallel says another number. TestMain calls it before it runs the
// tests. It is for tests that wait for engines, browsers and times to pass, of
// which more than there are processors run in the same time.
func AtOnce(n int) {
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err) // TestMain calls it, so the flag is there
	}
}
