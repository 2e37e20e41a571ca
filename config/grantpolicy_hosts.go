package config

import (
	"errors"
	"fmt"
	"slices"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// Bounds of hosts in a policy of grants.
const (
	maxHosts      = 64 // capabilities for hosts; beyond it wider ones stand for them
	maxUnusual    = 16 // ports of one rule that have to be named
	firstFreePort = 1024
)

// A site is what one capability for hosts names.
type site struct {
	hosts  network.Hosts
	port   int
	scheme string
}

// hostCapabilities returns what may be asked for over HTTP, and the list of
// rules that it is held against as well. Ports, methods and paths of a rule
// are the list's to judge. The list is never nil, which would allow all.
func (r Resolved) hostCapabilities() ([]grant.Capability, []string, error) {
	n := r.Network
	domains := append([]string{}, n.AllowedDomains...)
	var sites []site
	for i, text := range n.AllowedDomains {
		rule, err := network.ParseRule(text)
		if err == nil {
			err = network.CheckAllowed(text, n.AllowPublic)
		}
		if err != nil {
			return nil, nil, r.atRule("network.allowedDomains", i, err)
		}
		sites = append(sites, sitesOf(rule)...)
	}
	for i, text := range n.DeniedDomains {
		if err := network.CheckDenied(text); err != nil {
			return nil, nil, r.atRule("network.deniedDomains", i, err)
		}
	}
	if n.AllowPublic {
		open := []string{"*"}
		if n.AllowPrivate { // without allowPublic it opens no address that no rule names
			open = append(open, network.PrivateRanges()...)
		}
		for _, text := range open {
			hosts, err := network.ParseHosts(text)
			if err != nil {
				return nil, nil, err
			}
			sites = append(sites, site{hosts: hosts})
			if !slices.Contains(domains, text) {
				domains = append(domains, text)
			}
		}
	}
	out, err := r.sites(sites)
	return out, domains, err
}

// sitesOf returns what a rule allows of HTTP: of a range of ports those that
// are usual without being named, and the others one by one, as far as they are
// few. More are left out.
func sitesOf(rule network.Rule) []site {
	s := site{hosts: rule.Hosts(), scheme: rule.Scheme()}
	low, high := rule.Ports()
	switch {
	case s.scheme == "tcp":
		return nil
	case low == high:
		s.port = int(low)
		return []site{s}
	}
	var out []site
	usual := high >= firstFreePort
	for port := low; port <= min(high, firstFreePort-1); port++ {
		if network.UsualPort(port) {
			usual = true
		} else if len(out) < maxUnusual {
			out = append(out, site{s.hosts, int(port), s.scheme})
		}
	}
	if usual { // without the scheme, with which 0 would be its own port alone
		out = append(out, site{hosts: s.hosts})
	}
	return out
}

// sites spells capabilities. Where they are too many, names become every name
// and addresses every address: the list of rules goes on telling which.
func (r Resolved) sites(list []site) ([]grant.Capability, error) {
	list = distinct(list)
	if len(list) > maxHosts {
		for i := range list {
			wide, err := around(list[i].hosts)
			if err != nil {
				return nil, err
			}
			list[i].hosts = wide
		}
		list = distinct(list)
	}
	if len(list) > maxHosts {
		return nil, r.placed(&sandbox.Error{
			Code: sandbox.CodeValidation, Op: "resolve", Field: "network.allowedDomains",
			Message: fmt.Sprintf("it names %d ports that tools could use; %d are the most", len(list), maxHosts), Hint: "name ranges of ports, from 1024 on",
		})
	}
	out := make([]grant.Capability, len(list))
	for i, s := range list {
		out[i] = grant.Capability{Kind: grant.NetHTTP, Host: s.hosts.String(), Port: s.port, Scheme: s.scheme, Methods: []string{"*"}}
	}
	return out, nil
}

// around returns every name, or every address of the family of hosts.
func around(hosts network.Hosts) (network.Hosts, error) {
	for _, text := range []string{"*", "0.0.0.0/0", "::/0"} {
		wide, err := network.ParseHosts(text)
		if err != nil || wide.Holds(hosts) {
			return wide, err
		}
	}
	return hosts, nil
}

// distinct returns the sites without repetitions.
func distinct(list []site) []site {
	seen := make(map[site]bool, len(list))
	out := list[:0]
	for _, s := range list {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}

// atRule gives an error the place of a rule.
func (r Resolved) atRule(name string, i int, err error) error {
	var e *sandbox.Error
	if !errors.As(err, &e) {
		return err
	}
	placed := *e
	placed.Field = fmt.Sprintf("%s[%d]", name, i)
	return r.placed(&placed)
}
