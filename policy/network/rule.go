package network

import (
	"net/netip"
	"strconv"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// A Rule names hosts: one host, the hosts below a name, every host, or a range
// of addresses; each at some ports and for some protocols, and of plain HTTP
// some requests.
type Rule struct {
	text    string       // as written
	host    Host         // the host; of a wildcard, what comes before its dot is below it
	below   bool         // *.host
	all     bool         // *
	prefix  netip.Prefix // range of addresses; of a single one too
	low     uint16       // ports, 0 to 0 when none was written and the scheme has none
	high    uint16
	only    Protocol // of the scheme; empty when there was none
	methods string   // ",GET,HEAD,", or empty for all
	path    string   // canonical prefix, or empty for all
	sent    string   // the same as it would be sent
}

// ParseRule reads a rule of network.allowedDomains or deniedDomains:
//
//	example.com                    the host
//	*.example.com                  every host below it, and not itself
//	*                              every host
//	192.0.2.7                      the address, in any spelling; 2001:db8::7 or [2001:db8::7]
//	10.0.0.0/8                     a range of addresses; fd00::/8
//	example.com:443                at that port only
//	[fd00::/8]:80-90               at those ports only; IPv6 then needs brackets
//	https://example.com            TLS only, at 443 when no port is written
//	http://example.com/pub         plain HTTP only, at 80 when no port is written; paths from /pub on
//	GET,HEAD http://example.com    those methods only
//	tcp://example.com:22           any bytes; a port is needed
//
// What allows without a scheme allows TLS and plain HTTP, and without a port
// the ports 80, 443 and from 1024 on. What denies without them denies all.
//
// A path is a prefix by whole segments: /pub means /pub and /pub/x and not
// /public; with a slash at its end it means what is below it. Errors have
// [sandbox.CodeValidation].
func ParseRule(text string) (Rule, error) {
	r := Rule{text: text}
	rest, err := r.take(text)
	if err != nil {
		return Rule{}, err
	}
	hosts, ok := r.ports(rest)
	switch {
	case !ok:
		return Rule{}, badRule(text, "has no port or range of ports after its colon", "write HOST:443 or HOST:8000-8100")
	case r.low == 0 && r.only == Raw:
		return Rule{}, badRule(text, "has no port", "write tcp://HOST:PORT")
	case r.low == 0 && r.only == HTTP:
		r.low, r.high = 80, 80
	case r.low == 0 && r.only == TLS:
		r.low, r.high = 443, 443
	}
	return r.named(hosts)
}

// Single returns the host and port of a rule that names one of each and no
// more, and whether it does.
func (r Rule) Single() (h Host, port uint16, ok bool) {
	return r.host, r.low, !r.below && !r.all && r.low != 0 && r.low == r.high && !r.host.IsZero()
}

// Raw reports whether the rule allows bytes of any kind.
func (r Rule) Raw() bool { return r.only == Raw }

// Web reports whether the rule names one host, at the usual ports of the web.
func (r Rule) Web() bool { return r.low == 0 && !r.below && !r.all && !r.host.IsZero() }

// Covers reports whether the rule names the host at some port.
func (r Rule) Covers(h Host) bool {
	if a, literal := h.Addr(); literal {
		return r.prefix.IsValid() && r.prefix.Contains(a)
	}
	return r.host == h && !r.below
}

// named reads the host or hosts of a rule.
func (r Rule) named(rest string) (Rule, error) {
	var err error
	switch {
	case rest == "*":
		r.all = true
		return r, nil
	case strings.HasPrefix(rest, "*."):
		r.below = true
		if r.host, err = Canonical(rest[2:]); err != nil {
			return Rule{}, err
		}
		if r.host.addr.IsValid() {
			return Rule{}, badRule(r.text, "has a * before an address", "write a range of addresses like 10.0.0.0/8")
		}
		return r, nil
	case strings.Contains(rest, "*"):
		return Rule{}, badRule(r.text, "has a * in a place where it means nothing", "write *.example.com for every host below a name")
	case strings.Contains(rest, "/"):
		return r.network(rest)
	}
	if r.host, err = Canonical(rest); err != nil {
		return Rule{}, err
	}
	if a := r.host.addr; a.IsValid() {
		r.prefix = netip.PrefixFrom(a, a.BitLen())
	}
	return r, nil
}

// ports takes the ports off text.
func (r *Rule) ports(text string) (rest string, ok bool) {
	start := 0
	if strings.HasPrefix(text, "[") {
		start = strings.IndexByte(text, ']') + 1 // colons before it are the address's
	} else if strings.Count(text, ":") > 1 {
		return text, true // an IPv6 address without brackets
	}
	i := strings.IndexByte(text[start:], ':')
	if i < 0 {
		return text, true
	}
	i += start
	low, high, span := strings.Cut(text[i+1:], "-")
	if !span {
		high = low
	}
	if r.low, ok = parsePort(low); !ok {
		return text, false
	}
	r.high, ok = parsePort(high)
	return text[:i], ok && r.low <= r.high
}

// network reads a range of addresses.
func (r Rule) network(text string) (Rule, error) {
	if inner, ok := strings.CutPrefix(text, "["); ok {
		text = strings.Replace(inner, "]", "", 1)
	}
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil || p.Addr().Zone() != "":
		return Rule{}, badRule(r.text, "is no range of addresses", "write it like 10.0.0.0/8 or fd00::/8")
	case p.Addr().Is4In6():
		return Rule{}, badRule(r.text, "is a range of IPv4 addresses written as IPv6", "write it as IPv4")
	case p != p.Masked():
		return Rule{}, badRule(r.text, "has bits set beyond its length", "write "+p.Masked().String())
	}
	r.prefix = p
	return r, nil
}

