// Package gate is the one chain of decisions that every call passes before
// anything is created for it: may the tool be used, may the command run, is
// the operation within the grant. It is built from the settings of one agent
// and only computes.
//
// A judgement does not depend on the provider: it is the same whatever sandbox
// the command would run in. A sandbox only changes the effect of "ask", see
// [Gate.Effective]. A denial is one everywhere.
package gate

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/command"
	"github.com/bulkhead-dev/sandbox/policy/network"
	policypath "github.com/bulkhead-dev/sandbox/policy/path"
	"github.com/bulkhead-dev/sandbox/toolpolicy"
)

// A Call describes an action to judge. At most one of Line, Args and
// Interactive is set; with none of them nothing is run.
type Call struct {
	Tool        string   // the tool that is used, as its caller calls it; empty where a person calls
	Line        string   // text for a shell
	Args        []string // a program and its arguments
	Interactive bool     // an interactive shell; asked about when a tool or sub-agent opens it
	Dir         string   // working directory inside, absolute or below that of the settings
	Env         []string // names of the variables that the call itself sets
	Subagent    bool     // the caller is a sub-agent

	// Operation is the operation to judge under a grant; nil without a grant,
	// where the settings alone decide.
	Operation *Operation
}

// A Judgement says what the policies make of a call.
type Judgement struct {
	command.Decision
	Tool *toolpolicy.Decision `json:"tool,omitempty"` // nil when no tool was named
	Text string               `json:"-"`              // what the spans of the reasons refer to

	// Vetted is the operation as it may be done, where one was judged and the
	// verdict is not deny.
	Vetted grant.Vetted `json:"-"`

	refused  error // of the guard of the profile
	everyday bool  // what a shell is to run is allowed where it is judged by itself
}

// A Gate judges the calls of one agent. It is safe for concurrent use.
type Gate struct {
	tools    *toolpolicy.Policy
	commands *command.Policy
	paths    *policypath.Policy
	hosts    *network.Policy
	workdir  string
	auto     bool
}

// New compiles the policies of res. A rule that cannot be read is
// [sandbox.CodeValidation] with its place.
func New(res config.Resolved, in config.Inside) (*Gate, error) {
	tools, err := config.ToolPolicy(res)
	if err != nil {
		return nil, err
	}
	paths, err := config.PathPolicy(res, in)
	if err != nil {
		return nil, err
	}
	commands, err := config.CommandPolicy(res, paths)
	if err != nil {
		return nil, err
	}
	hosts, err := config.HostPolicy(res)
	if err != nil {
		return nil, err
	}
	return &Gate{tools: tools, commands: commands, paths: paths, hosts: hosts, workdir: res.Docker.Workdir, auto: res.Commands.AutoAllowIfSandboxed}, nil
}

// Tools returns the policy for tools.
func (g *Gate) Tools() *toolpolicy.Policy { return g.tools }

// Paths returns the policy for files.
func (g *Gate) Paths() *policypath.Policy { return g.paths }

// Hosts returns the policy for hosts.
func (g *Gate) Hosts() *network.Policy { return g.hosts }

// Judge asks every link of the chain. All of them are asked, so that one
// answer tells everything that is wrong.
func (g *Gate) Judge(c Call) Judgement {
	args := c.Args
	j := Judgement{Decision: g.command(&c), Text: c.Line}
	if len(j.Warnings) > 0 && j.Verdict == policy.Ask {
		j.everyday = g.shellAllows(c, args)
	}
	if c.Operation != nil {
		unquoted(j.Reasons)
		j.Warnings = []policy.Reason{} // which quote arguments
		g.operation(&j, *c.Operation)
	}
	if c.Tool == "" {
		return j
	}
	d := g.tools.Judge(c.Tool)
	j.Tool = &d
	if d.Verdict != policy.Allow {
		j.Verdict = policy.Strictest(j.Verdict, d.Verdict)
		j.Reasons = slices.Insert(j.Reasons, j.profiled(), policy.Reason{Check: "tool", Verdict: d.Verdict, Severity: policy.High, Message: d.Reason, Hint: d.Hint, Rule: d.Rule})
	}
	return j
}

