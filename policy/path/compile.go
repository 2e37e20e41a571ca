package path

import (
	"fmt"
	"slices"
	"strings"
)

// maxRules bounds the rules of one list. A file of settings has a few dozen.
const maxRules = 10_000

// A compiler turns lists of rules into indexes and keeps the first error.
type compiler struct {
	p     *Policy
	roots []string
	host  []string      // Options.HostRules
	shown [][2][]string // names of the places of Options.Shown, each by both names
	err   error
}

// list compiles the rules of one setting into each of the indexes. A rule of
// a home that is not known means every home where closes, and nothing where
// not.
func (c *compiler) list(field string, rules []string, closes bool, to ...*index) {
	if len(rules) > maxRules && c.err == nil {
		c.err = invalid(field, fmt.Sprintf("%d rules", len(rules)), fmt.Sprintf("are too many; %d are allowed", maxRules))
	}
	for i, text := range rules {
		if c.err != nil {
			return
		}
		at := fmt.Sprintf("%s[%d]", field, i)
		alternatives, err := parseRule(at, text, c.p.fold, c.roots)
		if err != nil {
			c.err = err
			return
		}
		for _, r := range c.alsoShown(c.alsoOnHost(alternatives)) {
			if r.anchor == atHome && closes && c.p.private && i < len(c.host) && c.host[i] == text {
				continue
			}
			if r.anchor == atHome && len(c.p.home) == 0 {
				if !closes {
					continue
				}
				r.anchor = atHomes
			}
			if closes {
				r.reads = to[0] == &c.p.denyRead
				r.firm = !r.reads || i < len(c.host) && c.host[i] == text
				c.p.closing[r.anchor] = append(c.p.closing[r.anchor], r)
			}
			for _, x := range to {
				x.add(r)
			}
		}
	}
}

// alsoOnHost adds to the rules of a home the same in the home of the host.
func (c *compiler) alsoOnHost(rules []*rule) []*rule {
	if len(c.p.hostHome) == 0 || slices.Equal(c.p.home, c.p.hostHome) {
		return rules
	}
	out := rules
	for _, r := range rules {
		if r.anchor == atHome {
			there := *r
			there.anchor, there.segs = atRoot, slices.Concat(plainSegments(c.p.hostHome), r.segs)
			out = append(out, &there)
		}
	}
	return out
}

// shownAt takes the places that go by two names.
func (c *compiler) shownAt(list []Shown) {
	for i, s := range list {
		host, why := canonical(s.Host, c.p.fold)
		inside, whyInside := canonical(s.Inside, c.p.fold)
		if why != "" || whyInside != "" || host.descriptor || inside.descriptor || len(host.segs) == 0 || len(inside.segs) == 0 {
			if c.err == nil {
				c.err = invalid(fmt.Sprintf("shown[%d]", i), s.Host+":"+s.Inside, "names no folder that is seen inside")
			}
			continue
		}
		c.shown = append(c.shown, [2][]string{host.segs, inside.segs}, [2][]string{inside.segs, host.segs})
	}
}

// alsoShown adds to the rules of places that go by two names the same by the
// other name.
func (c *compiler) alsoShown(rules []*rule) []*rule {
	out := rules
	for _, r := range rules {
		if r.anchor != atRoot {
			continue
		}
		for _, s := range c.shown {
			if len(r.segs) >= len(s[0]) && slices.EqualFunc(r.segs[:len(s[0])], s[0], func(g segment, name string) bool { return g.plain && g.text == name }) {
				there := *r
				there.segs = slices.Concat(plainSegments(s[1]), r.segs[len(s[0]):])
				out = append(out, &there)
			}
		}
	}
	return out
}

// folders takes folders, which are no patterns whatever is in their names.
func (c *compiler) folders(field string, list []string, to ...*index) {
	for i, text := range list {
		at, why := canonical(text, c.p.fold)
		if at.descriptor {
			why = "is no folder"
		}
		name := fmt.Sprintf("%s[%d]", field, i)
		if why != "" && c.err == nil {
			c.err = invalid(name, text, why)
		}
		for _, x := range to {
			x.add(&rule{name: name + ": " + text, anchor: atRoot, segs: plainSegments(at.segs)})
		}
	}
}

