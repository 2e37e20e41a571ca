// Package toolpolicy decides whether an agent may use a tool.
//
// There are three layers of lists, of which a stronger one takes the place of
// a weaker one: built in, settings for all agents, settings of one agent.
// What is asked, in this order:
//
//  1. Does a rule take the tool away that no list brings back? A read-only
//     workspace takes write, edit, apply_patch and checkpoint away.
//  2. Does a deny of the settings name the tool? It is denied: deny is first.
//  3. Does a built-in deny name it? It is denied, unless an allow or alsoAllow
//     of the settings names it. "*" names nothing in particular, so it lifts
//     no built-in deny, and neither does an empty allow.
//  4. Is the allow list empty? Then it is allowed.
//  5. Does allow or alsoAllow name it? Then it is allowed. image is always
//     among the allowed ones.
//  6. Otherwise it is denied.
//
// Names are compared without case, under all the names that a tool has (bash
// is exec). An entry is a name, a pattern with "*" for any characters, or a
// group ("group:fs"). ls, glob and grep are ways to read: an entry that names
// read names them, too, and one that names one of them is about that one alone.
// The package only computes; a Policy is safe for concurrent use.
package toolpolicy

import (
	"fmt"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy"
)

// maxName is the longest name of a tool, in bytes.
const maxName = 128

// A List is one list of entries with the layer that it came from, for messages:
// "default", "agents.defaults", "agents.list[researcher]".
type List struct {
	Entries []string
	Layer   string
}

// Options say what a policy is made of. A list that no settings have is left
// nil; an Allow that is set and empty allows all.
type Options struct {
	Allow, AlsoAllow, Deny *List

	ReadOnly      bool     // the workspace may not be written
	ReadOnlyLayer string   // the layer that says so
	Channels      []string // further messaging channels, denied as the built-in ones are
}

// A Policy answers which tools may be used.
type Policy struct {
	allow, also, deny rules
	own               rules // built-in denies
	open              bool  // the allow list is empty
	explicit          bool  // the allow list is that of settings
	readOnly          rules
}

// A Decision says whether a tool may be used, and why.
type Decision struct {
	Tool    string         `json:"tool"` // under its first name
	Verdict policy.Verdict `json:"verdict"`
	Rule    string         `json:"rule"`  // the entry or rule that decided
	Layer   string         `json:"layer"` // where it stands
	Reason  string         `json:"reason"`
	Hint    string         `json:"hint,omitempty"` // what would change it
}

// Err returns the refusal as an error, or nil where the tool is allowed.
func (d Decision) Err() error {
	if d.Verdict == policy.Allow {
		return nil
	}
	return &sandbox.Error{Code: sandbox.CodeDenyTool, Op: "tool", Field: d.Rule, Resource: d.Tool, Message: d.Reason, Hint: d.Hint}
}

// New compiles a policy. A malformed entry and a group that does not exist are
// [sandbox.CodeValidation]: an entry that matches nothing would be a deny that
// does not hold.
func New(o Options) (*Policy, error) {
	p := &Policy{open: o.Allow != nil && len(o.Allow.Entries) == 0, explicit: o.Allow != nil}
	var err error
	add := func(to *rules, l *List, name string) {
		if l != nil && err == nil {
			*to, err = compile(*l, name)
		}
	}
	builtin := "default"
	if o.Allow == nil {
		o.Allow = &List{Entries: Allowed(), Layer: builtin}
	}
	add(&p.allow, o.Allow, "tools.allow")
	add(&p.also, o.AlsoAllow, "tools.alsoAllow")
	add(&p.deny, o.Deny, "tools.deny")
	add(&p.own, &List{Entries: append(Denied(), o.Channels...), Layer: builtin}, "tools.deny")
	if o.ReadOnly {
		add(&p.readOnly, &List{Entries: changing(), Layer: o.ReadOnlyLayer}, "workspaceAccess")
	}
	return p, err
}

