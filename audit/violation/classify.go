// Package violation determines whether the rules of a sandbox stopped a
// command, and adds the result to the command's error output for its reader.
//
// The text of an error proves nothing: "Permission denied" is also the message
// for a file without read permission. So a command counts as blocked only when
// there is evidence for it. The kinds of evidence, from strong to weak, are
// [sandbox.Evidence]:
//
//   - certain: the sandbox observed the attempt and refused it;
//   - strong: the command failed, and a line of its error output has the
//     text of a denial and names a path that the rules deny, or says that it
//     could not reach a host that they do not allow;
//   - weak: the command failed and names a denied path without such a
//     text. That is reported and does not count as blocked.
//
// The output of a command is untrusted input: a program can write lines that
// make it look stopped. All it gains is a question to a person that names the
// path it asks about.
//
// The package only computes. Its time is linear in a bounded part of its input.
package violation

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// Bounds of what is looked at and reported.
const (
	// MaxTail is how many bytes at the end of the error output are looked at.
	MaxTail = 64 << 10
	// MaxStdout is how many bytes at the end of the output are looked at for hosts,
	// where the error output says nothing.
	MaxStdout = 16 << 10
	// MaxViolations bounds what is reported of one command.
	MaxViolations = 64

	maxWeak   = 8       // weak ones among them
	maxJudged = 1 << 10 // questions to the rules for one command
	maxPath   = 4096    // bytes, as in the kernel
	maxLines  = 1000    // at the end
)

// An Ending is what is known of a command that has ended.
type Ending struct {
	Exit     sandbox.Exit
	Dir      string              // its working directory inside, to resolve relative names; empty leaves those out
	Stderr   []byte              // the end of what it wrote there; only the last MaxTail bytes count
	Stdout   []byte              // the end of its output, where that is apart; only the last MaxStdout bytes count, and for hosts alone
	Observed []sandbox.Violation // observed by the sandbox, oldest first; weak ones were undone and stopped nothing
	Command  string              // its text; its URLs name the host where a message names none
	// Network says of a host that was not reached by which name and rule it is
	// refused, and whether it is. The port may be 0. Nil: hosts are not looked
	// for, since programs need no proxy.
	Network func(host string, port uint16) (target, rule string, denied bool)
	At      time.Time // stamps what is found in the output
}

// A Finding says what was stopped.
type Finding struct {
	Violations []sandbox.Violation // what was tried and stopped, certain ones first
	Blocked    bool                // the command failed, and that is why, with evidence
	Reason     string              // why, in one line for people; empty unless Blocked
	Resource   string              // what it is about; empty unless Blocked

	// Causes are the violations that Blocked rests on, the likeliest first:
	// those that the sandbox observed and the program reports, then those that
	// the program reports, then those that the sandbox observed. Among hosts
	// the one that was refused last comes first.
	Causes []sandbox.Violation
}

// Classify judges the end of a command by the rules of its sandbox; j may be
// nil for a sandbox without rules for paths.
//
// A command that succeeds is never blocked: it did without what the sandbox
// refused, and that is only reported.
func Classify(j sandbox.Judge, e Ending) Finding {
	c := &classifier{judge: j, network: e.Network, dir: e.Dir, at: e.At, confirmed: map[string]bool{}}
	for _, v := range e.Observed {
		if v.Evidence != sandbox.EvidenceWeak { // which blocks nothing
			v.Evidence = sandbox.EvidenceCertain
		}
		c.forget(v)
		c.add(v)
	}
	if e.Exit.Code == 0 {
		return Finding{Violations: c.found}
	}
	lines := linesOf(e.Stderr, MaxTail)
	if j != nil {
		for _, line := range lines {
			c.line(line)
		}
	}
	if c.network != nil {
		c.hosts(lines, e.Command)
	}
	if c.network != nil && !c.named && len(c.found) == 0 { // the error output says nothing of it
		c.hosts(linesOf(e.Stdout, MaxStdout), e.Command)
	}
	return c.finding()
}

// linesOf returns the last lines of the last most bytes, without control characters.
func linesOf(b []byte, most int) []string {
	lines := strings.Split(string(b[max(0, len(b)-most):]), "\n")
	lines = lines[max(0, len(lines)-maxLines):]
	for i, line := range lines {
		lines[i] = plain(strings.TrimRight(line, "\r"))
	}
	return lines
}

// A classifier gathers the violations of one command.
type classifier struct {
	judge   sandbox.Judge
	network func(host string, port uint16) (target, rule string, denied bool)
	dir     string
	at      time.Time
	judged  int  // questions asked so far
	weak    int  // weak violations so far
	named   bool // a line has named a host that was not reached

	found     []sandbox.Violation
	confirmed map[string]bool // resources that a line with a denial's text names
}

// line looks for denied paths in one line. It ends with the surest reading
// that names one: the others have pieces of the same name.
func (c *classifier) line(line string) {
	s := read(line)
	for _, names := range s.names {
		found := false
		for _, name := range names {
			found = c.name(s, name) || found
		}
		if found {
			return
		}
	}
}

