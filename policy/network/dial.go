package network

import (
	"net/netip"
)

// JudgeAddr says whether an address may be dialled at the port for a host with
// a name that Judge has allowed; it allows nothing by itself. Private addresses
// need AllowPrivate or a rule with the range in it; loopback, link-local and
// the like need such a rule; a metadata service needs a rule with its very
// address; an address of no single host is never dialled. An IPv6 address is
// judged by the IPv4 address that it carries too.
//
// A rule that allows some requests to an address does not open it for a host
// that merely has that address; for a host that is written as the address,
// [Policy.JudgeDial] has to be asked.
func (p *Policy) JudgeAddr(a netip.Addr, port uint16) Decision { return p.dial(Host{}, a, port) }

// JudgeDial is JudgeAddr for the host h, which may be written as the address.
func (p *Policy) JudgeDial(h Host, a netip.Addr, port uint16) Decision { return p.dial(h, a, port) }

func (p *Policy) dial(h Host, a netip.Addr, port uint16) Decision {
	if !a.IsValid() || port == 0 {
		return refuse("target", "there is no address or no port", "write HOST:PORT")
	}
	a = a.WithZone("").Unmap()
	target := HostOf(a).Target(port)
	if r := p.deniedAddr(a, port); r != nil {
		return denied(r, target)
	}
	c, name := p.table.classify(a)
	if c == public {
		return allow("public address", target)
	}
	if c == private && p.options.AllowPrivate {
		return allow("network.allowPrivate", target)
	}
	if c == unroutable {
		return refuse("address", target+" is "+name, "use the address of a host")
	}
	literal, near := h.addr == a, false
	for _, r := range p.allowed.ranges {
		if !r.holds(a) || !literal && r.limited() || c == metadata && !r.single() || !p.purpose(r, c) {
			continue
		}
		if r.opens(port) {
			return allow(r.name, target)
		}
		near = near || r.low == 0
	}
	if near {
		return refusePort(target)
	}
	hint := "have network.allowedDomains name the address: " + target
	if c == private {
		hint = "have network.allowedDomains name the address, " + target + ", or its range, or set network.allowPrivate"
	}
	return refuse("address", target+" is "+name, hint)
}

// deniedAddr returns the rule that denies the address for every protocol, or nil.
func (p *Policy) deniedAddr(a netip.Addr, port uint16) *rule {
	if r := p.denied.find(Host{addr: a}, true, func(r *rule) bool { return r.port(port) }); r != nil {
		return r
	}
	for _, r := range p.denied.all {
		if r.port(port) && (r.only == "" || r.only == Raw) {
			return r
		}
	}
	return nil
}

// purpose reports whether a range was written with addresses of class c in
// mind: it lies in a block of that class, rather than around it.
func (p *Policy) purpose(r *rule, c class) bool {
	for _, b := range p.table.blocks {
		if b.class == c && b.prefix.Bits() <= r.prefix.Bits() && b.prefix.Contains(r.prefix.Addr()) {
			return true
		}
	}
	return r.single()
}
