// Package attack is the self-test of a sandbox: it tries the known ways out
// from inside and reports what happened to each.
//
// The attempts run in a temporary sandbox, some of them without mercy: a
// fork bomb, memory and disks filled, signals to everybody. What a probe says
// inside is not believed alone where it can be seen from outside whether the
// attempt came through: in the host's free space, in what a second command
// received, in whether the sandbox and its neighbour still answer. An attempt
// that could not be carried out counts as unproven, and unproven fails the
// test: the test must not pass because it could not look.
package attack

import (
	"context"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// An Outcome is what came of an attempt.
type Outcome string

// The outcomes.
const (
	Contained Outcome = "contained" // the isolation held
	Escaped   Outcome = "escaped"   // it did not
	Skipped   Outcome = "skipped"   // does not apply here, or the settings leave it open on purpose; Seen says which
	Unproven  Outcome = "unproven"  // could not be carried out; counts as failure
)

// A Result is one attempt and what was seen of it. Seen is safe for a terminal.
type Result struct {
	Name    string  `json:"name"`
	What    string  `json:"what"`
	Outcome Outcome `json:"outcome"`
	Seen    string  `json:"seen"`
}

// A Report holds the results in the order of the attempts.
type Report struct {
	Sandbox string   `json:"sandbox"`
	Runtime string   `json:"runtime"` // "gvisor", or "linux" where programs reach the host's kernel
	Results []Result `json:"results"`
}

// Failed reports whether any attempt escaped or is unproven, or none was made.
func (r Report) Failed() bool {
	return len(r.Results) == 0 || r.Count(Escaped)+r.Count(Unproven) > 0
}

// Count returns how many attempts had the outcome o.
func (r Report) Count(o Outcome) int {
	n := 0
	for _, res := range r.Results {
		if res.Outcome == o {
			n++
		}
	}
	return n
}

// Options say what the self-test may use beside the sandbox. The zero value
// works and proves less.
type Options struct {
	// Probe is the program that makes the attempts, with its first
	// arguments. Nil is the guest binary, mounted into every sandbox.
	Probe []string

	// Neighbour is another sandbox of the same settings. Nil leaves out the
	// proof that it is not harmed.
	Neighbour sandbox.Sandbox

	// Reopen opens a new handle to the attacked sandbox. Nil leaves out
	// whether a false guest is taken for the real one.
	Reopen func(ctx context.Context) (sandbox.Sandbox, error)

	// WorkspaceQuota is the bound of the workspace in bytes; 0 is unbounded.
	WorkspaceQuota int64

	// NoMemoryLimit says why the sandbox bounds no memory, for providers that
	// cannot; empty is for those that do.
	NoMemoryLimit string

	// Firewall says what closes the network of a sandbox without one, for providers
	// that do not leave it without an interface; empty is for those that do.
	Firewall string

	// Known are ways that the provider leaves open and says so; they count as
	// skipped.
	Known []Known

	// Disks are host folders whose file systems must not fill up: the state
	// folder, the engine's data folder.
	Disks []string

	// CanaryDir is a host folder for a file that must not be readable
	// inside. Empty is the folder for temporary files.
	CanaryDir string

	// Timeout bounds one attempt; default 60 s.
	Timeout time.Duration

	// Burn is how long a fork bomb and its like are let run; default 2 s.
	Burn time.Duration

	// Progress is called with each result when it is known. It may be nil.
	Progress func(Result)
}

// A Known is a way that is open by what the sandbox is made with.
type Known struct {
	Name string // of the attempt
	Seen string // all that was seen, or its beginning where it ends with "…"
	Any  bool   // whatever was seen
	Why  string
}

// known returns why an attempt may have come through, if that is known.
func (o Options) known(name, seen string) (why string, ok bool) {
	if name == "interfaces" && o.Firewall != "" {
		return o.Firewall, true
	}
	for _, k := range o.Known {
		begin, open := strings.CutSuffix(k.Seen, "…")
		if k.Name == name && (k.Any || seen == k.Seen || open && strings.HasPrefix(seen, begin) && !strings.Contains(seen[len(begin):], ",")) {
			return k.Why, true
		}
	}
	return "", false
}

// Run makes every attempt in sb, which s describes and which is of no use
// afterwards: the caller removes it. Attempts run one after another, so that
// what each leaves behind can be attributed to it. When ctx ends the remaining
// attempts are unproven.
func Run(ctx context.Context, sb sandbox.Sandbox, s sandbox.Spec, o Options) Report {
	r := newRig(sb, s, o)
	rep := Report{Sandbox: sb.Info().Name, Runtime: r.detectRuntime(ctx)}
	for _, a := range attempts() {
		res := Result{Name: a.name, What: a.what}
		if err := ctx.Err(); err != nil {
			res.Outcome, res.Seen = Unproven, "the self-test was ended: "+err.Error()
		} else {
			res.Outcome, res.Seen = r.try(ctx, a)
		}
		res.Seen = termsafe.Line(res.Seen)
		rep.Results = append(rep.Results, res)
		if o.Progress != nil {
			o.Progress(res)
		}
	}
	return rep
}

// try makes one attempt and puts its finding into the light of runtime and
// settings.
func (r *rig) try(ctx context.Context, a attempt) (Outcome, string) {
	ctx, done := context.WithTimeout(ctx, r.opts.Timeout)
	defer done()
	f := a.run(ctx, r)
	if f.outcome != Escaped {
		return f.outcome, f.seen
	}
	if a.emulated && r.gvisor {
		return Contained, f.seen + " — by gVisor's own kernel, the host's was not reached"
	}
	if a.opens != "" && r.open(a.opens) {
		return Skipped, f.seen + " — open by the setting " + a.opens
	}
	if why, ok := r.opts.known(a.name, f.seen); ok {
		return Skipped, f.seen + " — " + why
	}
	return f.outcome, f.seen
}

// open reports whether the break-glass switch name is in force.
func (r *rig) open(name string) bool {
	for _, d := range r.spec.Security.Dangerous {
		if d == name || strings.HasPrefix(d, name+"=") {
			return true
		}
	}
	return false
}
