// Package network decides which hosts may be reached.
//
// A host is made canonical once, by [Canonical] or [ParseTarget], and from
// then on only that value is used: to decide, to log, to resolve and to dial.
// Code that parses the text a second time may parse it differently. A proxy
// does this:
//
//  1. h, port, err := ParseTarget(what the program asked for)
//  2. p.Judge(h, port): deny or ask ends it here. Nothing is looked up before,
//     because a lookup itself sends data out of the sandbox.
//  3. When h is a name, look it up once, and ask p.JudgeDial about each address.
//  4. Dial an address that was allowed, and no other; h.String() is the name
//     for TLS and for the Host header.
//  5. As soon as it is known what the connection carries, and for each request
//     that can be read: p.JudgeRequest. Nothing passes before.
//
// Every hop of a redirect is a new target. The package looks nothing up
// itself and knows no sockets.
package network

import (
	"net/netip"

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

// A Decision is what a Policy says of a host or an address.
type Decision struct {
	Verdict policy.Verdict `json:"verdict"`
	Rule    string         `json:"rule"`           // "network.allowedDomains[2]: *.example.com", "network.allowPublic"
	Message string         `json:"message"`        // one sentence without trailing period
	Hint    string         `json:"hint,omitempty"` // what to do instead, when it is no allow
}

// A Policy judges hosts. It does not change, so it is safe for concurrent use.
type Policy struct {
	allowed, denied list
	table           table
	options         Options
}

// New compiles a Policy. Errors are *sandbox.Error of code CodeValidation with
// the setting in Field.
func New(o Options) (*Policy, error) {
	p := &Policy{options: o, table: newTable()}
	check := func(r Rule) error { return tooWide(r, o.AllowPublic) }
	var err error
	if p.allowed, err = compile("network.allowedDomains", o.Allowed, check); err != nil {
		return nil, err
	}
	p.denied, err = compile("network.deniedDomains", o.Denied, tooNarrow)
	if err != nil {
		return nil, err
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

// CheckDenied reports what is wrong with a rule as one of deniedDomains. An
// address is dialled before it is known what goes there, so that it can be
// denied only as a whole.
func CheckDenied(text string) error {
	r, err := ParseRule(text)
	if err != nil {
		return err
	}
	return tooNarrow(r)
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

func tooNarrow(r Rule) error {
	if r.prefix.IsValid() && (r.only == HTTP || r.only == TLS) {
		return badRule(r.text, "denies an address for one protocol", "write the address alone, or ADDRESS:PORT")
	}
	return nil
}

// Mode says what the settings add up to: "none" when nothing can be reached,
// "open-public" when any public host can, "ask" when a person approves hosts
// that no rule names, else "allow-list".
func (p *Policy) Mode() string {
	switch {
	case p.options.AllowPublic:
		return "open-public"
	case p.options.Ask:
		return "ask"
	case len(p.allowed.rules) > 0:
		return "allow-list"
	}
	return "none"
}

// Open reports whether anything can be reached at all, as far as the settings tell.
func (p *Policy) Open() bool { return p.Mode() != "none" }

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

func allow(rule, target string) Decision {
	return Decision{Verdict: policy.Allow, Rule: rule, Message: target + " is allowed"}
}

func refuse(rule, message, hint string) Decision {
	return Decision{Verdict: policy.Deny, Rule: rule, Message: message, Hint: hint}
}
