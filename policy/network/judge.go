package network

import (
	"strings"

	"github.com/bulkhead-dev/sandbox/policy"
)

// A Request is what is known of a connection once its first bytes are there,
// or one request of plain or intercepted HTTP.
type Request struct {
	Host     Host
	Port     uint16
	Protocol Protocol // TLS also for a request that was read inside it

	// Of a request that can be read; Method is empty for one that cannot.
	Method string
	Path   string // as it was sent: origin form, with query
}

// A query is what is looked for in the rules.
type query struct {
	host   Host
	port   uint16
	target string
	kinds  kind  // protocols that would do; what is denied is taken out
	by     *rule // that took the first of them
	some   bool  // whether any request would do
	sent   string

	readable bool // whether there is a request that can be read
	method   string
	path     string // canonical, when a rule has been looked at that has one
	odd      bool   // whether the path is one that servers read differently
}

// Judge says whether the host may be reached at the port by some protocol, as
// far as its name tells. It is the first look at a CONNECT, and what decides
// whether a name may be looked up; [Policy.JudgeRequest] decides when the
// protocol is known. For a host that is an address its address is judged too;
// for a name [Policy.JudgeDial] has to allow the address.
func (p *Policy) Judge(h Host, port uint16) Decision {
	return p.judge(query{host: h, port: port, kinds: kindAny, some: true})
}

// JudgeRequest says whether the request, or a connection that carries such a
// protocol, may pass. What Judge refuses, it refuses for every protocol.
//
// A path that servers may read differently is allowed by no rule with a path,
// and denied by every one. So is a method in other than upper case.
func (p *Policy) JudgeRequest(r Request) Decision {
	q := query{host: r.Host, port: r.Port, kinds: kindOf(r.Protocol), method: r.Method, sent: r.Path}
	q.readable = q.kinds == kindHTTP || q.kinds == kindTLS && r.Method != ""
	if strings.Contains(q.method, ",") {
		q.method = "" // no method has one, and rules are lists
	}
	if q.readable {
		q.path, q.odd = "/", false
		if path, ok := canonicalPath(r.Path); ok {
			q.path = path
		} else {
			q.path, q.odd = "", true
		}
	}
	return p.judge(q)
}

func (p *Policy) judge(q query) Decision {
	q.target = q.host.Target(q.port)
	if q.host.IsZero() || q.port == 0 {
		return refuse("target", quoted(q.target)+" is no host with a port", "write HOST:PORT")
	}
	if r := p.deniedBy(&q); r != nil {
		return denied(r, q.what())
	}
	r := p.allowedBy(&q)
	a, literal := q.host.Addr()
	if literal {
		if d := p.dial(q.host, a, q.port); d.Verdict != policy.Allow {
			return d
		}
	}
	switch {
	case r != nil:
		return allow(r.name, q.target)
	case p.options.AllowPublic && q.kinds&kindWeb != 0 && usual(q.port):
		return allow("network.allowPublic", q.target)
	}
	return p.unnamed(&q)
}

// deniedBy returns the rule that denies what is left of the query, or nil.
func (p *Policy) deniedBy(q *query) *rule {
	fits := func(r *rule) bool {
		if !r.port(q.port) {
			return false
		}
		if out := r.denies(q); q.kinds&out != 0 {
			q.kinds &^= out
			if q.by == nil {
				q.by = r
			}
		}
		return q.kinds == 0
	}
	if r := p.denied.find(q.host, true, fits); r != nil {
		return r
	}
	for _, r := range p.denied.all {
		if fits(r) {
			return r
		}
	}
	return nil
}

// allowedBy returns the rule that allows the query, or nil.
func (p *Policy) allowedBy(q *query) *rule {
	return p.allowed.find(q.host, false, func(r *rule) bool {
		return r.opens(q.port) && r.allows()&q.kinds != 0 && (q.some || !r.limited() || r.meets(q))
	})
}

// unnamed judges what no rule allows, and says how near one comes.
func (p *Policy) unnamed(q *query) Decision {
	near := func(fits func(*rule) bool) bool { return p.allowed.find(q.host, false, fits) != nil }
	atPort := func(r *rule) bool { return r.opens(q.port) }
	open := p.options.AllowPublic || p.options.Ask
	switch {
	case q.by != nil && near(func(r *rule) bool { return atPort(r) && r.allows()&q.kinds == 0 }):
		return denied(q.by, q.what())
	case near(func(r *rule) bool { return atPort(r) && r.allows()&q.kinds != 0 }):
		if q.odd {
			return refuse("request", "no rule allows "+q.what()+", whose path servers may read differently", "send the path without . and .. segments, //, \\, ; and their escapes")
		}
		return refuse("request", "no rule allows "+q.what(), "have network.allowedDomains name http://"+q.target+" with the method and path")
	case near(atPort), open && usual(q.port) && q.kinds&kindWeb == 0:
		return refuse("protocol", "no rule allows "+q.kinds.String()+" to "+q.target, "have network.allowedDomains name "+scheme(q.kinds)+q.target)
	case !usual(q.port) && (open || near(func(r *rule) bool { return r.low == 0 })):
		return refusePort(q.target)
	case p.options.Ask:
		return Decision{
			Verdict: policy.Ask, Rule: "network.ask", Message: "no rule names " + q.target,
			Hint: "ask the user, or have network.allowedDomains name the host",
		}
	}
	return refuse("network.allowedDomains", "no rule allows "+q.target, "have network.allowedDomains name the host")
}

// scheme is what a rule for the protocols starts with.
func scheme(k kind) string {
	switch {
	case k&kindWeb == kindTLS:
		return "https://"
	case k&kindWeb == kindHTTP:
		return "http://"
	}
	return "tcp://"
}

// what says what the query is about.
func (q *query) what() string {
	if !q.readable || q.method == "" {
		return q.target
	}
	path, _, _ := strings.Cut(q.sent, "?")
	return quoted(q.method + " " + q.target + path)
}

func denied(r *rule, what string) Decision {
	return refuse(r.name, what+" is denied by the settings", "do without it; only who keeps the settings can change network.deniedDomains")
}

func refusePort(target string) Decision {
	return refuse("port", "no rule names the port of "+target, "have network.allowedDomains name "+target+", or tcp://"+target+" for anything but TLS and HTTP")
}
