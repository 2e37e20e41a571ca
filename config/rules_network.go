package config

import (
	"errors"
	"fmt"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// networkErrors checks the rules for hosts, and whether the other settings let
// them mean what they say.
func networkErrors(r Resolved) []error {
	var errs []error
	for _, l := range []struct {
		name  string
		rules []string
		check func(string) error
	}{
		{"network.allowedDomains", r.Network.AllowedDomains, func(s string) error { return network.CheckAllowed(s, r.Network.AllowPublic) }},
		{"network.deniedDomains", r.Network.DeniedDomains, network.CheckDenied},
	} {
		for i, s := range l.rules {
			var e *sandbox.Error
			if errors.As(l.check(s), &e) {
				e.Field = r.field(fmt.Sprintf("%s[%d]", l.name, i))
				errs = append(errs, e)
			}
		}
		if err := aroundRules(r, l.name, len(l.rules) > 0); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return errs
	}
	return secretErrors(r)
}

// sandboxed reports whether the egress proxy is the only route out: with any
// network of the engine, programs can bypass the proxy.
func (r Resolved) sandboxed() bool { return r.Docker.Network == "" || r.Docker.Network == "none" }

// aroundRules refuses rules for hosts that would look enforced and would not
// be.
func aroundRules(r Resolved, name string, given bool) error {
	if !given || r.sandboxed() {
		return nil
	}
	return &sandbox.Error{
		Code: sandbox.CodeValidation, Op: "resolve", Field: r.field(name + "[0]"),
		Message: fmt.Sprintf("docker.network is %q, with which programs inside reach what they like whatever these rules say", r.Docker.Network),
		Hint:    "set docker.network to none, so that the hosts of the rules are all that can be reached, or take the rules out",
	}
}

// secretErrors checks the secrets against the other settings.
func secretErrors(r Resolved) []error {
	if len(r.Network.Secrets) == 0 {
		return nil
	}
	p, err := HostPolicy(r)
	if err != nil {
		return []error{err}
	}
	var errs []error
	for _, name := range sortedKeys(r.Network.Secrets) {
		at, s := join("network.secrets", name), r.Network.Secrets[name]
		if len(s.From.Command) > 0 && r.Origin(at) == "flag" {
			errs = append(errs, invalid(r.field(at), "a call cannot name a program that prints a secret; the settings file can"))
		}
		if _, ok := r.Docker.Env[name]; ok {
			errs = append(errs, invalid(r.field(at), "docker.env sets %s too, and a variable holds one value; take it out there", name))
		}
		for i, text := range s.Hosts {
			if err := unreachable(p, text); err != nil {
				err.Field = fmt.Sprintf("%s.hosts[%d]", r.field(at), i)
				errs = append(errs, err)
			}
		}
	}
	return errs
}

// unreachable says why a host to which a secret is bound cannot be reached,
// and which rule would change that. It returns nil when it can be.
func unreachable(p *network.Policy, text string) *sandbox.Error {
	h, port, err := secretHost(text)
	if err != nil {
		return sandbox.Errorf(sandbox.CodeValidation, "resolve", "%s is no host", quoted(text))
	}
	d := p.Judge(h, port)
	rule := h.Target(port)
	if port == 0 {
		d = p.JudgeRequest(network.Request{Host: h, Port: 443, Protocol: network.TLS})
		rule = h.String()
	}
	if d.Verdict != policy.Deny {
		return nil
	}
	e := sandbox.Errorf(sandbox.CodeValidation, "resolve", "a secret is bound to a host that cannot be reached: %s (%s)", d.Message, d.Rule)
	e.Hint = fmt.Sprintf("add %q to network.allowedDomains, or take the host out here", rule)
	return e
}
