package replay

import (
	"strings"

	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// Request implements [replay.Today].
func (j *judge) Request(r Request) Answer {
	if a, ok := j.requests[r]; ok {
		return a
	}
	a := j.request(r)
	if len(j.requests) >= maxAnswers {
		clear(j.requests)
	}
	j.requests[r] = a
	return a
}

func (j *judge) request(r Request) Answer {
	host, err := network.Canonical(r.Host)
	switch {
	case err != nil:
		return refused(err)
	case r.Scheme != "http" && r.Scheme != "https":
		return refusal("scheme", "it is none of http and https")
	case r.Port < 0 || r.Port > 65535:
		return refusal("port", "the port is none from 1 to 65535")
	case r.Port == 0 && r.Scheme == "http":
		r.Port = 80
	case r.Port == 0:
		r.Port = 443
	}
	c := grant.Capability{Kind: grant.NetHTTP, Host: host.String(), Port: r.Port, Scheme: r.Scheme, Methods: []string{r.Method}}
	op := grant.Operation{Kind: grant.OpNetHTTP, Method: r.Method, URL: r.Scheme + "://" + host.Target(uint16(r.Port)) + "/"}
	a := ask(manifest(c), j.policy, op)
	if a.Verdict == policy.Allow {
		q := network.Request{Host: host, Port: uint16(r.Port), Protocol: network.TLS, Method: r.Method, Path: "/"}
		if r.Scheme == "http" {
			q.Protocol = network.HTTP
		}
		a = decided(j.gate.Hosts().JudgeRequest(q))
	}
	listed := a.Verdict == policy.Allow || a.Rule == "policy.lists.domains" || a.Rule == "policy.denied.domains"
	if r.Scheme == "http" && listed && j.pathsCount() {
		a.Unsure = "a rule for hosts has a path in it, and that of the request is not in the record"
		a.Verdict = policy.Allow // unknown; what is certain is decided without
		if d := j.gate.Hosts().Judge(host, uint16(r.Port)); d.Verdict == policy.Deny {
			return decided(d)
		}
	}
	return a
}

// pathsCount reports whether some rule is about paths of plain HTTP.
func (j *judge) pathsCount() bool {
	for _, list := range [][]string{j.res.Network.AllowedDomains, j.res.Network.DeniedDomains} {
		for _, rule := range list {
			if _, after, ok := strings.Cut(rule, "http://"); ok && strings.Contains(after, "/") {
				return true
			}
		}
	}
	return false
}

// Placement implements [replay.Today].
func (j *judge) Placement(p Placement) Answer {
	host, err := network.Canonical(p.Host)
	if err != nil {
		return refused(err)
	}
	q, hosts := network.Request{Host: host, Port: p.Port, Method: p.Method, Path: p.Path}, j.gate.Hosts()
	var a Answer
	switch p.Protocol {
	case "http":
		q.Protocol = network.HTTP
		a = decided(hosts.JudgeRequest(q))
	case "https":
		q.Protocol = network.TLS
		a = decided(hosts.JudgeRequest(q))
	case "connect", "socks5":
		a = j.tunnel(host, p.Port)
	default:
		return refusal("protocol", "the protocol is none that is spoken")
	}
	if a.Verdict != policy.Allow || !p.Addr.IsValid() {
		return a
	}
	if d := hosts.JudgeDial(host, p.Addr.Addr(), p.Addr.Port()); d.Verdict != policy.Allow {
		return decided(d)
	}
	return a
}

// tunnel judges a connection by its host and port, which is what the record
// has of it.
func (j *judge) tunnel(host network.Host, port uint16) Answer {
	hosts := j.gate.Hosts()
	a := decided(hosts.Judge(host, port))
	if a.Verdict == policy.Deny {
		return a
	}
	for _, protocol := range []network.Protocol{network.TLS, network.HTTP, network.Raw} {
		q := network.Request{Host: host, Port: port, Protocol: protocol}
		if protocol == network.HTTP {
			q.Method, q.Path = "GET", "/"
		}
		if hosts.JudgeRequest(q).Verdict != a.Verdict {
			a.Unsure = "judged by host and port: what the connection carried is not in the record"
		}
	}
	return a
}

func decided(d network.Decision) Answer {
	return Answer{Verdict: d.Verdict, Rule: d.Rule, Message: d.Message}
}
