package network

import (
	"net/netip"
	"strings"
)

// Hosts is a set of hosts, as a rule names one, without ports and protocols:
// what two parties each allow can be met in it. Equal sets are equal with ==.
// The zero Hosts has none.
type Hosts struct {
	all    bool         // *: every name; addresses have to be named
	below  bool         // *.name
	name   string       // canonical
	prefix netip.Prefix // addresses
}

// ParseHosts reads the hosts of a rule (see [ParseRule]): a name, *.NAME, an
// address, a range of addresses, or * for every name. A port, a scheme or a
// path is [sandbox.CodeValidation].
func ParseHosts(text string) (Hosts, error) {
	if strings.Contains(text, "://") || strings.Contains(text, " ") {
		return Hosts{}, badRule(text, "has a scheme or methods, which are given separately here", "write the host alone")
	}
	r, err := ParseRule(text)
	switch {
	case err != nil:
		return Hosts{}, err
	case r.low != 0:
		return Hosts{}, badRule(text, "has a port, which is given separately here", "write the host alone")
	case r.prefix.IsValid():
		return Hosts{prefix: r.prefix}, nil
	}
	return Hosts{all: r.all, below: r.below, name: r.host.name}, nil
}

// HostsOf returns the set of h alone.
func HostsOf(h Host) Hosts {
	if a, literal := h.Addr(); literal {
		return Hosts{prefix: netip.PrefixFrom(a, a.BitLen())}
	}
	return Hosts{name: h.name}
}

// Has reports whether h is one of them.
func (s Hosts) Has(h Host) bool {
	switch a, literal := h.Addr(); {
	case h.IsZero():
		return false
	case literal:
		return s.prefix.IsValid() && s.prefix.Contains(a)
	case s.all:
		return true
	case s.below:
		return nameBelow(h.name, s.name)
	}
	return s.name == h.name
}

// Holds reports whether every host of t is one of s.
func (s Hosts) Holds(t Hosts) bool {
	switch {
	case t == Hosts{} || s == t:
		return true
	case s.prefix.IsValid() || t.prefix.IsValid():
		return s.prefix.IsValid() && t.prefix.IsValid() && s.prefix.Bits() <= t.prefix.Bits() && s.prefix.Contains(t.prefix.Addr())
	case s.all:
		return true
	case s.below && !t.all:
		return nameBelow(t.name, s.name)
	}
	return false
}

// Meet returns the hosts that are in both. Two sets are either apart or one
// lies in the other, so that it is one of the two or none.
func (s Hosts) Meet(t Hosts) Hosts {
	switch {
	case s.Holds(t):
		return t
	case t.Holds(s):
		return s
	}
	return Hosts{}
}

// String writes the set in the one spelling that [ParseHosts] reads.
func (s Hosts) String() string {
	switch {
	case s.all:
		return "*"
	case s.below:
		return "*." + s.name
	case s.prefix.IsValid() && s.prefix.IsSingleIP():
		return s.prefix.Addr().String()
	case s.prefix.IsValid():
		return s.prefix.String()
	}
	return s.name
}

// UsualPort reports whether a port is one that a rule without scheme and port
// allows: 80, 443, and from 1024 on.
func UsualPort(port uint16) bool { return usual(port) }

// nameBelow reports whether name lies below parent and is not parent itself.
func nameBelow(name, parent string) bool {
	return len(name) > len(parent) && strings.HasSuffix(name, parent) && name[len(name)-len(parent)-1] == '.'
}
