package network

import "strings"

// Named reports whether the rule names hosts by name, for TLS and plain HTTP at the
// usual ports of the web alone.
func (r Rule) Named() bool {
	return !r.all && !r.prefix.IsValid() && !r.host.IsZero() && (&Rule{}).holdsPorts(r) && r.only != Raw
}

// Within reports whether everything that r allows is allowed by o as well, where
// both are rules that allow. It may be false for a pair of which that holds in a way
// that is hard to tell, and is never true for another.
func (r Rule) Within(o Rule) bool {
	return o.holdsHosts(r) && o.holdsPorts(r) && o.holdsRequests(r)
}

func (o Rule) holdsHosts(r Rule) bool {
	switch {
	case o.all:
		return true
	case r.all:
		return false
	case o.prefix.IsValid():
		return r.prefix.IsValid() && o.prefix.Bits() <= r.prefix.Bits() && o.prefix.Contains(r.prefix.Addr())
	case r.prefix.IsValid():
		return false
	case o.below:
		under := strings.HasSuffix(r.host.String(), "."+o.host.String())
		return under || r.below && r.host == o.host
	}
	return !r.below && r.host == o.host
}

func (o Rule) holdsPorts(r Rule) bool {
	switch {
	case o.low == 0 && r.low == 0:
		return true
	case o.low == 0: // 80, 443 and from 1024 on
		return r.low >= 1024 || r.low == r.high && (r.low == 80 || r.low == 443)
	}
	return r.low != 0 && o.low <= r.low && r.high <= o.high
}

func (o Rule) holdsRequests(r Rule) bool {
	if o.only != r.only && (o.only != "" || r.only == Raw) {
		return false
	}
	if o.methods != "" {
		if r.methods == "" {
			return false
		}
		for m := range strings.SplitSeq(strings.Trim(r.methods, ","), ",") {
			if !strings.Contains(o.methods, ","+m+",") {
				return false
			}
		}
	}
	return o.path == "" || r.path == o.path || strings.HasPrefix(r.path, strings.TrimSuffix(o.path, "/")+"/")
}
