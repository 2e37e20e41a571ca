package path

import (
	"strconv"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy"
)

// judgeRoots says whether at lies where work is done.
func (p *Policy) judgeRoots(op sandbox.Operation, at place, homes *homes) Decision {
	if op == sandbox.OpRead {
		if p.reads || p.mayRead.first(at.segs, homes) != nil {
			return Decision{Verdict: policy.Allow}
		}
		return Decision{
			Verdict: p.unlessAsked(), Severity: policy.Medium, Category: CategoryRoots, Rule: "roots",
			Message: "reading " + strconv.Quote(at.text) + ", which lies outside the folders that may be read",
			Hint:    "work with files of the workspace, or have filesystem.allowRead name the folder",
		}
	}
	if p.mayWrite.first(at.segs, homes) != nil {
		return Decision{Verdict: policy.Allow}
	}
	if temporary(at.segs) {
		return p.judgeTemporary(op, at)
	}
	return Decision{
		Verdict: p.unlessAsked(), Severity: policy.High, Category: CategoryRoots, Rule: "roots",
		Message: verb(op) + " " + strconv.Quote(at.text) + ", which lies outside the folders that may be written",
		Hint:    "write below the workspace, or have filesystem.allowWrite name the folder",
	}
}

// judgeTemporary judges a write to a temporary file that no rule allows.
func (p *Policy) judgeTemporary(op sandbox.Operation, at place) Decision {
	if !p.temp {
		return Decision{Verdict: policy.Allow}
	}
	return Decision{
		Verdict: policy.Deny, Severity: policy.High, Category: CategoryTemporary, Rule: "filesystem.tempPrefixes",
		Message: verb(op) + " " + strconv.Quote(at.text) + ", which lies outside the temporary folders that may be written",
		Hint:    p.tempHint,
	}
}

// tempHint says where a temporary file may be written. It names the first few
// of the prefixes.
func tempHint(folders []string) string {
	const most = 3
	var prefixes []string
	for _, f := range folders {
		if f = strings.TrimSuffix(f, "/"); strings.HasPrefix(strings.TrimPrefix(f, "/private"), "/tmp") || strings.HasPrefix(strings.TrimPrefix(f, "/private"), "/var/tmp") {
			prefixes = append(prefixes, f)
		}
	}
	switch n := len(prefixes); {
	case n == 0:
		return "write below the workspace"
	case n > most:
		return "write below the workspace or below " + strings.Join(prefixes[:most], ", ") + " or another folder of filesystem.tempPrefixes"
	}
	return "write below the workspace or below " + strings.Join(prefixes, " or ")
}

// unlessAsked is the verdict on a path that no rule allows.
func (p *Policy) unlessAsked() policy.Verdict {
	if p.strict {
		return policy.Deny
	}
	return policy.Ask
}

// temporary reports whether segs lie in a folder for temporary files. The
// /private/tmp of macOS is /tmp by now.
func temporary(segs []string) bool {
	return len(segs) > 1 && segs[0] == "tmp" || len(segs) > 2 && segs[0] == "var" && segs[1] == "tmp"
}
