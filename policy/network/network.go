// Package network decides which hosts may be reached.
//
// A host is made canonical once, by [Canonical] or [ParseTarget], and from
// then on only that value is used: to decide, to log, to resolve and to dial.
// Who reads the text a second time may read something else. A proxy does
// this:
//
//  1. h, port, err := ParseTarget(what the program asked for)
//  2. p.Judge(h, port): deny or ask ends it here. Nothing is looked up before,
//     because a lookup is itself a way out.
//  3. When h is a name, look it up once, and ask p.JudgeAddr about each address.
//  4. Dial an address that was allowed, and no other; h.String() is the name
//     for TLS and for the Host header.
//
// Every hop of a redirect is a new target. The package looks nothing up
// itself and knows no sockets.
package network

import (
	"net/netip"
	"strconv"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy"
)

// Options are the network settings.
type Options struct {
	Allowed []string // rules (see [ParseRule]); none is nothing
	Denied  []string // rules that beat those

	AllowPublic       bool // any host with a public address
	AllowPrivate      bool // private addresses, of hosts that are allowed
	Ask               bool // a host that no rule names is asked about
	AllowLocalBinding bool // listening on a local port
}

// maxRules bounds the rules of one list.
const maxRules = 10_000

// A Decision is what a Policy says of a host or an address.
type Decision struct {
	Verdict policy.Verdict `json:"verdict"`
	Rule    string         `json:"rule"`           // "network.allowedDomains[2]: *.example.com", "network.allowPublic"
	Message string         `json:"message"`        // one sentence without trailing period
	Hint    string         `json:"hint,omitempty"` // what to do instead, when it is no allow
}

// A Policy judges hosts. It does not change, so it is safe for concurrent use.
type Policy struct {
	allowed, denied []rule
	exact           map[Host][]int // of allowed: the plain hosts
	wide            []int          // of allowed: the others
	table           table
	options         Options
}

// A rule is a Rule with the setting that it stands in.
type rule struct {
	Rule
	name string
}

// New compiles a Policy. Errors are *sandbox.Error of code CodeValidation with
// the setting in Field.
func New(o Options) (*Policy, error) {
	p := &Policy{options: o, table: newTable(), exact: map[Host][]int{}}
	var err error
	if p.allowed, err = rules("network.allowedDomains", o.Allowed); err != nil {
		return nil, err
	}
	if p.denied, err = rules("network.deniedDomains", o.Denied); err != nil {
		return nil, err
	}
	for i := range p.allowed {
		r := &p.allowed[i]
		if err := tooWide(r.Rule, o.AllowPublic); err != nil {
			return nil, at(err, "network.allowedDomains", i)
		}
		if !r.host.IsZero() && !r.below {
			p.exact[r.host] = append(p.exact[r.host], i)
			continue
		}
		p.wide = append(p.wide, i)
	}
	return p, nil
}

// CheckAllowed reports what is wrong with a rule as one of allowedDomains. One
// for every host stands there only where every public host is allowed anyway.
func CheckAllowed(text string, allowPublic bool) error {
	r, err := ParseRule(text)
	if err != nil {
		return err
	}
	return tooWide(r, allowPublic)
}

func tooWide(r Rule, allowPublic bool) error {
	if r.all && (!allowPublic || r.low != 0) {
		return badRule(r.text, "allows every host", "set network.allowPublic, and deny what must not be reached")
	}
	if r.prefix.IsValid() && r.prefix.Bits() == 0 {
		return badRule(r.text, "allows every address", "set network.allowPublic, and name the private ranges that are needed")
	}
	return nil
}

func rules(field string, texts []string) ([]rule, error) {
	if len(texts) > maxRules {
		e := sandbox.Errorf(sandbox.CodeValidation, "compile network policy", "%d rules are too many; %d are allowed", len(texts), maxRules)
		e.Field = field
		return nil, e
	}
	out := make([]rule, len(texts))
	for i, text := range texts {
		r, err := ParseRule(text)
		if err != nil {
			return nil, at(err, field, i)
		}
		out[i] = rule{r, field + "[" + strconv.Itoa(i) + "]: " + text}
	}
	return out, nil
}

// Judge says whether the host may be reached at the port, as far as its name
// tells. For a host that is an address that is the whole decision; for a name
// [Policy.JudgeAddr] has to allow the address too.
func (p *Policy) Judge(h Host, port uint16) Decision {
	target := h.Target(port)
	if h.IsZero() || port == 0 {
		return refuse("target", quoted(target)+" is no host with a port", "write HOST:PORT")
	}
	for i := range p.denied {
		if r := &p.denied[i]; r.port(port) && p.denies(r, h) {
			return refuse(r.name, target+" is denied by the settings", "do without it; only who keeps the settings can change network.deniedDomains")
		}
	}
	r := p.allows(h, port)
	if a, ok := h.Addr(); ok {
		return p.judgeLiteral(a, port, target, r)
	}
	switch {
	case r != nil:
		return allow(r.name, target)
	case p.options.AllowPublic:
		return allow("network.allowPublic", target)
	}
	return p.unnamed(target)
}

