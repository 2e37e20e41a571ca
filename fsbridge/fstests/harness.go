// Package fstests is the suite for file operations in a sandbox.
//
// Every transport passes it: a test calls [Run] with a [Harness] that builds
// a sandbox and opens its files. Attacks run as commands in that sandbox.
// Each sentence of the contracts is one named check; a check that a harness
// cannot take is named in [Harness.Without] with the reason, so that nothing
// is left out in silence.
//
// Commands of the suite need sh, cat, chmod, ln, ls, mkdir, mkfifo, mv, rm,
// seq, stat and touch.
package fstests

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// A Harness tells the suite about one transport.
type Harness struct {
	// New returns a new sandbox and its files. What must be closed or
	// removed is registered with t.Cleanup. It is called once a Run.
	New func(t testing.TB) Rig

	// Rounds is how often a race is tried; zero is 2,000 with "make
	// test-all", 100 with the flag -short, else 400.
	Rounds int

	// Settle lets go of what a transport keeps for its next use, such as idle
	// connections, before goroutines are counted. Nil does nothing.
	Settle func()

	// Without names checks that cannot be run and the reason. A name that
	// is no check is an error.
	Without map[string]string
}

// A Rig is an open sandbox with the places that checks work in.
type Rig struct {
	Sandbox sandbox.Sandbox // attacks run here
	Files   sandbox.Files   // under test; a Bridge, so that it maps paths

	Dir      string // inside: an empty writable folder of a mount, or the mount itself
	Outside  string // inside: an empty writable folder beyond the mount of Dir, served or not
	ReadOnly string // inside: a read-only mount with the file "file", which holds "read-only\n"
	Small    string // inside: an empty writable mount of its own, of at most 4 MiB

	// Swap exchanges two names in one step, again and again as fast as it
	// can, until stop is called; a name that is missing for a while is no
	// reason to end. It makes races sharper than a shell in the sandbox
	// can. Nil does without.
	Swap func(t testing.TB, a, b string) (stop func())
}

// A Check is one named rule of the contract.
type Check struct {
	Name string
	run  func(*rig)
}

// guards spares goroutines of a local sandbox that its first use may start, and that
// end with it.
func guards() goleak.Option {
	return goleak.IgnoreAnyFunction("github.com/bulkhead-dev/sandbox/provider/local/mountwatch.await")
}

// Run runs every check as a subtest.
func Run(t *testing.T, h Harness) {
	known := map[string]bool{}
	for _, c := range Checks() {
		known[c.Name] = true
	}
	for name := range h.Without {
		if !known[name] {
			t.Errorf("Without names %q, which is no check", name)
		}
	}
	if h.Rounds == 0 {
		h.Rounds = testenv.Rounds(100, 400, 2000)
	}
	base := h.New(t)
	for i, c := range Checks() {
		t.Run(c.Name, func(t *testing.T) {
			if reason := h.Without[c.Name]; reason != "" {
				t.Skip(reason)
			}
			before := goleak.IgnoreCurrent()
			defer func() {
				if t.Failed() {
					return
				}
				var err error
				for end := time.Now().Add(testenv.Patience); time.Now().Before(end); {
					if h.Settle != nil { // a connection may become idle after the last call
						h.Settle()
					}
					if err = testenv.Find(testenv.Patience/100, before, guards()); err == nil {
						return
					}
				}
				t.Errorf("goroutines are left: %v", err)
			}()
			c.run(newRig(t, base, h.Rounds, i))
		})
	}
}

// Checks returns all checks in the order in which Run runs them.
func Checks() []Check {
	var all []Check
	for _, group := range [][]Check{
		contentChecks(), describeChecks(), nameChecks(), changeChecks(), errorChecks(), pathChecks(),
		writeChecks(), cancelChecks(), linkChecks(), noLinkChecks(), specialChecks(), raceChecks(), limitChecks(),
		treeChecks(), viewChecks(), tarChecks(),
	} {
		all = append(all, group...)
	}
	return all
}
