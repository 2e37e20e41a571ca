package serve

import (
	"context"
	"net/netip"
	"strconv"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/egress"
	"github.com/bulkhead-dev/sandbox/egress/outlet"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// doors opens listeners inside for what the rules name on a loopback interface:
// there the host's and the sandbox's own meet, programs mostly ask no proxy for
// it, and those of tcp:// rules know of none. A rule of one address and one
// port gets that address and port inside. It returns also the names of the
// loopback interface that programs must not ask the proxy for: those that no
// rule is about which got no listener.
func doors(ctx context.Context, inside sandbox.Listener, o outlet.Options) (open []egress.Door, direct []string) {
	direct = egress.Loopback()
	taken := map[netip.AddrPort]bool{}
	for _, text := range o.Rules.AllowedDomains {
		r, err := network.ParseRule(text)
		if err != nil {
			continue // told by who compiles the rules
		}
		h, port, single := r.Single()
		if at, ok := loopbackOf(h); single && ok {
			at := netip.AddrPortFrom(at, port)
			if taken[at] {
				continue
			}
			l, err := inside.Listen(ctx, "tcp", at.String())
			if err == nil {
				taken[at] = true
				open = append(open, egress.Door{Listener: l, Host: h, Port: port})
				continue
			}
			if o.Warn != nil {
				o.Warn(err, "the rule "+strconv.Quote(text)+" gets no listener inside: only programs that heed HTTP_PROXY reach the host")
			}
		}
		kept := direct[:0]
		for _, name := range direct {
			if c, err := network.Canonical(name); err != nil || !r.Covers(c) {
				kept = append(kept, name)
			}
		}
		direct = kept
	}
	return open, direct
}

// loopbackOf returns the address of the loopback interface that h is.
func loopbackOf(h network.Host) (netip.Addr, bool) {
	if h.String() == "localhost" {
		return netip.MustParseAddr(loopback), true
	}
	a, ok := h.Addr()
	return a, ok && a.IsLoopback()
}
