package egress

import (
	"errors"
	"net"
	"net/netip"
	"syscall"

	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// notOurs removes addresses of the orchestrator's own machine: services
// listening there may rely on a firewall that such a connection bypasses. They
// are equivalent to loopback, so they are kept only if judge allows the
// loopback address at the same port. It also returns the first removed one.
func (r *Dialer) notOurs(h network.Host, targets []netip.AddrPort, judge judgeAddr) (kept []netip.AddrPort, first *dialRefused) {
	for _, to := range targets {
		if to.Addr().IsLoopback() || r.options.Upstream.choose(h, to) != nil || !r.options.Own(to.Addr()) ||
			judge(familyLoopback(to.Addr()), to.Port()).Verdict == policy.Allow {
			kept = append(kept, to)
			continue
		}
		if first == nil {
			first = &dialRefused{Addr: to, Decision: network.Decision{
				Verdict: policy.Deny, Rule: "address", Message: to.String() + " is an address of the machine on which the sandbox runs",
				Hint: "have network.allowedDomains name " + netip.AddrPortFrom(familyLoopback(to.Addr()), to.Port()).String() + " too",
			}}
		}
	}
	return kept, first
}

// familyLoopback returns the loopback address of a's family.
func familyLoopback(a netip.Addr) netip.Addr {
	if a.Is4() {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return netip.IPv6Loopback()
}

// isOwn reports whether a is an address of this machine: the kernel then
// chooses it as its own source address. Nothing is sent. An address without a
// route is not own; for any other error isOwn returns true.
func isOwn(a netip.Addr) bool {
	const discard = 9
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, discard)))
	if err != nil {
		for _, none := range []syscall.Errno{syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.EADDRNOTAVAIL, syscall.EAFNOSUPPORT} {
			if errors.Is(err, none) {
				return false
			}
		}
		return true
	}
	defer c.Close()
	local, ok := c.LocalAddr().(*net.UDPAddr)
	return !ok || local.AddrPort().Addr().Unmap() == a
}
