package config

import (
	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/toolpolicy"
)

// ToolPolicy returns what the settings of one call say about tools. An entry
// that can match nothing is [sandbox.CodeValidation] with its place.
func ToolPolicy(r Resolved) (*toolpolicy.Policy, error) {
	list := func(entries []string, path string) *toolpolicy.List {
		layer := r.Origin(path)
		if layer == "default" {
			return nil // the package has its own
		}
		return &toolpolicy.List{Entries: entries, Layer: layer}
	}
	p, err := toolpolicy.New(toolpolicy.Options{
		Allow:     list(r.Tools.Allow, "tools.allow"),
		AlsoAllow: list(r.Tools.AlsoAllow, "tools.alsoAllow"),
		Deny:      list(r.Tools.Deny, "tools.deny"),
		ReadOnly:  r.WorkspaceAccess == sandbox.AccessRO, ReadOnlyLayer: r.Origin("workspaceAccess"),
	})
	return p, r.placed(err)
}
