package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/gate"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// A NetworkPlan says what a session reaches, as far as the settings tell: the
// addresses of a host are judged when it is looked up, by the proxy or for a question.
type NetworkPlan struct {
	Mode    string        `json:"mode"` // none, allow-list, ask or open-public
	Only    bool          `json:"only"` // whether the proxy is the only egress
	Rules   []NetworkRule `json:"rules"`
	Limits  []Setting     `json:"limits"`
	Secrets []BoundName   `json:"secrets"`
}

// A NetworkRule is one rule for hosts.
type NetworkRule struct {
	Does  string `json:"does"` // allow or deny
	Rule  string `json:"rule"`
	Layer string `json:"layer"`
}

// A BoundName is a secret without its value.
type BoundName struct {
	Name  string   `json:"name"`
	Hosts []string `json:"hosts"`
	From  string   `json:"from"` // "env NAME", "file PATH" or "command PROGRAM"
	Layer string   `json:"layer"`
}

// networkPlan says what the settings of a call let it reach.
func networkPlan(res config.Resolved, hosts *network.Policy) NetworkPlan {
	n := res.Network
	p := NetworkPlan{Mode: hosts.Mode(), Only: res.Docker.Network == "none", Rules: []NetworkRule{}, Limits: []Setting{}, Secrets: []BoundName{}}
	for i, rule := range n.AllowedDomains {
		p.Rules = append(p.Rules, NetworkRule{"allow", rule, res.Origin(fmt.Sprintf("network.allowedDomains[%d]", i))})
	}
	for i, rule := range n.DeniedDomains {
		p.Rules = append(p.Rules, NetworkRule{"deny", rule, res.Origin(fmt.Sprintf("network.deniedDomains[%d]", i))})
	}
	for _, s := range []struct {
		name, rule string
		on         bool
	}{
		{"network.allowPublic", "any public host", n.AllowPublic},
		{"network.allowPrivate", "private addresses of hosts that are allowed", n.AllowPrivate},
	} {
		if s.on {
			p.Rules = append(p.Rules, NetworkRule{"allow", s.rule, res.Origin(s.name)})
		}
	}
	unbounded := func(zero bool, text string) string {
		if zero {
			return "unbounded"
		}
		return text
	}
	l := n.Limits
	for _, s := range []struct{ name, value string }{
		{"connections", unbounded(l.Connections == 0, fmt.Sprint(l.Connections))},
		{"bytesIn", unbounded(l.BytesIn == 0, l.BytesIn.String())},
		{"bytesOut", unbounded(l.BytesOut == 0, l.BytesOut.String())},
		{"requestBytes", unbounded(l.RequestBytes == 0, l.RequestBytes.String())},
		{"idle", cmp.Or(l.Idle, config.Duration(5*time.Minute)).String()},
		{"total", unbounded(l.Total == 0, l.Total.String())},
	} {
		p.Limits = append(p.Limits, Setting{Path: s.name, Value: s.value, Layer: res.Origin("network.limits." + s.name)})
	}
	p.Secrets = append(p.Secrets, boundNames(res)...)
	return p
}

// boundNames lists the secrets of a call with where they come from, of a
// command only its program: arguments may be secrets.
func boundNames(res config.Resolved) []BoundName {
	var out []BoundName
	for _, ref := range res.SecretRefs() {
		from, source := res.Network.Secrets[ref.Name].From, ""
		switch {
		case from.File != "":
			source = "file " + from.File
		case len(from.Command) > 0:
			source = "command " + from.Command[0]
		default:
			source = "env " + cmp.Or(from.Env, ref.Name)
		}
		out = append(out, BoundName{Name: ref.Name, Hosts: ref.Hosts, From: source, Layer: res.Origin("network.secrets." + ref.Name)})
	}
	return out
}

// A hostQuestion is what explain was asked about a host.
type hostQuestion struct {
	host   network.Host
	port   uint16
	scheme string // http, https, tcp, or empty for all three
	method string // of a request, or empty
	path   string
}

// askHost reads HOST, HOST:PORT or a URL. A host without a port is one of https.
func askHost(text, method string) (hostQuestion, error) {
	q := hostQuestion{port: 443, method: method}
	rest := text
	if scheme, after, ok := strings.Cut(text, "://"); ok {
		switch scheme {
		case "http":
			q.port = 80
		case "https", "tcp":
		default:
			return q, errors.New("the scheme is none of http, https and tcp")
		}
		q.scheme, rest = scheme, after
		if i := strings.IndexAny(after, "/?"); i >= 0 && scheme != "tcp" {
			rest, q.path = after[:i], after[i:]
			if q.path[0] == '?' {
				q.path = "/" + q.path
			}
		}
		if scheme == "http" || q.path != "" || method != "" {
			q.method, q.path = cmp.Or(q.method, "GET"), cmp.Or(q.path, "/")
		}
	}
	if q.method != "" && q.scheme != "http" && q.scheme != "https" {
		return q, errors.New("a method needs a URL: write http://HOST/PATH")
	}
	h, port, err := network.ParseTarget(rest)
	if err != nil {
		if h, err = network.Canonical(rest); err != nil {
			return q, err
		}
		port = q.port
		if q.scheme == "tcp" {
			return q, errors.New("tcp:// needs a port")
		}
	}
	q.host, q.port = h, port
	return q, nil
}

