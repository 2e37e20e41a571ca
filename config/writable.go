package config

import (
	"slices"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/policy/hardening"
)

// WritableFolders returns every host folder that some sandbox of these
// settings can write, with ~ and variables replaced, sorted and without
// duplicates: the folder of each agent with access rw, the source of each
// writable bind, and what filesystem.allowWrite opens. Scratch workspaces are not among them; Facts.Workspaces
// covers those. s may be nil.
//
// Code inside can put links into such a folder, so nothing below it may be
// mounted: the caller puts the canonical forms into Facts.Exposed and into
// hardening.World.Exposed. A path that cannot be expanded is left out, since
// no sandbox can be made of it with these variables either.
func WritableFolders(s *Settings, home string, env map[string]string) ([]string, error) {
	if s == nil || s.Agents == nil && s.Program == nil {
		return nil, nil // what is built in opens no folder of the host
	}
	var out []string
	add := func(written string) {
		if p, err := hostpath.ExpandVariables(written, home, env); err == nil && p != "" {
			out = append(out, p)
		}
	}
	agents := []AgentSettings{{ID: new(string)}} // stands for all that the list does not name
	if s != nil && s.Agents != nil {
		agents = append(agents, s.Agents.List...)
	}
	for _, a := range agents {
		if a.ID == nil {
			continue // refused when the file is parsed
		}
		layers, err := layersFor(s, *a.ID, nil)
		if err != nil {
			return nil, err
		}
		r := fromMerged(mergeInto(merged{}, layers), Who{Agent: *a.ID})
		if a.Workspace != nil && r.WorkspaceAccess == sandbox.AccessRW {
			add(*a.Workspace)
		}
		for _, written := range slices.Concat(r.Docker.Binds, r.Browser.Binds) {
			if b, err := hardening.ParseBind("", written); err == nil && !b.ReadOnly {
				add(b.Source)
			}
		}
		for _, written := range r.Filesystem.AllowWrite {
			if p, err := rulePath(written, home, env); err == nil && strings.HasPrefix(p, "/") && !isGlob(p) {
				out = append(out, p) // other spellings open nothing
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// WorkspaceRoots returns every workspaceRoot that the settings name, as it is
// written. Scratch workspaces lie below them, and below the state folder for
// who names none. s may be nil.
func WorkspaceRoots(s *Settings) []string {
	if s == nil || s.Agents == nil {
		return nil
	}
	var layers []*SandboxSettings
	if s.Agents.Defaults != nil {
		layers = append(layers, s.Agents.Defaults.Sandbox)
	}
	for _, a := range s.Agents.List {
		layers = append(layers, a.Sandbox)
	}
	var out []string
	for _, l := range layers {
		if l != nil && l.WorkspaceRoot != nil && *l.WorkspaceRoot != "" {
			out = append(out, *l.WorkspaceRoot)
		}
	}
	return out
}