// judgeLiteral judges a host that is an address.
func (p *Policy) judgeLiteral(a netip.Addr, port uint16, target string, r *rule) Decision {
	if r == nil && !p.options.AllowPublic {
		if d := p.JudgeAddr(a, port); d.Verdict != policy.Allow {
			return d
		}
		return p.unnamed(target)
	}
	d := p.JudgeAddr(a, port)
	if d.Verdict == policy.Allow {
		if r != nil {
			return allow(r.name, target)
		}
		return allow("network.allowPublic", target)
	}
	return d
}

func (p *Policy) denies(r *rule, h Host) bool {
	if r.names(h) {
		return true
	}
	a, ok := h.Addr()
	return ok && deniesAddr(r, a)
}

func deniesAddr(r *rule, a netip.Addr) bool {
	for _, inner := range unwrapped(a) {
		if r.holds(inner) {
			return true
		}
	}
	return false
}

// allows returns the rule that allows the host, or nil.
func (p *Policy) allows(h Host, port uint16) *rule {
	for _, i := range p.exact[h] {
		if r := &p.allowed[i]; r.port(port) {
			return r
		}
	}
	for _, i := range p.wide {
		if r := &p.allowed[i]; !r.all && r.port(port) && r.names(h) {
			return r
		}
	}
	return nil
}

// JudgeAddr says whether an address may be dialled at the port for a host that
// Judge has allowed; it allows nothing by itself. Private addresses need
// AllowPrivate or a rule with the range in it; loopback, link-local and the
// like need such a rule; a metadata service needs a rule with its very
// address; an address of no single host is never dialled. An IPv6 address is
// judged by the IPv4 address that it carries too.
func (p *Policy) JudgeAddr(a netip.Addr, port uint16) Decision {
	if !a.IsValid() || port == 0 {
		return refuse("target", "there is no address or no port", "")
	}
	a = a.WithZone("").Unmap()
	target := netip.AddrPortFrom(a, port).String()
	for i := range p.denied {
		if r := &p.denied[i]; r.port(port) && (r.all || deniesAddr(r, a)) {
			return refuse(r.name, target+" is denied by the settings", "do without it; only who keeps the settings can change network.deniedDomains")
		}
	}
	c, name := p.table.classify(a)
	if c == public {
		return allow("public address", target)
	}
	if c == private && p.options.AllowPrivate {
		return allow("network.allowPrivate", target)
	}
	hint := "have network.allowedDomains name the address"
	switch c {
	case unroutable:
		return refuse("address", target+" is "+name, "use the address of a host")
	case private:
		hint = "have network.allowedDomains name the address or its range, or set network.allowPrivate"
	}
	for i := range p.allowed {
		if r := &p.allowed[i]; r.port(port) && r.holds(a) && (c != metadata || r.single()) && p.purpose(r, c) {
			return allow(r.name, target)
		}
	}
	return refuse("address", target+" is "+name, hint)
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

// JudgeListen says whether a program inside may listen at an address of its own.
func (p *Policy) JudgeListen(a netip.Addr, port uint16) Decision {
	target := netip.AddrPortFrom(a.Unmap(), port).String()
	if !p.options.AllowLocalBinding {
		return refuse("network.allowLocalBinding", "listening at "+target+" is not allowed", "set network.allowLocalBinding")
	}
	if !a.IsValid() || !a.Unmap().IsLoopback() {
		return refuse("network.allowLocalBinding", "listening at "+target+", which is no loopback address", "listen at 127.0.0.1 or ::1")
	}
	return allow("network.allowLocalBinding", target)
}

// unnamed judges what no rule names.
func (p *Policy) unnamed(target string) Decision {
	if p.options.Ask {
		return Decision{
			Verdict: policy.Ask, Rule: "network.ask", Message: "no rule names " + target,
			Hint: "ask the user, or have network.allowedDomains name the host",
		}
	}
	return refuse("network.allowedDomains", "no rule allows "+target, "have network.allowedDomains name the host")
}

func allow(rule, target string) Decision {
	return Decision{Verdict: policy.Allow, Rule: rule, Message: target + " is allowed"}
}

func refuse(rule, message, hint string) Decision {
	return Decision{Verdict: policy.Deny, Rule: rule, Message: message, Hint: hint}
}
