// Package command decides whether a shell command line may run: allowed, to be
// asked about, or denied, with reasons that a user can act on.
//
// A [Policy] judges what [line.Parse] found in the text, never the text
// itself: seven checks, each a table, look at the commands, redirections,
// assignments and constructs of the line; the strictness turns the severity
// of what they find into a verdict; rules of the user allow or block
// commands. Words in quotes, comments and quoted here-documents are data.
//
// The decision is asymmetric. Rules allow a line only when they name every
// command in it, while one blocked command at any depth denies the whole line.
// What the text does not determine is never allowed.
//
// The policy is a filter in front of the sandbox. It saves questions and
// accidents; it does not replace the sandbox, because programs do things that
// their arguments do not show.
package command

import (
	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/path"
)

// Rules are the settings that a Policy is made of.
type Rules struct {
	Strictness    Strictness   // empty is Restricted
	Allow         []string     // commands that run without asking
	Block         []string     // commands that never run
	SubagentBlock []string     // commands that never run for a sub-agent
	Excluded      []string     // commands that may run outside the sandbox
	Paths         *path.Policy // judges files; nil knows the sensitive files below Home and no roots
	Home          string       // absolute folder that ~ stands for where commands run; empty is unknown
}

// A Policy judges lines. It does not change after New, and any number of
// goroutines may use it at once.
type Policy struct {
	strictness    Strictness
	allow         []rule
	block         []rule
	subagentBlock []rule
	excluded      []rule
	paths         files
	home          string
	tables        *tables
}

// New reads the rules. An error is a *sandbox.Error of CodeValidation whose
// Field is the JSON path of the setting at fault, below the sandbox object:
// "commands.allow[2]".
func New(r Rules) (*Policy, error) {
	p, err := read(r)
	if err != nil {
		return nil, err
	}
	if p.paths, err = newFiles(r.Paths, r.Home); err != nil {
		return nil, err
	}
	p.tables = builtin()
	return p, nil
}

// Check returns the error that New would return because of the strictness or
// a rule for commands, at a fraction of what New costs.
func Check(r Rules) error {
	_, err := read(r)
	return err
}

// read reads what concerns commands.
func read(r Rules) (*Policy, error) {
	p := &Policy{strictness: r.Strictness, home: r.Home}
	if p.strictness == "" {
		p.strictness = Restricted
	}
	if err := p.strictness.validate(); err != nil {
		return nil, err
	}
	for _, list := range []struct {
		field string
		from  []string
		to    *[]rule
	}{
		{"commands.allow", r.Allow, &p.allow},
		{"commands.block", r.Block, &p.block},
		{"commands.subagentBlock", r.SubagentBlock, &p.subagentBlock},
		{"commands.excluded", r.Excluded, &p.excluded},
	} {
		rules, err := compileRules(list.field, list.from)
		if err != nil {
			return nil, err
		}
		*list.to = rules
	}
	return p, nil
}

// Input is one line to be judged.
type Input struct {
	Text     string   // as a shell gets it
	Dir      string   // working directory inside the sandbox, absolute; empty is unknown
	Env      []string // names of variables that the caller sets for it, beyond those of the settings
	Subagent bool     // the caller is a sub-agent
}

// A Decision is what Judge says about one line. Its slices are never nil.
type Decision struct {
	Verdict        policy.Verdict  `json:"verdict"`
	Reasons        []policy.Reason `json:"reasons"`        // strictest first, then in the order of the text; bounded
	Warnings       []policy.Reason `json:"warnings"`       // what strictness strict would deny, in the order of the text; none asks for anything
	Commands       []Simple        `json:"commands"`       // every simple command, in the order of the text
	Excluded       bool            `json:"excluded"`       // the text of the line allows it to run outside the sandbox
	ExcludedReason string          `json:"excludedReason"` // why, or why not
}

// A Simple is one simple command of a line, wrappers and assignments taken
// off.
type Simple struct {
	Words    []string    `json:"words"` // what the program gets; as written where the text does not tell
	Text     string      `json:"text"`  // the words in one line, as rules see them
	Span     policy.Span `json:"span"`
	Wrappers []string    `json:"wrappers"` // what was taken off, outermost first; never nil
	Via      string      `json:"via"`      // how the shell comes to it: "pipe, nested-shell"; empty for a plain one
}