// command judges what is to be run, and leaves it in c as a line.
func (g *Gate) command(c *Call) command.Decision {
	d := command.Decision{Verdict: policy.Allow, Reasons: []policy.Reason{}, Warnings: []policy.Reason{}, Commands: []command.Simple{}, ExcludedReason: "no line is known that could be excluded"}
	switch {
	case c.Interactive && c.Tool == "" && !c.Subagent:
		return d // a person types the lines, and those are not judged
	case c.Interactive:
		d.Verdict = policy.Ask
		d.Reasons = append(d.Reasons, policy.Reason{Check: "interactive", Verdict: policy.Ask, Severity: policy.Medium,
			Message: "what will be typed into a shell cannot be judged beforehand", Hint: "give the shell a line with -c"})
		return d
	case len(c.Args) > 0:
		text, err := command.Quote(c.Args)
		if err != nil {
			d.Verdict = policy.Deny
			d.Reasons = append(d.Reasons, policy.Reason{Check: "syntax", Verdict: policy.Deny, Severity: policy.High,
				Message: "the arguments cannot be judged: " + err.Error(), Hint: "put what is long into a file, and give the program its name"})
			return d
		}
		c.Line = text
	case c.Line == "":
		return d
	}
	dir := c.Dir
	if !path.IsAbs(dir) {
		dir = path.Join(g.workdir, dir)
	}
	return g.commands.Judge(command.Input{Text: c.Line, Dir: dir, Env: c.Env, Subagent: c.Subagent})
}

// Effective returns the verdict where the command would run: inside a sandbox
// that limits what the command can do, no question is asked when
// commands.autoAllowIfSandboxed says so. note says so in that case.
func (g *Gate) Effective(j Judgement, sandboxed bool) (v policy.Verdict, note string) {
	if j.Verdict == policy.Ask && sandboxed && g.auto {
		return policy.Allow, "allowed without asking because it runs inside a sandbox and commands.autoAllowIfSandboxed is true"
	}
	return j.Verdict, ""
}

// Decisive returns the reason that j rests on; ok is false when it allows.
func (j Judgement) Decisive() (r policy.Reason, ok bool) {
	if j.Verdict == policy.Allow {
		return r, false
	}
	for _, r := range j.Reasons {
		if r.Verdict == j.Verdict {
			return r, true
		}
	}
	return policy.Reason{Check: "gate", Verdict: j.Verdict, Severity: policy.High, Message: "no reason was given"}, true
}

// Err returns the refusal of a call as an error that names the reason, the
// part of the text and what to do instead.
func (j Judgement) Err(op string) error {
	r, ok := j.Decisive()
	if !ok {
		return nil
	}
	if r.Check == checkProfile && j.refused != nil {
		return j.refused
	}
	e := &sandbox.Error{Code: cmp.Or(r.Code, sandbox.CodeDenyTool), Op: op, Field: r.Rule, Resource: r.Span.Of(j.Text), Message: r.Check + ": " + r.Message, Hint: r.Hint}
	if others := j.others(); others > 0 {
		e.Message += fmt.Sprintf("; and %d more, which sandbox check shows", others)
	}
	return e
}

// others counts the further reasons that ask for as much.
func (j Judgement) others() int {
	n := -1
	for _, r := range j.Reasons {
		if r.Verdict == j.Verdict {
			n++
		}
	}
	return max(n, 0)
}

// shellAllows reports whether args are a shell with one text to run, which is
// allowed as a line by itself. Within other words the policy can tell less of it.
func (g *Gate) shellAllows(c Call, args []string) bool {
	if len(args) != 3 || !slices.Contains([]string{"sh", "bash", "dash", "ash", "zsh", "ksh"}, path.Base(args[0])) {
		return false
	}
	if o := args[1]; len(o) < 2 || o[0] != '-' || o[len(o)-1] != 'c' || strings.Trim(o[1:], "ceilux") != "" {
		return false
	}
	c.Args, c.Line = nil, args[2]
	return g.command(&c).Verdict == policy.Allow
}

// Warned returns what strictness strict would refuse in the line, one sentence
// each. For a line that is allowed it returns nothing: that is an everyday
// line, and a warning would be noise.
func (j Judgement) Warned() []string {
	if j.Verdict == policy.Allow || j.everyday {
		return nil
	}
	var out []string
	for _, w := range j.Warnings {
		out = append(out, w.Message)
	}
	return out
}

// Summary is the text of j for people, in one line.
func (j Judgement) Summary() string {
	if r, ok := j.Decisive(); ok {
		return r.Check + ": " + r.Message
	}
	if len(j.Commands) == 0 {
		return "nothing is run"
	}
	names := []string{}
	for _, c := range j.Commands {
		if len(c.Words) > 0 && !slices.Contains(names, c.Words[0]) {
			names = append(names, c.Words[0])
		}
	}
	return "nothing speaks against it; it runs " + strings.Join(names, ", ")
}