// parseRule reads one rule: a path, or a glob where it has signs of one.
// Field names it in errors and for people.
func parseRule(field, text string, fold bool, roots []string) ([]*rule, error) {
	home := text == "~" || strings.HasPrefix(text, "~/")
	switch {
	case text == "":
		return nil, invalid(field, text, "is empty")
	case strings.HasPrefix(text, "~") && !home:
		return nil, invalid(field, text, "names another user's home; only ~ and ~/ are understood")
	}
	patterns, err := parseNames(field, text, strings.TrimPrefix(text, "~"), fold, strings.HasPrefix(text, "/"))
	if err != nil {
		return nil, err
	}
	base := rule{name: field + ": " + text, anchor: atRoot}
	prefixes := [][]segment{nil}
	switch {
	case home:
		base.anchor = atHome
	case !strings.HasPrefix(text, "/") && text != "**" && !strings.HasPrefix(text, "**/"):
		if prefixes, err = below(field, roots, fold); err != nil {
			return nil, err
		}
	}
	var out []*rule
	for _, prefix := range prefixes {
		for _, names := range patterns {
			r := base
			for r.anchor != atHome && len(prefix) == 0 && len(names) > 1 && names[0].any {
				r.anchor, names = anywhere, names[1:]
			}
			r.segs = slices.Concat(prefix, names)
			out = append(out, &r)
		}
	}
	return out, nil
}

// parseNames reads what follows the anchor of a rule into the names and
// patterns that it stands for, one list for each alternative.
func parseNames(field, text, rest string, fold, absolute bool) ([][]segment, error) {
	switch {
	case rest == "", rest == "/", rest == "/**", rest == "**":
		return [][]segment{nil}, nil
	case !strings.ContainsAny(rest, "*?[{"):
		names, ok := plainNames(rest, fold, absolute)
		if !ok {
			return nil, invalid(field, text, "names no file that a rule can be about")
		}
		return [][]segment{plainSegments(names)}, nil
	}
	alternatives, why := Parse(rest)
	if why != "" {
		return nil, invalid(field, text, why)
	}
	out := make([][]segment, len(alternatives))
	for i, names := range alternatives {
		for _, name := range names {
			out[i] = append(out[i], newSegment(name, fold))
		}
		if absolute {
			out[i] = canonicalStart(out[i], fold)
		}
	}
	return out, nil
}

// plainNames returns the names of a path without patterns.
func plainNames(text string, fold, absolute bool) (names []string, ok bool) {
	if absolute {
		at, why := canonical(text, fold)
		return at.segs, why == "" && !at.descriptor
	}
	for name := range strings.SplitSeq(text, "/") {
		switch {
		case name == "" || name == ".":
		case name == ".." || strings.IndexByte(name, 0) >= 0:
			return nil, false
		default:
			names = append(names, foldName(name, fold))
		}
	}
	return names, true
}

// canonicalStart gives the plain names that a pattern starts with the form in
// which paths are held against it.
func canonicalStart(names []segment, fold bool) []segment {
	n := 0
	var plain []string
	for n < len(names) && names[n].plain {
		plain = append(plain, names[n].text)
		n++
	}
	at, why := canonical("/"+strings.Join(plain, "/"), fold)
	if why != "" || at.descriptor {
		return names // which then covers nothing, as no canonical path begins so
	}
	return append(plainSegments(at.segs), names[n:]...)
}

// below returns the names of each of the roots, which are no patterns
// whatever is in them.
func below(field string, roots []string, fold bool) ([][]segment, error) {
	out := make([][]segment, 0, len(roots))
	for _, root := range roots {
		at, why := canonical(root, fold)
		if why != "" {
			return nil, invalid(field, root, why)
		}
		out = append(out, plainSegments(at.segs))
	}
	return out, nil
}

func plainSegments(names []string) []segment {
	out := make([]segment, len(names))
	for i, name := range names {
		out[i] = segment{text: name, plain: true}
	}
	return out
}
