package config

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
	policypath "github.com/bulkhead-dev/sandbox/policy/path"
)

// ClosedAllows returns a notice for each entry of filesystem.allowRead and
// filesystem.allowWrite that a deny of the same settings closes, with the rule
// that closes it. Paths is what [PathPolicy] made of r and in. A pattern is named
// where it begins inside a deny: elsewhere a deny may close some of what it
// matches.
//
// Such an entry opens nothing, and the user who wrote it has to be able to see
// why.
func ClosedAllows(r Resolved, in Inside, paths *policypath.Policy) ([]Notice, error) {
	var out []Notice
	for _, l := range []struct {
		name  string
		rules []string
		op    sandbox.Operation
		what  string
		why   string
	}{
		{"filesystem.allowRead", r.Filesystem.AllowRead, sandbox.OpRead, "reading",
			"allowRead opens what lies below a path of denyRead, and neither that path itself nor anything inside the built-in denies"},
		{"filesystem.allowWrite", r.Filesystem.AllowWrite, sandbox.OpWrite, "writing",
			"allowWrite opens nothing inside denyWrite, and inside denyRead only what allowRead opens too"},
	} {
		expanded, err := in.expand(l.name, l.rules)
		if err != nil {
			return nil, r.placed(err)
		}
		for i, rule := range expanded {
			begins, why := rule, l.why
			if isGlob(rule) {
				begins, why = fixedStart(rule), "a pattern opens nothing inside a deny: name the folder"
			}
			if begins == "" {
				continue
			}
			d := paths.Judge(l.op, in.place(r, begins))
			if d.Category != policypath.CategoryRule {
				continue
			}
			out = append(out, Notice{
				Path: r.field(fmt.Sprintf("%s[%d]", l.name, i)), Value: strconv.Quote(l.rules[i]),
				Why: "it is closed for " + l.what + " by " + d.Rule + "; " + why,
			})
		}
	}
	return out, nil
}

// fixedStart returns the folders that a pattern begins with and that are none,
// empty where there is no such folder.
func fixedStart(rule string) string {
	i := strings.LastIndexByte(rule[:strings.IndexAny(rule, "*?[{")], '/')
	return rule[:max(i, 0)]
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
