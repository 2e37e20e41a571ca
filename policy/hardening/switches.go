package hardening

import (
	"path"
	"slices"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// The names of the break-glass switches, as settings and Spec.Security.Dangerous
// write them. Host network, another container's namespace, unconfined profiles,
// privileged, user id 0 and the engine's socket have no switch.
const (
	// SwitchBindSources lists canonical host paths, each exact, that may be
	// bound although a rule refuses them.
	SwitchBindSources = "dangerouslyAllowBindSources"
	// SwitchReservedTargets lets binds lie over paths that are reserved
	// inside, such as the workspace, the home and the user database.
	SwitchReservedTargets = "dangerouslyAllowReservedTargets"
	// SwitchWritableRoot lets the root file system be writable.
	SwitchWritableRoot = "dangerouslyAllowWritableRoot"
	// SwitchKeepCapabilities lets the sandbox keep Linux capabilities.
	SwitchKeepCapabilities = "dangerouslyKeepCapabilities"
	// SwitchMissingLimits lets an engine make sandboxes that cannot enforce limits
	// of memory, processors and processes.
	SwitchMissingLimits = "dangerouslyAllowMissingLimits"
)

// Switches are the break-glass switches in force. The zero value has none.
type Switches struct {
	BindSources      []string // canonical paths
	ReservedTargets  bool
	WritableRoot     bool
	KeepCapabilities bool
	MissingLimits    bool
}

// List returns the switches as Spec.Security.Dangerous holds them: sorted,
// without duplicates, one entry "dangerouslyAllowBindSources=PATH" for each path.
func (b Switches) List() []string {
	var out []string
	for _, p := range b.BindSources {
		out = append(out, SwitchBindSources+"="+p)
	}
	for name, on := range map[string]bool{
		SwitchReservedTargets:  b.ReservedTargets,
		SwitchWritableRoot:     b.WritableRoot,
		SwitchKeepCapabilities: b.KeepCapabilities,
		SwitchMissingLimits:    b.MissingLimits,
	} {
		if on {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// ParseSwitches is the inverse of [Switches.List]. It refuses an unknown
// entry, because it cannot know what the entry was meant to open.
func ParseSwitches(list []string) (Switches, error) {
	var b Switches
	for _, entry := range list {
		p, isPath := strings.CutPrefix(entry, SwitchBindSources+"=")
		switch {
		case isPath:
			b.BindSources = append(b.BindSources, p)
		case entry == SwitchReservedTargets:
			b.ReservedTargets = true
		case entry == SwitchWritableRoot:
			b.WritableRoot = true
		case entry == SwitchKeepCapabilities:
			b.KeepCapabilities = true
		case entry == SwitchMissingLimits:
			b.MissingLimits = true
		default:
			return Switches{}, &sandbox.Error{
				Code: sandbox.CodeCapabilityBlocked, Op: "harden", Field: "security.dangerous",
				Resource: entry, Message: "there is no such break-glass switch",
			}
		}
	}
	return b, nil
}

// opens reports whether p may be bound although a rule refuses it. A
// listed path opens itself only, nothing above or below it. /var/run counts as
// the /run that it is a link to.
func (b Switches) opens(p string) bool {
	return slices.ContainsFunc(b.BindSources, func(s string) bool {
		return unalias(path.Clean(s)) == unalias(path.Clean(p))
	})
}

func unalias(p string) string {
	if p == "/var/run" || strings.HasPrefix(p, "/var/run/") {
		return strings.TrimPrefix(p, "/var")
	}
	return p
}
