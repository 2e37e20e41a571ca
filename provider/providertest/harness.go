// Package providertest is the conformance suite for every provider.
//
// A provider's own test calls [Run] with a [Harness] that says how to make
// the provider and a Spec for it. Each sentence of the contracts in the root
// package's provider.go and command.go is one named check. What only the
// provider's own tools can do (pause a sandbox behind its back, take its
// engine away) comes in as a hook. A hook that is missing fails the checks
// that need it unless [Harness.Without] gives the reason, so that nothing is
// left out in silence.
//
// The programs that run inside are a small portable set (see [Programs]),
// by default shell scripts that need a POSIX sh, setsid, head, yes and stty.
// The checks of shells and files run lines of their own, which need cat, chmod,
// env, ln, ls, mkdir, rm, sleep and touch besides.
package providertest

import (
	"cmp"
	"context"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// A Harness tells the suite about one provider. New and Spec are required.
type Harness struct {
	// New returns a provider for one check. What must be closed is
	// registered with t.Cleanup.
	New func(t testing.TB) sandbox.Provider

	// Spec returns a complete Spec. Equal keys give equal Specs, different
	// keys different names and owners, and no other user of the engine has
	// those names. The sandbox needs neither network nor binds; it allows at
	// least 512 processes and 256 MiB, and its ImageID is the image's own.
	// Its Workdir is a writable mount, and /tmp a tmpfs.
	Spec func(t testing.TB, key string) sandbox.Spec

	// Programs replaces single portable programs; the zero value is the
	// shell scripts.
	Programs Programs

	// Reconnect returns another provider value that sees the same
	// sandboxes as p, as a restarted program would make. It is needed
	// when Features.Persistent is set.
	Reconnect func(t testing.TB, p sandbox.Provider) sandbox.Provider

	// Behind does things without p knowing.
	Behind Behind

	// Down returns a provider whose engine is not there.
	Down func(t testing.TB) sandbox.Provider

	// Hanging returns a provider whose engine takes requests and never
	// answers.
	Hanging func(t testing.TB) sandbox.Provider

	// Folder returns a host folder that a Spec may mount, in which the file
	// "file" holds [FolderContent]. The sandbox's user may change both, so
	// that nothing but a read-only mount refuses it. It is needed when
	// Features.Files is set.
	Folder func(t testing.TB, p sandbox.Provider) string

	// InPlace says that a Spec may mount a folder at its own path alone, and no
	// tmpfs.
	InPlace bool

	// Exchange returns a detached mount of a folder that the sandbox's user may
	// write, in which "file" alone holds content, and nil where no file system can
	// be mounted. For a provider that builds sandboxes from what lies on the host,
	// it lies at the workspace of s there until the end of the check. It is needed
	// when sandboxes are Remounters.
	Exchange func(t testing.TB, s sandbox.Spec, content string) *os.File

	// Leaks fails t when something of the provider is left on the machine.
	// It is called after each check, when all sandboxes are removed.
	Leaks func(t testing.TB)

	// Patience is how long something that must happen may take; zero is
	// two minutes. Only failing checks wait that long.
	Patience time.Duration

	// Together lets checks run at the same time, as many as -parallel says,
	// where that is possible: one that sets what the whole process has, or
	// measures it, runs before them and alone. Goroutines that stay behind are
	// looked for when all have ended, and are not of a check that is named.
	// Checks that leave a sandbox as it was share one before that, one after
	// another, where sandboxes outlive the provider that has made them; it is there
	// until all checks have ended.
	Together bool

	// common are the sandboxes that checks share; Run makes them.
	common common

	// Without names checks that this provider cannot pass and the reason.
	// They are reported as skipped. A name that is no check is an error.
	Without map[string]string
}

// Behind are things done to the sandbox name without the provider's doing.
// Each returns when it has happened.
type Behind struct {
	Stop    func(t testing.TB, p sandbox.Provider, name string) // ends it and keeps it
	Pause   func(t testing.TB, p sandbox.Provider, name string) // freezes it
	Restart func(t testing.TB, p sandbox.Provider, name string) // stops and starts it
	Destroy func(t testing.TB, p sandbox.Provider, name string) // removes it
}

// FolderContent is what the file of a [Harness.Folder] holds.
const FolderContent = "content of the host\n"

// A Check is one named rule of the contract.
type Check struct {
	Name  string
	needs func(Harness) string // what the harness lacks, or empty
	run   func(*rig)
	alone bool // it sets or measures what the whole process has

	// shares says that it leaves the sandbox of box or onFiles as it was, but for
	// files, which the next check removes.
	shares bool
}

// A common is a sandbox for each kind of spec that checks share.
type common struct{ box, files *fileSpec }

// sharing are the checks, which share sandboxes where they can.
func sharing(checks []Check) []Check {
	for i, c := range checks {
		checks[i].shares = !c.alone && c.needs == nil
	}
	return checks
}

// makeCommon makes what checks share, until t has ended.
func (h *Harness) makeCommon(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*h.Patience)
	t.Cleanup(cancel)
	r := &rig{TB: t, h: *h, p: h.New(t), ctx: ctx, check: "shared"}
	features := r.p.Features()
	if !features.Persistent {
		return
	}
	box := &fileSpec{Spec: r.spec("box")}
	r.create(box.Spec)
	h.common.box = box
	if features.Files && h.Folder != nil {
		files := r.fileSpec("files")
		r.create(files.Spec)
		h.common.files = files
	}
}

