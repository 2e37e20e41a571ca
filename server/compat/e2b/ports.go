package e2b

import (
	"net"
	"net/http"
	"strconv"
	"strings"
)

// hostOf reads a host PORT-NAME.DOMAIN.
func (d *Door) hostOf(r *http.Request) (port, name string, ok bool) {
	label, domain, found := strings.Cut(r.Host, ".")
	port, name, dash := strings.Cut(label, "-")
	if !found || !dash || !goodName(name) || !strings.Contains(name, "-") { // names without are labels of shared ports
		return "", "", false
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || strconv.FormatUint(n, 10) != port {
		return "", "", false
	}
	if host, _, err := net.SplitHostPort(domain); err == nil {
		domain = host
	}
	if strings.EqualFold(domain, "localhost") {
		return port, name, true
	}
	if d.o.Domains != nil {
		for _, own := range d.o.Domains() {
			if strings.EqualFold(strings.TrimSuffix(domain, "."), own) {
				return port, name, true
			}
		}
	}
	return "", "", false
}

// domain returns the domain of hosts of sandboxes, as the client calls this server.
func (d *Door) domain(c *call) string {
	host, port, err := net.SplitHostPort(c.host)
	if err != nil {
		host, port = c.host, ""
	}
	if ip := net.ParseIP(strings.Trim(host, "[]")); ip != nil {
		host = "localhost" // names below an address are none
	}
	if port == "" {
		return host
	}
	return net.JoinHostPort(host, port)
}

// forward passes a request on to a port inside.
func (d *Door) forward(c *call, name, port string) {
	refuse(c.w, unsupported("port "+port+" of a sandbox"))
	_ = name
	_ = http.StatusOK
}
