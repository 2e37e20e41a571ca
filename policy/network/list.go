package network

import (
	"net/netip"
	"strconv"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// maxRules bounds the rules of one list.
const maxRules = 10_000

// A rule is a Rule with the setting that it stands in.
type rule struct {
	Rule
	name string
}

// A list is the rules of one setting, sorted by what they name.
type list struct {
	rules  []rule
	exact  map[string][]*rule // by name
	below  map[string][]*rule // wildcards, by the name that they are below
	ranges []*rule            // of addresses, single ones included
	all    []*rule            // of every host
}

// compile reads the rules of one setting.
func compile(field string, texts []string, check func(Rule) error) (list, error) {
	if len(texts) > maxRules {
		e := sandbox.Errorf(sandbox.CodeValidation, "compile network policy", "%d rules are too many; %d are allowed", len(texts), maxRules)
		e.Field = field
		return list{}, e
	}
	l := list{rules: make([]rule, len(texts)), exact: map[string][]*rule{}, below: map[string][]*rule{}}
	for i, text := range texts {
		r, err := ParseRule(text)
		if err == nil {
			err = check(r)
		}
		if err != nil {
			return list{}, at(err, field, i)
		}
		l.rules[i] = rule{r, field + "[" + strconv.Itoa(i) + "]: " + text}
		l.sort(&l.rules[i])
	}
	return l, nil
}

func (l *list) sort(r *rule) {
	switch {
	case r.all:
		l.all = append(l.all, r)
	case r.prefix.IsValid():
		l.ranges = append(l.ranges, r)
	case r.below:
		l.below[r.host.name] = append(l.below[r.host.name], r)
	default:
		l.exact[r.host.name] = append(l.exact[r.host.name], r)
	}
}

// find returns the first rule that names h and fits, the narrowest kind of
// rule first, those of every host left out; or nil. A host that is an address
// is named by ranges, and as carried says by those of addresses that it
// carries.
func (l *list) find(h Host, carried bool, fits func(*rule) bool) *rule {
	if h.addr.IsValid() {
		for _, r := range l.ranges {
			if (r.holds(h.addr) || carried && r.holdsCarried(h.addr)) && fits(r) {
				return r
			}
		}
		return nil
	}
	for _, r := range l.exact[h.name] {
		if fits(r) {
			return r
		}
	}
	if len(l.below) == 0 {
		return nil
	}
	for rest := h.name; ; {
		_, after, ok := strings.Cut(rest, ".")
		if !ok {
			return nil
		}
		for _, r := range l.below[after] {
			if fits(r) {
				return r
			}
		}
		rest = after
	}
}

// holds reports whether r is a range that has a in it.
func (r *Rule) holds(a netip.Addr) bool { return r.prefix.IsValid() && r.prefix.Contains(a) }

// holdsCarried reports whether r is a range that has an address in it which a carries.
func (r *Rule) holdsCarried(a netip.Addr) bool {
	if a.Is4() {
		return false
	}
	carried, n := unwrapped(a)
	for _, inner := range carried[1:n] {
		if r.holds(inner) {
			return true
		}
	}
	return false
}