// protocols are what is judged for the question, with their names.
func (q hostQuestion) protocols() []network.Protocol {
	switch q.scheme {
	case "http":
		return []network.Protocol{network.HTTP}
	case "https":
		return []network.Protocol{network.TLS}
	case "tcp":
		return []network.Protocol{network.Raw}
	}
	return []network.Protocol{network.TLS, network.HTTP, network.Raw}
}

// answerNetwork says what the policy for hosts makes of a host, by protocol,
// or of one request.
//
// Where the rules let a name pass, its addresses decide, and it is looked up for
// that, as the proxy does.
func (x *explainer) answerNetwork(ctx context.Context, g *gate.Gate, res config.Resolved, text, method string) []Verdict {
	q, err := askHost(text, method)
	if err != nil {
		return []Verdict{{Kind: "host", Subject: text, Verdict: string(policy.Deny), Reason: err.Error()}}
	}
	var out []Verdict
	_, literal := q.host.Addr()
	addresses := sync.OnceValue(func() addressed { return x.addressed(ctx, g.Hosts(), q) })
	for _, protocol := range q.protocols() {
		r := network.Request{Host: q.host, Port: q.port, Protocol: protocol, Method: q.method, Path: q.path}
		names := secretsFor(res, q, protocol)
		v := Verdict{Kind: "host", Operation: string(protocol), Subject: q.host.Target(q.port), Secrets: names}
		if q.method != "" {
			v.Subject = q.method + " " + v.Subject + q.path
		}
		if protocol == network.TLS && len(names) == 0 && q.method != "" {
			r.Method, r.Path = "", "" // the caller does not use them
			v.Reason = "the request cannot be seen inside TLS; "
		}
		out = append(out, v.of(g.Hosts().JudgeRequest(r), literal, addresses, res))
	}
	return out
}

// lookupTime is how long explain waits for the addresses of a name.
const lookupTime = 3 * time.Second

// An addressed is what the addresses of a name mean for it.
type addressed struct {
	refused *network.Decision // of the first one, where the proxy dials none of them
	said    string
}

// addressed looks the host of a question up and judges its addresses.
func (x *explainer) addressed(ctx context.Context, hosts *network.Policy, q hostQuestion) addressed {
	if x.m.host.Lookup == nil {
		return addressed{said: "it was not looked up here; its addresses are judged when the proxy does"}
	}
	ctx, done := context.WithTimeout(ctx, lookupTime)
	defer done()
	list, err := x.m.host.Lookup(ctx, q.host.String())
	switch {
	case err != nil:
		return addressed{said: "it could not be looked up (" + err.Error() + "), and its addresses decide"}
	case len(list) == 0:
		return addressed{said: "it has no address"}
	}
	var first *network.Decision
	var names []string
	for _, a := range list {
		a = a.WithZone("").Unmap()
		d := hosts.JudgeDial(q.host, a, q.port)
		switch {
		case d.Verdict == policy.Allow:
			names = append(names, a.String())
		case first == nil:
			first = &d
		}
	}
	if len(names) == 0 {
		return addressed{refused: first}
	}
	return addressed{said: "of its addresses the proxy may dial " + strings.Join(names[:min(len(names), 3)], ", ")}
}

// of completes v by a decision about a host, which may be an address itself.
func (v Verdict) of(d network.Decision, literal bool, addresses func() addressed, res config.Resolved) Verdict {
	said := ""
	if d.Verdict == policy.Allow && !literal {
		at := addresses()
		said = "; " + at.said
		if at.refused != nil {
			rule := d.Rule
			d, said = *at.refused, ""
			d.Message = "the rules let the name pass (" + rule + ") and not its address: " + d.Message
		}
	}
	v.Verdict, v.Rule, v.Hint = string(d.Verdict), d.Rule, d.Hint
	v.Reason += d.Message + " (" + d.Rule + ")"
	switch {
	case d.Hint != "":
		v.Reason += "; instead: " + d.Hint
	case len(v.Secrets) > 0:
		v.Reason += "; " + strings.Join(v.Secrets, ", ") + " is put into its headers"
	}
	v.Reason += said
	if res.Docker.Network != "none" {
		v.Reason += "; docker.network is " + res.Docker.Network + ", with which programs need not ask"
	}
	return v
}

// secretsFor returns the names of the secrets that requests to the host get.
func secretsFor(res config.Resolved, q hostQuestion, protocol network.Protocol) []string {
	var out []string
	for _, ref := range res.SecretRefs() {
		named := slices.Contains(ref.Hosts, q.host.Target(q.port))
		plain := q.port == 443 && slices.Contains(ref.Hosts, q.host.String())
		if named && protocol != network.Raw || plain && protocol == network.TLS {
			out = append(out, ref.Name)
		}
	}
	return out
}
