package egress

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"strconv"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/egress/outlet"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// maxWeb is for how many ports of http:// and https:// rules, and of rules
// without a scheme, there are listeners. Most programs ask the proxy for those.
const maxWeb = 32

// An entry is a listener inside that a rule asks for.
type serveEntry struct {
	rule string
	host network.Host
	port uint16
	must bool // no other way leads there for programs that know no proxy
}

// entries returns the listeners for rules of one host. Those of tcp:// rules and
// of loopback addresses come first, since programs mostly ask no proxy for them.
func entries(rules []string) (list []serveEntry) {
	var web []serveEntry
	for _, text := range rules {
		r, err := network.ParseRule(text)
		if err != nil {
			continue // told by who compiles the rules
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

// doors opens listeners inside for hosts that rules name, for programs that ask
// no proxy. A rule of one loopback address and port gets that address and port:
// there the host's and the sandbox's own meet. The name of another host gets an
// address of the loopback interface of its own, at which there is a listener for
// each of its ports; names says which.
//
// It returns also the names of the loopback interface that programs must not ask
// the proxy for: those that no rule is about which got no listener.
func doors(ctx context.Context, inside sandbox.Listener, o outlet.Options) (open []Door, names map[string][]netip.Addr, direct []string) {
	names = map[string][]netip.Addr{}
	taken := map[netip.AddrPort]bool{}
	got := map[string]bool{} // rules
	low := true              // ports below 1024 can be had
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
		open = append(open, Door{Listener: l, Host: e.host, Port: e.port})
		if !loops {
			names[e.host.String()] = []netip.Addr{addr}
		}
	}
	return open, names, without(o.Rules.AllowedDomains, got)
}

// without returns the usual names of the loopback interface less those that a
// rule covers which has no listener.
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

// anyLoopback returns an address of the loopback interface that nothing else is
// likely to have. Proxies of one sandbox do not know of each other.
func anyLoopback() netip.Addr {
	return netip.AddrFrom4([4]byte{127, byte(64 + rand.IntN(128)), byte(rand.IntN(256)), byte(1 + rand.IntN(254))})
}

// loopbackOf returns the address of the loopback interface that h is.
func loopbackOf(h network.Host) (netip.Addr, bool) {
	if h.String() == "localhost" {
		return netip.MustParseAddr(serveLoopback), true
	}
	a, ok := h.Addr()
	return a, ok && a.IsLoopback()
}
