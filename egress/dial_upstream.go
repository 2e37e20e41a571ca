package egress

import (
	"crypto/x509"
	"net/netip"
	"net/url"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// An Upstream holds the proxies through which the orchestrator connects to
// hosts. It is immutable and safe for concurrent use.
type Upstream struct {
	http, other *upstreamProxy
	bypass      bypass
}

// An upstreamProxy is a proxy between the orchestrator and the hosts.
type upstreamProxy struct {
	scheme     string // http, https, socks5
	host       network.Host
	port       uint16
	user, pass string
	login      bool           // has credentials
	roots      *x509.CertPool // authorities for the certificate of an https proxy; nil: those of the system
}

// UpstreamFrom reads the proxies from environment variables: HTTP_PROXY for
// port 80, HTTPS_PROXY for all other ports, ALL_PROXY where these are not set,
// NO_PROXY for hosts reached directly; upper case or lower. Without any of
// them the Upstream is nil, which means direct connections too.
//
// Schemes are http, https, socks5 and socks5h; the default is http. The two
// SOCKS schemes mean the same: a proxy gets vetted addresses and no names.
// NO_PROXY lists hosts (their subdomains included), .suffixes, addresses and
// ranges, each with a port or without, or "*". Ranges apply to the looked-up
// addresses of names. Loopback and link-local addresses belong to this machine
// and never use a proxy.
//
// Errors are of [sandbox.CodeValidation] and name the variable. They do not
// contain its value, which may include a password.
func UpstreamFrom(env func(string) string) (*Upstream, error) {
	all, err := proxyFrom(env, "ALL_PROXY")
	if err != nil {
		return nil, err
	}
	u := &Upstream{http: all, other: all}
	for _, own := range []struct {
		name string
		of   **upstreamProxy
	}{{"HTTP_PROXY", &u.http}, {"HTTPS_PROXY", &u.other}} {
		p, err := proxyFrom(env, own.name)
		if err != nil {
			return nil, err
		}
		if p != nil {
			*own.of = p
		}
	}
	if u.http == nil && u.other == nil {
		return nil, nil
	}
	_, list := variable(env, "NO_PROXY")
	if u.bypass, err = parseBypass(list); err != nil {
		return nil, err
	}
	return u, nil
}

// variable returns the value of a variable and its name as found, upper case
// before lower.
func variable(env func(string) string, name string) (as, value string) {
	if v := env(name); v != "" {
		return name, v
	}
	name = strings.ToLower(name)
	return name, env(name)
}

func proxyFrom(env func(string) string, name string) (*upstreamProxy, error) {
	as, text := variable(env, name)
	if text == "" {
		return nil, nil
	}
	p, why := parseProxy(text)
	if why != "" {
		e := sandbox.Errorf(sandbox.CodeValidation, "read proxy", "the variable %s", why)
		e.Field, e.Hint = as, "write http://HOST:PORT, https://HOST:PORT or socks5://HOST:PORT"
		return nil, e
	}
	return p, nil
}

// parseProxy parses the URL of a proxy; why describes what is wrong with it.
func parseProxy(text string) (p *upstreamProxy, why string) {
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, "is no URL"
	}
	p = &upstreamProxy{scheme: strings.ToLower(u.Scheme)}
	switch p.scheme {
	case "http":
		p.port = 80
	case "https":
		p.port = 443
	case "socks5", "socks5h":
		p.scheme, p.port = "socks5", 1080
	default:
		return nil, "has a scheme that is not supported"
	}
	if u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" || u.Opaque != "" {
		return nil, "has more than a host in it"
	}
	if p.host, err = network.Canonical(u.Hostname()); err != nil {
		return nil, "has no host in it that could be one"
	}
	if text := u.Port(); text != "" {
		var ok bool
		if p.port, ok = parsePort(text); !ok {
			return nil, "has no port from 1 to 65535"
		}
	}
	if u.User != nil {
		p.login = true
		p.user = u.User.Username()
		p.pass, _ = u.User.Password()
	}
	if p.login && p.scheme == "socks5" && (p.user == "" || len(p.user) > 255 || len(p.pass) > 255) {
		return nil, "has a user name or password that SOCKS cannot carry"
	}
	return p, ""
}

// choose returns the proxy through which an address of h is reached, or nil.
func (u *Upstream) choose(h network.Host, to netip.AddrPort) *upstreamProxy {
	if u == nil || to.Addr().IsLoopback() || to.Addr().IsLinkLocalUnicast() || u.bypass.matches(h, to) {
		return nil
	}
	if to.Port() == 80 {
		return u.http
	}
	return u.other
}

// String names the proxies, without credentials.
func (u *Upstream) String() string {
	if u == nil {
		return "none"
	}
	return u.http.String() + " for port 80, " + u.other.String() + " otherwise"
}

func (p *upstreamProxy) String() string {
	if p == nil {
		return "none"
	}
	return p.scheme + "://" + p.host.Target(p.port)
}
