package egress

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// A Narrowing holds rules added after a [Session] was opened. A connection has to
// be allowed by both.
type Narrowing struct {
	Policy *network.Policy
	// Holds reports whether a rule of network.allowedDomains still exists.
	Holds func(rule string) bool
}

// crossings are the current connections of a Session, and the rules added later.
type crossings struct {
	mu    sync.Mutex
	now   map[*access]crossing
	later []Narrowing
}

// A crossing is one connection: the program's end of it, and the rule that
// allowed it.
type crossing struct {
	conn net.Conn
	rule string
	host string
	port uint16
	addr netip.AddrPort
}

// Narrow applies n from now on, and closes the connections that it does not
// allow. All others stay open.
func (s *Session) Narrow(n Narrowing) {
	p := &s.crossings
	p.mu.Lock()
	defer p.mu.Unlock()
	p.later = append(p.later, n)
	for _, x := range p.now {
		if n.refuses(x) != nil {
			x.conn.Close()
		}
	}
}

// refuses returns the decision of n against a connection that a rule has
// allowed, or nil.
func (n Narrowing) refuses(x crossing) *network.Decision {
	gone := &network.Decision{Verdict: policy.Deny, Rule: "network.allowedDomains", Message: "the rule that allowed it is no longer in the settings", Hint: "run the command again"}
	if list, text, ok := strings.Cut(x.rule, ": "); ok && strings.HasPrefix(list, "network.allowedDomains[") && !n.Holds(text) {
		return gone
	}
	h, err := network.Canonical(x.host)
	if err != nil {
		return gone
	}
	d := n.Policy.Judge(h, x.port)
	if d.Verdict == policy.Allow && x.addr.IsValid() {
		d = n.Policy.JudgeDial(h, x.addr.Addr(), x.addr.Port())
	}
	if d.Verdict == policy.Deny {
		return &d
	}
	return nil
}

// barred returns the decision by which later rules deny a host entirely, or d.
func (p *crossings) barred(d network.Decision, h network.Host, port uint16) network.Decision {
	if d.Verdict == policy.Deny {
		return d
	}
	p.mu.Lock()
	later := slices.Clone(p.later)
	p.mu.Unlock()
	for _, n := range later {
		if now := n.Policy.Judge(h, port); now.Verdict == policy.Deny {
			return now
		}
	}
	return d
}

// enter registers an access allowed by the rule of d, or returns the decision of
// later rules against it.
func (p *crossings) enter(v *access, d network.Decision) *network.Decision {
	if v.conn == nil {
		return nil
	}
	x := crossing{v.conn, d.Rule, v.event.Host, v.event.Port, v.event.Addr}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.later {
		if no := n.refuses(x); no != nil {
			return no
		}
	}
	if p.now == nil {
		p.now = map[*access]crossing{}
	}
	p.now[v] = x
	return nil
}

func (p *crossings) leave(v *access) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.now, v)
}
