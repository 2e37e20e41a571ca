package egress

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"strconv"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/egress/proxy"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// maxWeb bounds the listeners for ports of http:// and https:// rules, and of
// rules without a scheme. Most programs use the proxy for those.
const maxWeb = 32

// A serveEntry is a listener inside that a rule requires.
type serveEntry struct {
	rule string
	host network.Host
	port uint16
	must bool // programs without proxy support have no other route to the host
}

// entries returns the listeners for rules of one host. Those of tcp:// rules
// and of loopback addresses come first, since most programs bypass the proxy
// for them.
func entries(rules []string) (list []serveEntry) {
	var web []serveEntry
	for _, text := range rules {
		r, err := network.ParseRule(text)
		if err != nil {
			continue // compiling the rules reports the error
		}
		h, port, single := r.Single()
		_, loops := loopbackOf(h)
		_, literal := h.Addr()
		switch {
		case single && (loops || r.Raw() && !literal):
			list = append(list, serveEntry{text, h, port, true})
		case single && !literal:
			web = append(web, serveEntry{text, h, port, false})
		case r.Web() && !literal && !loops:
			web = append(web, serveEntry{text, h, 443, false}, serveEntry{text, h, 80, false})
		}
	}
	return append(list, web[:min(len(web), maxWeb)]...)
}

// hostListeners opens listeners inside for hosts that rules name, for programs without
// proxy support. A rule of one loopback address and port gets a listener at
// that address and port, which then leads to the host's loopback instead of
// the sandbox's. If o.Resolve is set, every other host name gets a loopback
// address of its own, with a listener for each of its ports; names maps names
// to these addresses.
//
// hostListeners also returns the loopback names for which programs must bypass the
// proxy: those not covered by a rule without a listener.
func hostListeners(ctx context.Context, inside sandbox.Listener, o proxy.Options) (open []HostListener, names map[string][]netip.Addr, direct []string) {
	names = map[string][]netip.Addr{}
	taken := map[netip.AddrPort]bool{}
	got := map[string]bool{} // rules
	low := true              // ports below 1024 can be opened
	for _, e := range entries(o.Rules.AllowedDomains) {
		addr, loops := loopbackOf(e.host)
		if !loops {
			if o.Resolve == nil || !e.must && !low && e.port < 1024 {
				continue
			}
			if have := names[e.host.String()]; len(have) > 0 {
				addr = have[0]
			} else {
				addr = anyLoopback()
			}
		}
		at := netip.AddrPortFrom(addr, e.port)
		if taken[at] {
			got[e.rule] = true
			continue
		}
		l, err := inside.Listen(ctx, "tcp", at.String())
		if err != nil {
			low = low && e.port >= 1024
			if e.must && o.Warn != nil {
				o.Warn(err, "the rule "+strconv.Quote(e.rule)+" gets no listener inside: only programs that heed HTTP_PROXY reach the host")
			}
			continue
		}
		taken[at], got[e.rule] = true, true
		open = append(open, HostListener{Listener: l, Host: e.host, Port: e.port})
		if !loops {
			names[e.host.String()] = []netip.Addr{addr}
		}
	}
	return open, names, without(o.Rules.AllowedDomains, got)
}

// without returns the usual loopback names, less those covered by a rule that
// has no listener.
func without(rules []string, got map[string]bool) (direct []string) {
	direct = Loopback()
	for _, text := range rules {
		r, err := network.ParseRule(text)
		if err != nil || got[text] {
			continue
		}
		kept := direct[:0]
		for _, name := range direct {
			if c, err := network.Canonical(name); err != nil || !r.Covers(c) {
				kept = append(kept, name)
			}
		}
		direct = kept
	}
	return direct
}

// anyLoopback returns a random loopback address that is probably unused.
// Proxies of one sandbox do not know of each other.
func anyLoopback() netip.Addr {
	return netip.AddrFrom4([4]byte{127, byte(64 + rand.IntN(128)), byte(rand.IntN(256)), byte(1 + rand.IntN(254))})
}

// loopbackOf returns h as a loopback address.
func loopbackOf(h network.Host) (netip.Addr, bool) {
	if h.String() == "localhost" {
		return netip.MustParseAddr(serveLoopback), true
	}
	a, ok := h.Addr()
	return a, ok && a.IsLoopback()
}
