package egress

import (
	"errors"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// target parses the target of the request line.
func (h *requestHead) target(target string) error {
	if strings.Contains(target, "#") {
		return requestMalformed("the target has a fragment")
	}
	if h.Method == "CONNECT" {
		host, port, err := network.ParseTarget(target)
		if err != nil {
			return badHost(err)
		}
		h.Form, h.Host, h.Port = requestAuthority, host, port
		return nil
	}
	if target[0] == '/' {
		h.Form, h.Path = requestOrigin, target
		return nil
	}
	scheme, rest, ok := strings.Cut(target, "://")
	switch {
	case ok && strings.EqualFold(scheme, "https"):
		return requestMalformed("a URL of https is reached with CONNECT")
	case !ok || !strings.EqualFold(scheme, "http"):
		return requestMalformed("the target is neither a path nor a URL of http")
	}
	authority, path := rest, "/"
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority, path = rest[:i], rest[i:]
		if path[0] == '?' {
			path = "/" + path
		}
	}
	host, port, err := parseAuthority(authority)
	if err != nil {
		return err
	}
	if port == 0 {
		port = 80
	}
	h.Form, h.Host, h.Port, h.Path = requestAbsolute, host, port, path
	return nil
}

// host compares the Host field with the target.
func (h *requestHead) host(field *string) error {
	if field == nil {
		if h.Minor == 1 && h.Form != requestAuthority {
			return requestMalformed("there is no Host")
		}
		return nil
	}
	host, port, err := parseAuthority(*field)
	if err != nil {
		return err
	}
	switch h.Form {
	case requestOrigin:
		h.Host, h.Port = host, port
		return nil
	case requestAbsolute:
		if port == 0 {
			port = 80
		}
	case requestAuthority: // some programs send its Host without the port
		if port == 0 {
			port = h.Port
		}
	}
	if host != h.Host || port != h.Port {
		return requestMalformed("the Host field differs from the host of the target")
	}
	return nil
}

// parseAuthority parses "host" or "host:port"; port is 0 if there is none.
func parseAuthority(s string) (network.Host, uint16, error) {
	if s == "" {
		return network.Host{}, 0, requestMalformed("the host is empty")
	}
	if strings.Contains(s, "@") {
		return network.Host{}, 0, requestMalformed("there is a user name in the URL")
	}
	i := strings.LastIndexByte(s, ':')
	if i < 0 || strings.HasSuffix(s, "]") {
		if i >= 0 && s[0] != '[' {
			return network.Host{}, 0, requestMalformed("the host is none")
		}
		host, err := network.Canonical(s)
		if err != nil {
			return network.Host{}, 0, badHost(err)
		}
		return host, 0, nil
	}
	host, port, err := network.ParseTarget(s)
	if err != nil {
		return network.Host{}, 0, badHost(err)
	}
	return host, port, nil
}

// badHost converts an error of policy/network about a host to one that can be
// sent.
func badHost(err error) error {
	var e *sandbox.Error
	if errors.As(err, &e) {
		return requestMalformed(e.Message)
	}
	return requestMalformed("the host is none")
}
