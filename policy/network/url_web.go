package network

import (
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy"
)

// web judges an http or https address; rest is what follows the colon.
func (r *Rules) web(scheme, rest string, hop bool) (Address, error) {
	u, host, port, err := parse(scheme, rest)
	if err != nil {
		return Address{}, err
	}
	if host.String() == WorkspaceHost {
		if !hop || scheme != "http" || port != 80 {
			return Address{}, blocked(WorkspaceHost, WorkspaceHost+" is no host but the workspace", "name a file of the workspace as ./PATH")
		}
		return hopToFile(u)
	}
	if !slices.Contains(r.schemes, scheme) {
		return Address{}, blocked(scheme+":", scheme+" addresses are not allowed", "use "+r.wanted()+" addresses")
	}
	if err := r.host(scheme, host, port, u); err != nil {
		return Address{}, err
	}
	return Address{Kind: Web, URL: spell(u, host, port)}, nil
}

// parse reads an address strictly: what browsers mend is refused.
func parse(scheme, rest string) (*url.URL, Host, uint16, error) {
	none := Host{}
	fail := func(message, hint string) (*url.URL, Host, uint16, error) {
		return nil, none, 0, malformed(message, hint)
	}
	place, ok := strings.CutPrefix(rest, "//")
	if !ok || place == "" || strings.ContainsAny(place[:1], "/\\?#") {
		return fail("the address names no host", "write "+scheme+"://HOST/PATH")
	}
	end := strings.IndexAny(place, "?#")
	if end < 0 {
		end = len(place)
	}
	authority, _, _ := strings.Cut(place[:end], "/")
	switch {
	case strings.Contains(place[:end], "\\"):
		return fail("the address has a backslash in it, which browsers take for a slash", "write slashes")
	case strings.Contains(authority, "@"):
		return fail("the address has a user name in it", "leave out what stands before the @")
	case strings.ContainsAny(authority, " %\t"):
		return fail("the host has characters in it that no host has", "")
	}
	u, err := url.Parse(scheme + ":" + rest)
	if err != nil || u.User != nil || u.Opaque != "" {
		return fail("the address cannot be read", "write "+scheme+"://HOST/PATH")
	}
	name, port := u.Host, uint16(80)
	if scheme == "https" {
		port = 443
	}
	if text := u.Port(); text != "" {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil || n == 0 {
			return fail("the port is none from 1 to 65535", "")
		}
		port = uint16(n)
	}
	name = strings.TrimSuffix(name, ":"+u.Port())
	host, err := Canonical(name)
	if err != nil {
		return nil, none, 0, &sandbox.Error{
			Code: sandbox.CodeValidation, Op: "judge address", Field: "address", Message: "the host cannot be read", Err: err,
		}
	}
	return u, host, port, nil
}

// host asks the policy. It lets a host pass that needs approval: the egress
// proxy asks when the browser connects.
func (r *Rules) host(scheme string, host Host, port uint16, u *url.URL) error {
	if r.policy == nil {
		if r.direct {
			return nil
		}
		return blocked(host.Target(port), "no rule allows "+host.Target(port), "have network.allowedDomains name the host")
	}
	q := Request{Host: host, Port: port, Protocol: TLS}
	if scheme == "http" {
		q.Protocol, q.Method, q.Path = HTTP, "GET", origin(u)
	}
	d := r.policy.JudgeRequest(q)
	switch addr, literal := host.Addr(); {
	case d.Verdict != policy.Deny:
		return nil
	case r.direct && literal && inner(addr): // no rule names it, and the network may well lead there
	case r.direct && !strings.HasPrefix(d.Rule, "network.deniedDomains"):
		return nil
	}
	return blocked(host.Target(port), d.Message+" ("+d.Rule+")", d.Hint)
}

// inner reports whether an address is one of a machine's own or of the network
// around it.
func inner(a netip.Addr) bool {
	return a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsUnspecified() || a.IsMulticast() || a.IsInterfaceLocalMulticast()
}

// origin is the path as it is sent.
func origin(u *url.URL) string {
	path := u.EscapedPath()
	if path == "" {
		path = "/"
	}
	if u.RawQuery != "" {
		path += "?" + u.RawQuery
	}
	return path
}

// spell writes the address with the host in its one spelling.
func spell(u *url.URL, host Host, port uint16) string {
	name := host.String()
	if strings.Contains(name, ":") {
		name = "[" + name + "]"
	}
	if !(u.Scheme == "http" && port == 80 || u.Scheme == "https" && port == 443) {
		name += ":" + strconv.Itoa(int(port))
	}
	clean := *u
	clean.Host = name
	if clean.Path == "" {
		clean.Path = "/"
	}
	return clean.String()
}
