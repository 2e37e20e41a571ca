package gate

import (
	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy"
	policypath "github.com/bulkhead-dev/sandbox/policy/path"
)

// Changes returns the refusal of every change of a file, by the file tools and
// by callers that use files without a tool, where workspaceAccess is ro: the
// error by which the tool write is refused. Otherwise it returns nil.
func (g *Gate) Changes() error { return g.tools.Changes().Err() }

// File judges an operation of the file tools on the absolute path inside, and
// reports whether it is refused in a sandbox. An ask is refused unless
// commands.autoAllowIfSandboxed lets the sandbox answer it, as with commands.
//
// With part, the path lies in a tree that is removed or renamed as a whole. Then
// a list of the settings closes it, and the table of sensitive files does not:
// a repository may go with its hooks.
func (g *Gate) File(op sandbox.Operation, path string, part bool) (d policypath.Decision, refused bool) {
	d = g.paths.Judge(op, path)
	switch d.Verdict {
	case policy.Deny:
		return d, !part || d.Category == policypath.CategoryRule
	case policy.Ask:
		if g.auto || part {
			return d, false
		}
		d.Message += ", which needs permission, and file tools do not ask for it"
		return d, true
	}
	return d, false
}
