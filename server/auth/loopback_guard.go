package auth

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/bulkhead-dev/sandbox"
)

// Admit refuses requests that a web page may have made a browser send, on every
// socket: those with an Origin, unless it is the address that the request is
// sent to; those that a browser marks as coming from another site; and, over
// TCP, those for a host that is not ours, because a page whose own name resolves
// to this machine (DNS rebinding) sends that name.
//
// Our hosts are the names and addresses of loopback, the address at which the
// connection arrived, and hosts: names without a port. The code is
// [sandbox.CodePermissionDeny], and the status 403, not 401: no token helps.
func Admit(r *http.Request, hosts []string) error {
	_, local := peerOf(r.Context())
	name, ok := hostName(r.Host)
	ours := ok && (loopback(name) || arrived(r, name) || listed(name, hosts))
	if !local && !ours {
		return &sandbox.Error{
			Code: sandbox.CodePermissionDeny, Op: op, Field: "Host", Message: "the request is for a host that is not this server",
			Hint: "use localhost, the address of the server, or a name that the settings list in daemon.hosts",
		}
	}
	foreign := &sandbox.Error{
		Code: sandbox.CodePermissionDeny, Op: op, Field: "Origin", Message: "pages of other origins have no access",
		Hint: "send requests from a program, without the header Origin",
	}
	for _, origin := range r.Header.Values("Origin") {
		if !ownOrigin(origin, r.Host) || local && !listed(name, hosts) {
			return foreign
		}
	}
	for _, site := range r.Header.Values("Sec-Fetch-Site") {
		if site != "none" && site != "same-origin" {
			return foreign
		}
	}
	return nil
}

// ownOrigin reports whether an origin is that of the host, port included.
func ownOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.User == nil &&
		u.Host == host && u.Path == "" && u.RawQuery == "" && u.Fragment == ""
}

// hostName returns a Host header without its port, and an IPv6 address without
// its brackets.
func hostName(host string) (string, bool) {
	if host == "" || strings.ContainsAny(host, "@/\\ \t?#%") {
		return "", false
	}
	inner, bracketed := strings.CutPrefix(host, "[")
	if bracketed {
		name, rest, ok := strings.Cut(inner, "]")
		addr, err := netip.ParseAddr(name)
		return name, ok && err == nil && addr.Is6() && isPort(rest)
	}
	name, port, found := strings.Cut(host, ":")
	return name, name != "" && (!found || isPort(":"+port))
}

// isPort reports whether s is empty or a colon and a number.
func isPort(s string) bool {
	digits, ok := strings.CutPrefix(s, ":")
	return s == "" || ok && digits != "" && len(digits) <= 5 && strings.Trim(digits, "0123456789") == ""
}

// loopback reports whether a name means this machine whatever a name server
// answers. Browsers treat other spellings of numbers as names.
func loopback(name string) bool {
	if strings.EqualFold(name, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.IsLoopback() && !addr.Is4In6()
}

// arrived reports whether name is the local address of r's connection. A page
// cannot have such a name: no name server resolves addresses.
func arrived(r *http.Request, name string) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	at, err := netip.ParseAddrPort(local.String())
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr == at.Addr().Unmap().WithZone("")
}

// listed reports whether hosts contains name.
func listed(name string, hosts []string) bool {
	for _, h := range hosts {
		if strings.EqualFold(strings.TrimSuffix(name, "."), h) {
			return true
		}
	}
	return false
}