// Judge says whether the tool may be used. A name that no tool can have is
// denied.
func (p *Policy) Judge(tool string) Decision {
	t, ok := canonical(tool)
	if !ok {
		return Decision{Tool: tool, Verdict: policy.Deny, Rule: "name", Layer: "default",
			Reason: fmt.Sprintf("%q is no name of a tool: letters, digits and _ - . : / @, at most %d of them", tool, maxName), Hint: "use the name that the tool is listed under"}
	}
	deny := func(r *rule, reason, hint string) Decision {
		return Decision{Tool: t, Verdict: policy.Deny, Rule: r.String(), Layer: r.layer, Reason: reason, Hint: hint}
	}
	if d, denied := p.readOnlyDenies(t); denied {
		return d
	}
	if r := p.deny.anyName(t); r != nil {
		return deny(r, fmt.Sprintf("%s is denied by %s (%s)", t, r, r.layer), "take the entry out of "+r.list+", or do without the tool")
	}
	lifted := p.lifts(t)
	if r := p.own.anyName(t); r != nil && lifted == nil {
		return deny(r, fmt.Sprintf("%s is denied by default (entry %s)", t, r.text), "name it in tools.alsoAllow to allow it")
	}
	return p.allowed(t)
}

// Changes says whether files may be changed at all, by a person or a program
// that uses no tool as well. A read-only workspace denies it, in the words in
// which it denies the tool write; the lists of tools are not asked.
func (p *Policy) Changes() Decision {
	t := changing()[0]
	if d, denied := p.readOnlyDenies(t); denied {
		return d
	}
	return Decision{Tool: t, Verdict: policy.Allow, Rule: "workspaceAccess", Layer: "default", Reason: "the workspace is not read-only"}
}

// readOnlyDenies returns the denial of the tool t, which is canonical, where t
// changes files and the workspace is read-only.
func (p *Policy) readOnlyDenies(t string) (d Decision, denied bool) {
	r := p.readOnly.names(t)
	if r == nil {
		return d, false
	}
	return Decision{
		Tool: t, Verdict: policy.Deny, Rule: (&rule{list: "workspaceAccess", text: "ro"}).String(), Layer: r.layer,
		Reason: fmt.Sprintf("%s changes files, and workspaceAccess is ro (%s)", t, r.layer),
		Hint:   "set workspaceAccess to rw, private or none, or work without changing files",
	}, true
}

// lifts returns the entry of the settings that names t in particular, or nil.
func (p *Policy) lifts(t string) *rule {
	if r := p.also.particular(t); r != nil {
		return r
	}
	if p.explicit {
		return p.allow.particular(t)
	}
	return nil
}

// allowed answers for a tool that nothing denies.
func (p *Policy) allowed(t string) Decision {
	allow := func(rule, layer, reason string) Decision {
		return Decision{Tool: t, Verdict: policy.Allow, Rule: rule, Layer: layer, Reason: reason}
	}
	if r := p.also.names(t); r != nil {
		return allow(r.String(), r.layer, fmt.Sprintf("%s is allowed by %s (%s)", t, r, r.layer))
	}
	if r := p.allow.names(t); r != nil {
		return allow(r.String(), r.layer, fmt.Sprintf("%s is allowed by %s (%s)", t, r, r.layer))
	}
	layer := p.allow.layer
	switch {
	case p.open:
		return allow("tools.allow", layer, fmt.Sprintf("%s is allowed: tools.allow (%s) is empty, which is all tools", t, layer))
	case t == alwaysAllowed:
		return allow(alwaysAllowed, "default", t+" is allowed whatever tools.allow says, unless it is denied")
	}
	return Decision{Tool: t, Verdict: policy.Deny, Rule: "tools.allow", Layer: layer,
		Reason: fmt.Sprintf("%s is not in tools.allow (%s)", t, layer), Hint: "add it to tools.alsoAllow, or use one that is allowed: " + p.list()}
}

// list names some of what is allowed.
func (p *Policy) list() string {
	const most = 12
	var out []string
	for _, r := range append(p.allow.entries, p.also.entries...) {
		if len(out) == most {
			return strings.Join(out, ", ") + ", …"
		}
		out = append(out, r.text)
	}
	return strings.Join(out, ", ")
}

// Filter returns those of tools that may be used, in their order and as they
// are spelled.
func (p *Policy) Filter(tools []string) []string {
	out := []string{}
	for _, t := range tools {
		if p.Judge(t).Verdict == policy.Allow {
			out = append(out, t)
		}
	}
	return out
}
