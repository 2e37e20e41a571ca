package config

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant"
	policypath "github.com/bulkhead-dev/sandbox/policy/path"
)

// maxFolders bounds the folders of one kind in a policy of grants. Each costs a
// comparison with each of the manifest.
const maxFolders = 40

// pathRules are the rules of filesystem with their variables replaced, and the
// places that they name by themselves.
type pathRules struct {
	AllowRead, DenyRead, AllowWrite, DenyWrite []string

	roots []string // what a rule without a slash at its start is below
	homes []string // what ~ is
}

// pathRules reads the rules. One that cannot be expanded is
// [sandbox.CodeValidation] with its place: a deny must not go missing.
func (r Resolved) pathRules(in Inside) (pathRules, error) {
	p := pathRules{roots: slices.Compact([]string{sandbox.WorkspaceDir, r.home()}), homes: []string{r.home()}}
	if in.Home != "" && in.Home != r.home() {
		p.homes = append(p.homes, in.Home)
	}
	for _, l := range []struct {
		name string
		from []string
		to   *[]string
	}{
		{"filesystem.allowRead", r.Filesystem.AllowRead, &p.AllowRead},
		{"filesystem.denyRead", r.Filesystem.DenyRead, &p.DenyRead},
		{"filesystem.allowWrite", r.Filesystem.AllowWrite, &p.AllowWrite},
		{"filesystem.denyWrite", r.Filesystem.DenyWrite, &p.DenyWrite},
	} {
		var err error
		if *l.to, err = in.expand(l.name, l.from); err != nil {
			return p, r.placed(err)
		}
	}
	return p, nil
}

// denied are the places that a deny names. Below them nothing is done, whether
// it is reading or writing that is denied. The list is never nil.
func (p pathRules) denied() []string {
	out := []string{}
	for _, rule := range slices.Concat(p.DenyRead, p.DenyWrite) {
		out = append(out, p.places(rule)...)
	}
	return outermost(out)
}

// places returns the paths that a rule names by itself: those it stands for
// when it is no pattern. What policies refuse to read names none.
func (p pathRules) places(rule string) []string {
	bases, rest := p.roots, rule
	switch {
	case strings.HasPrefix(rule, "**/"): // in any folder
		return nil
	case rule == "~" || strings.HasPrefix(rule, "~/"):
		bases, rest = p.homes, rule[1:]
	case strings.HasPrefix(rule, "/"), rule == "**":
		bases = []string{"/"}
	}
	alternatives := []string{rest}
	switch {
	case rest == "/**" || rest == "**":
		alternatives = []string{""}
	case isGlob(rest):
		alternatives = plainAlternatives(rest)
	}
	var out []string
	for _, base := range bases {
		for _, a := range alternatives {
			if place := path.Join(base, a); legible(place) {
				out = append(out, place)
			}
		}
	}
	return out
}

// plainAlternatives returns the names among those that a pattern stands for.
func plainAlternatives(text string) []string {
	alternatives, why := policypath.Parse(text)
	if why != "" {
		return nil
	}
	var out []string
	for _, segments := range alternatives {
		var names []string
		for _, s := range segments {
			if s == "**" || !policypath.Plain(s) {
				names = nil
				break
			}
			names = append(names, policypath.Unescape(s))
		}
		if names != nil {
			out = append(out, strings.Join(names, "/"))
		}
	}
	return out
}

// legible reports whether a path can be one of an operation. No operation on
// another one gets as far as to a policy.
func legible(p string) bool {
	return len(p) <= 4096 && utf8.ValidString(p) && !strings.ContainsFunc(p, func(r rune) bool {
		return r < ' ' || r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
	})
}

// fileCapabilities are the folders that may be read, listed and written. The
// temporary folder is one of them: space in it would be of no use otherwise.
func (r Resolved) fileCapabilities(p pathRules, tmp string) ([]grant.Capability, error) {
	read, write := []string{sandbox.WorkspaceDir, tmp}, []string{tmp}
	if r.WorkspaceAccess == sandbox.AccessRO {
		read = append(read, sandbox.AgentDir)
	} else {
		write = append(write, sandbox.WorkspaceDir)
	}
	for _, rule := range p.AllowRead {
		read = append(read, p.places(rule)...)
	}
	for _, rule := range p.AllowWrite {
		for _, place := range p.places(rule) {
			// A rule around the workspace does not mean it where access is ro.
			if r.WorkspaceAccess != sandbox.AccessRO || !within(sandbox.WorkspaceDir, place) {
				write = append(write, place)
			}
		}
	}
	var out []grant.Capability
	for _, l := range []struct {
		name    string
		folders []string
		kinds   []grant.Kind
	}{
		{"filesystem.allowRead", read, []grant.Kind{grant.FSRead, grant.FSList}},
		{"filesystem.allowWrite", write, []grant.Kind{grant.FSWrite}},
	} {
		folders := bindable(outermost(l.folders), tmp)
		if len(folders) > maxFolders {
			return nil, r.placed(&sandbox.Error{
				Code: sandbox.CodeValidation, Op: "resolve", Field: l.name,
				Message: fmt.Sprintf("it names %d folders that tools could use; %d are the most", len(folders), maxFolders), Hint: "name fewer, or a folder around them",
			})
		}
		for _, kind := range l.kinds {
			for _, folder := range folders {
				out = append(out, grant.Capability{Kind: kind, Path: folder})
			}
		}
	}
	return out, nil
}

// bindable leaves out of too many folders those that no operation gets to: it
// stays below the workspace and the temporary folder whatever is allowed.
func bindable(folders []string, tmp string) []string {
	if len(folders) <= maxFolders {
		return folders
	}
	return slices.DeleteFunc(folders, func(f string) bool {
		for _, root := range []string{sandbox.WorkspaceDir, tmp} {
			if within(f, root) || within(root, f) {
				return false
			}
		}
		return true
	})
}

// outermost returns paths sorted, without those below another one.
func outermost(paths []string) []string {
	slices.Sort(paths)
	out := paths[:0]
	for _, p := range paths {
		if !slices.ContainsFunc(out, func(o string) bool { return within(p, o) }) {
			out = append(out, p)
		}
	}
	return out
}

// within reports whether the clean path p is folder or lies below it.
func within(p, folder string) bool {
	rest, ok := strings.CutPrefix(p, strings.TrimSuffix(folder, "/"))
	return ok && (rest == "" || rest[0] == '/')
}