// name reports what may be a path if the rules deny it.
func (c *classifier) name(s sentence, name string) bool {
	p := c.resolve(name)
	if p == "" {
		return false
	}
	v, denied := c.ask(cmp.Or(s.op, sandbox.OpRead), p)
	strong := s.denial
	if !denied && s.denial && s.op == "" {
		// The message does not say which operation failed. For a path that may
		// be read the file mode is the likelier reason, so this is only a hint.
		v, denied = c.ask(sandbox.OpWrite, p)
		strong = false
	}
	if !denied {
		return false
	}
	v.Evidence = sandbox.EvidenceWeak
	if strong {
		v.Evidence = sandbox.EvidenceStrong
		c.confirmed[p] = true
	}
	c.add(v)
	return true
}

// resolve makes a name in the output an absolute path inside, or "".
func (c *classifier) resolve(name string) string {
	switch {
	case name == "" || len(name) > maxPath || strings.ContainsRune(name, 0):
		return ""
	case path.IsAbs(name):
		return path.Clean(name)
	case path.IsAbs(c.dir):
		return path.Join(c.dir, name)
	}
	return ""
}

// ask asks the rules about one operation on one path.
func (c *classifier) ask(op sandbox.Operation, p string) (sandbox.Violation, bool) {
	if c.judged == maxJudged {
		return sandbox.Violation{}, false
	}
	c.judged++
	verdict := c.judge.Judge(op, p)
	return sandbox.Violation{
		Kind: sandbox.ResourcePath, Operation: op, Resource: p, Rule: verdict.Rule,
		Builtin: verdict.Builtin, HostPath: verdict.HostPath, Time: c.at,
	}, !verdict.Allowed
}

// add reports v unless something is known of its resource that is as strong.
func (c *classifier) add(v sandbox.Violation) {
	same := slices.IndexFunc(c.found, func(f sandbox.Violation) bool {
		return f.Kind == v.Kind && f.Resource == v.Resource &&
			(f.Operation == v.Operation || f.Evidence == sandbox.EvidenceCertain && v.Evidence != sandbox.EvidenceCertain)
	})
	switch {
	case same >= 0 && (c.found[same].Evidence != sandbox.EvidenceWeak || v.Evidence == sandbox.EvidenceWeak):
	case same >= 0:
		c.found[same] = v
		c.weak--
	case len(c.found) == MaxViolations || v.Evidence == sandbox.EvidenceWeak && c.weak == maxWeak:
	default:
		c.found = append(c.found, v)
		if v.Evidence == sandbox.EvidenceWeak {
			c.weak++
		}
	}
}

// forget takes out what is known of a host that was refused again: hosts are
// kept in the order of their last refusals.
func (c *classifier) forget(v sandbox.Violation) {
	if v.Kind == sandbox.ResourceNetwork {
		c.found = slices.DeleteFunc(c.found, func(f sandbox.Violation) bool { return f.Kind == v.Kind && f.Resource == v.Resource })
	}
}

// lastFirst turns the hosts among causes around, in the places that they have:
// programs try several and fail at the last.
func lastFirst(causes []sandbox.Violation) {
	var hosts []int
	for i, v := range causes {
		if v.Kind == sandbox.ResourceNetwork {
			hosts = append(hosts, i)
		}
	}
	for a, b := 0, len(hosts)-1; a < b; a, b = a+1, b-1 {
		causes[hosts[a]], causes[hosts[b]] = causes[hosts[b]], causes[hosts[a]]
	}
}

// finding weighs what was found of a command that has failed.
func (c *classifier) finding() Finding {
	slices.SortStableFunc(c.found, func(a, b sandbox.Violation) int { return rank(a.Evidence) - rank(b.Evidence) })
	f := Finding{Violations: c.found}
	for _, fits := range []func(sandbox.Violation) bool{
		func(v sandbox.Violation) bool {
			return v.Evidence == sandbox.EvidenceCertain && c.confirmed[v.Resource]
		},
		func(v sandbox.Violation) bool { return v.Evidence == sandbox.EvidenceStrong },
		func(v sandbox.Violation) bool { return v.Evidence == sandbox.EvidenceCertain },
	} {
		for _, v := range c.found {
			if fits(v) {
				f.Causes = append(f.Causes, v)
			}
		}
		if len(f.Causes) > 0 {
			lastFirst(f.Causes)
			f.Blocked, f.Reason, f.Resource = true, Reason(f.Causes[0]), f.Causes[0].Resource
			return f
		}
	}
	return f
}

func rank(e sandbox.Evidence) int {
	return slices.Index([]sandbox.Evidence{sandbox.EvidenceCertain, sandbox.EvidenceStrong, sandbox.EvidenceWeak}, e)
}

// Reason describes in one line for people why v was stopped and how that is
// known. It contains names from inside the sandbox; the caller escapes it
// before displaying it.
func Reason(v sandbox.Violation) string {
	how := "named by the program, which proves little"
	switch v.Evidence {
	case sandbox.EvidenceCertain:
		how = "seen by the sandbox"
		if v.Kind == sandbox.ResourceNetwork {
			how = "refused on the way out"
		}
	case sandbox.EvidenceStrong:
		how = "reported by the program"
	}
	rule := v.Rule
	if rule == "" {
		rule = "no rule allows it"
	}
	return fmt.Sprintf("%s %s: denied: %s (%s)", v.Operation, v.Resource, rule, how)
}