// Run runs every check as a subtest. The checks of one Run are not parallel
// unless [Harness.Together] is set, because each looks for goroutines that were
// left behind.
func Run(t *testing.T, h Harness) {
	checks := Checks()
	known := make(map[string]bool, len(checks))
	for _, c := range checks {
		known[c.Name] = true
	}
	for name := range h.Without {
		if !known[name] {
			t.Errorf("Without names %q, which is no check", name)
		}
	}
	h.Patience = cmp.Or(h.Patience, 2*time.Minute)
	if h.Together {
		h.makeCommon(t)
	}
	first := func(c Check) bool { return c.alone || c.shares && h.common.box != nil || !h.Together }
	for _, c := range checks {
		if first(c) {
			t.Run(c.Name, func(t *testing.T) { c.Run(t, h) })
		}
	}
	if !h.Together {
		return
	}
	leavesNothing(t) // a test's clean-ups run when its parallel subtests have ended
	for _, c := range checks {
		if !first(c) {
			t.Run(c.Name, func(t *testing.T) {
				t.Parallel()
				c.check(t, h, false)
			})
		}
	}
}

// leavesNothing looks for new goroutines when t has ended.
func leavesNothing(t testing.TB) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		if t.Failed() {
			return // a check that gave up leaves what it waited for
		}
		if err := testenv.Find(testenv.Patience, before); err != nil {
			t.Errorf("goroutines are left: %v", err)
		}
	})
}

// Run runs one check. It takes a testing.TB so that a test can hand in a
// recorder and see a check fail.
func (c Check) Run(t testing.TB, h Harness) {
	t.Helper()
	c.check(t, h, true)
}

// check is Run, which looks for goroutines if leaks is set.
func (c Check) check(t testing.TB, h Harness, leaks bool) {
	t.Helper()
	if reason := h.Without[c.Name]; reason != "" {
		t.Skip(reason)
	}
	if h.New == nil || h.Spec == nil {
		t.Fatal("a harness needs New and Spec")
	}
	if c.needs != nil {
		if lack := c.needs(h); lack != "" {
			t.Fatalf("the harness has no %s; give it one, or name the reason in Without", lack)
		}
	}
	h.Programs = h.Programs.orScripts()
	h.Patience = cmp.Or(h.Patience, 2*time.Minute)
	// Clean-ups run in reverse: sandboxes go first, then the provider's
	// own, then we look for what is left.
	if leaks {
		leavesNothing(t)
	}
	if h.Leaks != nil {
		t.Cleanup(func() { h.Leaks(t) })
	}
	// The context serves calls only; a check's own end of context is derived.
	ctx, cancel := context.WithTimeout(context.Background(), 10*h.Patience)
	t.Cleanup(cancel)
	r := &rig{TB: t, h: h, p: h.New(t), ctx: ctx, check: c.Name}
	if c.shares {
		r.common = h.common
	}
	c.run(r)
}

// Checks returns all checks in the order in which Run runs them.
func Checks() []Check {
	var all []Check
	for _, group := range [][]Check{
		lifecycleChecks(), raceChecks(), sharing(streamChecks()), sharing(exitChecks()), sharing(environmentChecks()), limitChecks(),
		sharing(killChecks()), pressureChecks(), sharing(terminalChecks()), closeChecks(), featureChecks(),
		sharing(shellChecks()), sharing(fileChecks()), networkChecks(), egressChecks(),
		startChecks(), behindChecks(), troubleChecks(), remountChecks(),
	} {
		all = append(all, group...)
	}
	return all
}
