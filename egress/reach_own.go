package egress

import (
	"errors"
	"net"
	"net/netip"
	"syscall"

	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// notOurs leaves out addresses of the orchestrator's own machine: what listens
// there may count on a firewall that such a connection does not pass. They are
// the machine's loopback by another name, so judge has to allow that at the
// same port. It returns the first that is left out too.
func (r *Dialer) notOurs(h network.Host, targets []netip.AddrPort, judge judgeAddr) (kept []netip.AddrPort, first *reachRefused) {
	for _, to := range targets {
		if to.Addr().IsLoopback() || r.options.Upstream.choose(h, to) != nil || !r.options.Own(to.Addr()) ||
			judge(reachLoopback(to.Addr()), to.Port()).Verdict == policy.Allow {
			kept = append(kept, to)
			continue
		}
		if first == nil {
			first = &reachRefused{Addr: to, Decision: network.Decision{
				Verdict: policy.Deny, Rule: "address", Message: to.String() + " is an address of the machine on which the sandbox runs",
				Hint: "have network.allowedDomains name " + netip.AddrPortFrom(reachLoopback(to.Addr()), to.Port()).String() + " too",
			}}
		}
	}
	return kept, first
}

// loopback returns the loopback address of a's family.
func reachLoopback(a netip.Addr) netip.Addr {
	if a.Is4() {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return netip.IPv6Loopback()
}

// isOwn asks the kernel which address it would speak from: to itself it
// speaks from the same. Nothing is sent. What has no route is nobody's; when
// the kernel does not say, it is ours.
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