// String returns the rule as written.
func (r Rule) String() string { return r.text }

// All reports whether r means every host.
func (r Rule) All() bool { return r.all }

// port reports whether r, as one that denies, concerns the port.
func (r *Rule) port(p uint16) bool { return r.low == 0 || r.low <= p && p <= r.high }

// opens reports whether r, as one that allows, concerns the port.
func (r *Rule) opens(p uint16) bool {
	if r.low == 0 {
		return usual(p)
	}
	return r.low <= p && p <= r.high
}

// allows returns the protocols that r allows; of plain HTTP perhaps some
// requests only.
func (r *Rule) allows() kind {
	switch r.only {
	case "":
		return kindWeb
	case Raw:
		return kindAny
	}
	return kindOf(r.only)
}

// denies returns the protocols that r denies to the query. Bytes that are not
// inspected may be of any protocol, so a rule that denies one protocol denies
// those too.
func (r *Rule) denies(q *query) kind {
	switch {
	case r.only == "", r.only == Raw:
		return kindAny
	case !r.limited():
		return kindOf(r.only) | kindRaw
	case q.readable && r.catches(q):
		return kindAny
	}
	return kindRaw
}

// single reports whether r names one address.
func (r *Rule) single() bool { return r.prefix.IsValid() && r.prefix.IsSingleIP() }

func badRule(text, why, hint string) error {
	e := sandbox.Errorf(sandbox.CodeValidation, "read network rule", "%s %s", quoted(text), why)
	e.Hint = hint
	return e
}

// at puts the place of a setting into an error of this package.
func at(err error, field string, i int) error {
	if e, ok := err.(*sandbox.Error); ok {
		e.Field = field + "[" + strconv.Itoa(i) + "]"
	}
	return err
}

// Hosts returns the hosts that r means, without ports and protocols.
func (r Rule) Hosts() Hosts {
	if r.prefix.IsValid() {
		return Hosts{prefix: r.prefix}
	}
	return Hosts{all: r.all, below: r.below, name: r.host.name}
}

// Ports returns the first and the last port that r means. Both are 0 where it
// names none and its scheme has none.
func (r Rule) Ports() (low, high uint16) { return r.low, r.high }

// Scheme returns what r was written with before "://": http, https, tcp, or
// nothing.
func (r Rule) Scheme() string {
	switch r.only {
	case HTTP:
		return "http"
	case TLS:
		return "https"
	case Raw:
		return "tcp"
	}
	return ""
}
