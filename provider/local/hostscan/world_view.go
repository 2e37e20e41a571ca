// This file describes private views (see sandbox.Mount.Base) to the planner.
//
// A private view shows the files of a folder of the host, so a rule that closes
// a file there closes it in the view. The folder is searched beside the view: it
// may change while the view is mounted, and the times of a folder in the view
// then do not.

package hostscan

import (
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	policypath "github.com/bulkhead-dev/sandbox/policy/path"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
)

// bases returns the folders that s shows as private views.
func bases(s sandbox.Spec) (out []string) {
	for _, m := range s.Mounts {
		if m.Base != "" {
			out = append(out, m.Base)
		}
	}
	return out
}

// viewed reports whether a private view of s shows the host path p, so that
// nothing else shows it.
func viewed(s sandbox.Spec, p string) bool { return below(p, bases(s)) }

// Viewed returns denies with the paths in the base of a private view of s
// replaced by those in the view. It leaves out a path that the view reaches
// through a link or not at all: code inside has put something else there.
func Viewed(s sandbox.Spec, denies []plan.Deny) []plan.Deny {
	if len(bases(s)) == 0 {
		return denies
	}
	var out []plan.Deny
	known := map[plan.Deny]bool{}
	for _, d := range denies {
		for _, m := range s.Mounts {
			if m.Base == "" || !under(d.Path, m.Base) {
				continue
			}
			d.Path = path.Join(m.Source, strings.TrimPrefix(d.Path, m.Base))
			if dir, err := hostpath.Canonical(path.Dir(d.Path)); err != nil || dir != path.Dir(d.Path) {
				d.Path = ""
			}
			break
		}
		if d.Path != "" && !known[d] {
			known[d] = true
			out = append(out, d)
		}
	}
	return out
}

// viewPatterns returns the patterns that match in the folder view what the
// pattern r matches in base: the view itself where r matches base or a folder
// above it, and the names below. A pattern that begins with "**/" matches names
// below the view as it is, and one that begins with neither that nor "/" is
// relative to each root.
func viewPatterns(r, base, view string) (out []string) {
	alternatives, why := policypath.Parse(r)
	if why != "" {
		return nil // r is refused where it is compiled
	}
	var match func(pattern, names []string)
	match = func(pattern, names []string) {
		switch {
		case len(pattern) == 0:
			out = append(out, specials.Replace(view))
		case pattern[0] == "**" && len(names) > 0:
			match(pattern[1:], names)
			match(pattern, names[1:])
		case len(names) == 0 && path.IsAbs(r):
			out = append(out, specials.Replace(view)+"/"+strings.Join(pattern, "/"))
		case len(names) == 0:
		case doublestar.MatchUnvalidated(pattern[0], names[0]) || doublestar.MatchUnvalidated(policypath.Fold(pattern[0]), policypath.Fold(names[0])):
			match(pattern[1:], names[1:])
		}
	}
	for _, segments := range alternatives {
		if path.IsAbs(r) || segments[0] == "**" {
			match(segments, strings.Split(strings.Trim(base, "/"), "/"))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
