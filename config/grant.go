package config

import (
	"slices"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// Granted returns s with g added to filesystem.allowRead or allowWrite, or to
// network.allowedDomains: of the agent's entry when agents.list has one, else
// of agents.defaults. Neither s nor anything in it is changed; it may be nil.
// A grant of another kind adds nothing, and neither does one of a host to an
// agent that [HostGrantable] says no of.
func Granted(s *Settings, agent string, g sandbox.Grant) *Settings {
	switch g.Operation {
	case sandbox.OpRead, sandbox.OpWrite:
	case sandbox.OpConnect:
		if !HostGrantable(s, agent) {
			return s
		}
	default:
		return s
	}
	out := copied(s)
	out.Agents = copied(out.Agents)
	if _, i := findAgent(s, agent); i >= 0 {
		out.Agents.List = slices.Clone(out.Agents.List)
		out.Agents.List[i].Sandbox = withRule(out.Agents.List[i].Sandbox, g)
		return out
	}
	out.Agents.Defaults = copied(out.Agents.Defaults)
	out.Agents.Defaults.Sandbox = withRule(out.Agents.Defaults.Sandbox, g)
	return out
}

// HostGrantable reports whether a host can be added to what the agent may
// reach. An entry of its own without a list of hosts has those of
// agents.defaults: a list in it would take their place, and a host added to
// theirs would be for every agent.
func HostGrantable(s *Settings, agent string) bool {
	entry, i := findAgent(s, agent)
	return i < 0 || entry.Sandbox != nil && entry.Sandbox.Network != nil && entry.Sandbox.Network.AllowedDomains != nil
}

func withRule(s *SandboxSettings, g sandbox.Grant) *SandboxSettings {
	out := copied(s)
	if g.Operation == sandbox.OpConnect {
		out.Network = copied(out.Network)
		if list := out.Network.AllowedDomains; !slices.Contains(list, g.Path) {
			out.Network.AllowedDomains = append(slices.Clone(list), g.Path)
		}
		return out
	}
	out.Filesystem = copied(out.Filesystem)
	list := &out.Filesystem.AllowRead
	if g.Operation == sandbox.OpWrite {
		list = &out.Filesystem.AllowWrite
	}
	if rule := GrantRule(g.Path); !slices.Contains(*list, rule) {
		*list = append(slices.Clone(*list), rule)
	}
	return out
}

// GrantRule writes a path as a rule of the settings that means just that path.
func GrantRule(path string) string { return strings.ReplaceAll(path, "$", "$$") }

// copied returns a new T that is as p says, or empty.
func copied[T any](p *T) *T {
	out := new(T)
	if p != nil {
		*out = *p
	}
	return out
}

// LateGrants returns what now allows beyond made as grants, when that is all
// they differ in: rules that only open single paths need no new sandbox.
func LateGrants(made, now sandbox.FilesystemRules) (grants []sandbox.Grant, ok bool) {
	for _, l := range []struct {
		made, now []string
		op        sandbox.Operation
	}{{made.AllowRead, now.AllowRead, sandbox.OpRead}, {made.AllowWrite, now.AllowWrite, sandbox.OpWrite}} {
		kept := 0
		for _, rule := range l.now {
			switch {
			case kept < len(l.made) && l.made[kept] == rule:
				kept++
			case !strings.HasPrefix(rule, "/") || isGlob(rule):
				return nil, false
			default:
				grants = append(grants, sandbox.Grant{Operation: l.op, Path: rule})
			}
		}
		if kept < len(l.made) {
			return nil, false
		}
	}
	// No grant opens what a deny closes, so a path that opens something inside one
	// is no grant.
	same := slices.Equal(made.DenyRead, now.DenyRead) && slices.Equal(made.DenyWrite, now.DenyWrite) &&
		slices.Equal(made.YieldRead, now.YieldRead) && slices.Equal(made.ReopenRead, now.ReopenRead) && slices.Equal(made.ReopenWrite, now.ReopenWrite) &&
		slices.Equal(made.AllowUnixSockets, now.AllowUnixSockets)
	return grants, same && len(grants) > 0
}
