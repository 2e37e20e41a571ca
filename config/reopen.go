package config

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy"
	policypath "github.com/bulkhead-dev/sandbox/policy/path"
)

// ownDenies returns the rules of filesystem.denyRead that the settings add to
// the built-in ones. Inside these, and only these, filesystem.allowRead opens
// reading again.
func (r Resolved) ownDenies() []string {
	builtin := defaultFilesystem().DenyRead
	if list := r.Filesystem.DenyRead; len(list) >= len(builtin) && slices.Equal(list[:len(builtin)], builtin) {
		return list[len(builtin):]
	}
	return nil // not what was resolved: nothing yields
}

// reopened notes in s which allowed paths lie inside a denied one, so that they
// stay open there, and inside which denies. A path that leads through a link
// opens nothing: code inside may be able to set the link.
func reopened(s *sandbox.Spec, r Resolved, f Facts) error {
	inside, own, err := r.insideDenies(f)
	if err != nil {
		return err
	}
	for _, a := range inside {
		list := &s.Filesystem.ReopenRead
		if a.write {
			list = &s.Filesystem.ReopenWrite
		}
		if a.direct && !slices.Contains(*list, a.real) {
			*list = append(*list, a.real)
		}
	}
	if len(s.Filesystem.ReopenRead) == 0 { // an allow to write alone opens nothing
		s.Filesystem.ReopenWrite = nil
		return nil
	}
	builtin := s.Filesystem.DenyRead[:len(s.Filesystem.DenyRead)-len(own)]
	for _, rule := range s.Filesystem.DenyRead[len(builtin):] {
		if !slices.Contains(builtin, rule) {
			s.Filesystem.YieldRead = append(s.Filesystem.YieldRead, rule)
		}
	}
	return nil
}

// LinkedAllows returns a notice for each path of filesystem.allowRead and
// filesystem.allowWrite that lies inside a denied path and opens nothing there,
// because it leads through a link.
func LinkedAllows(r Resolved, f Facts) []Notice {
	inside, _, err := r.insideDenies(f)
	if err != nil {
		return nil // BuildSpec says so
	}
	var out []Notice
	for _, a := range inside {
		if !a.direct {
			out = append(out, Notice{
				Path: r.field(a.field), Value: strconv.Quote(a.rule),
				Why: "it leads through a link, to " + strconv.Quote(a.real) + ", and a link opens nothing inside filesystem.denyRead; name the folder that it leads to",
			})
		}
	}
	return out
}

// An insideDeny is an allowed path that lies inside a denied one.
type insideDeny struct {
	field, rule string // "filesystem.allowRead[0]" and what it holds
	real        string // where the path leads to
	direct      bool   // through no link
	write       bool   // it is of allowWrite
}

// insideDenies returns the paths of the allow lists that lie inside the denies
// which the settings add to the built-in ones, and these denies, expanded.
func (r Resolved) insideDenies(f Facts) (inside []insideDeny, own []string, err error) {
	for _, rule := range r.ownDenies() {
		p, err := rulePath(rule, f.Home, f.Env)
		if err != nil {
			return nil, nil, err
		}
		own = append(own, p)
	}
	if len(own) == 0 {
		return nil, nil, nil
	}
	closed, err := policypath.New(policypath.Options{WorkRoots: []string{sandbox.WorkspaceDir}, DenyRead: own, Shown: mounted(r, f)})
	if err != nil {
		return nil, nil, r.placed(err)
	}
	for _, l := range []struct {
		name  string
		rules []string
		write bool
	}{{"filesystem.allowRead", r.Filesystem.AllowRead, false}, {"filesystem.allowWrite", r.Filesystem.AllowWrite, true}} {
		for i, rule := range l.rules {
			p, err := rulePath(rule, f.Home, f.Env)
			if err != nil {
				return nil, nil, err
			}
			if isGlob(p) || strings.HasPrefix(p, "~") {
				continue
			}
			at := p
			if !path.IsAbs(p) {
				at = path.Join(sandbox.WorkspaceDir, p)
			}
			if d := closed.Judge(sandbox.OpRead, at); d.Verdict != policy.Deny || d.Category != policypath.CategoryRule {
				continue
			}
			real, known := f.Canonical[p]
			if !known { // a place in the workspace, which the provider looks at
				real = path.Clean(at)
			}
			inside = append(inside, insideDeny{
				field: fmt.Sprintf("%s[%d]", l.name, i), rule: rule, real: real, write: l.write, direct: directly(path.Clean(at), real, own, f.Canonical),
			})
		}
	}
	return inside, own, nil
}

// mounted returns the folders of the host behind workspace and agent folder.
func mounted(r Resolved, f Facts) (out []policypath.Shown) {
	if w := workspaceFolder(r, f); path.IsAbs(w) && w != "/" {
		out = append(out, policypath.Shown{Host: w, Inside: sandbox.WorkspaceDir})
	}
	if r.Private() && path.IsAbs(f.AgentDir) && f.AgentDir != "/" {
		out = append(out, policypath.Shown{Host: f.AgentDir, Inside: sandbox.WorkspaceDir})
	}
	if r.WorkspaceAccess == sandbox.AccessRO && path.IsAbs(f.AgentDir) && f.AgentDir != "/" {
		out = append(out, policypath.Shown{Host: f.AgentDir, Inside: sandbox.AgentDir})
	}
	return out
}

// directly reports whether the clean path p leads to real through no link, or
// through those alone that the way to one of the denied paths leads through as
// well.
func directly(p, real string, denied []string, canonical map[string]string) bool {
	return p == real || slices.ContainsFunc(denied, func(d string) bool {
		rest, below := strings.CutPrefix(p, path.Clean(d)+"/")
		return below && canonical[d] != "" && real == path.Join(canonical[d], rest)
	})
}
