package config

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
	policypath "github.com/bulkhead-dev/sandbox/policy/path"
)

// ClosedAllows returns a notice for each path of filesystem.allowRead and
// filesystem.allowWrite that a deny of the same settings closes, with the rule
// that closes it. Paths is what [PathPolicy] made of r and in. Patterns are
// left out: a deny may close some of what they match.
//
// A deny beats every allow, so such an entry opens nothing, and the user who
// wrote it has to be able to see why.
func ClosedAllows(r Resolved, in Inside, paths *policypath.Policy) ([]Notice, error) {
	var out []Notice
	for _, l := range []struct {
		name  string
		rules []string
		op    sandbox.Operation
		what  string
	}{
		{"filesystem.allowRead", r.Filesystem.AllowRead, sandbox.OpRead, "reading"},
		{"filesystem.allowWrite", r.Filesystem.AllowWrite, sandbox.OpWrite, "writing"},
	} {
		expanded, err := in.expand(l.name, l.rules)
		if err != nil {
			return nil, r.placed(err)
		}
		for i, rule := range expanded {
			if isGlob(rule) {
				continue
			}
			d := paths.Judge(l.op, in.place(r, rule))
			if d.Category != policypath.CategoryRule {
				continue
			}
			out = append(out, Notice{
				Path: r.field(fmt.Sprintf("%s[%d]", l.name, i)), Value: strconv.Quote(l.rules[i]),
				Why: "it is closed for " + l.what + " by " + d.Rule + "; a deny beats every allow, at any depth",
			})
		}
	}
	return out, nil
}

// place returns the absolute path that an expanded rule without patterns
// names: below the host's home where commands may see it, else below the home
// inside.
func (in Inside) place(r Resolved, rule string) string {
	rest, home := strings.CutPrefix(rule, "~")
	switch {
	case home && in.Home != "":
		return path.Join(in.Home, rest)
	case home:
		return path.Join(r.home(), rest)
	case !path.IsAbs(rule):
		return path.Join(sandbox.WorkspaceDir, rule)
	}
	return rule
}
