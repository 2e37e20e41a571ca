package e2b

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/resource"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// hostOf reads a host PORT-NAME.DOMAIN.
func (d *Translator) hostOf(r *http.Request) (port, name string, ok bool) {
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
	if strings.EqualFold(domain, "localhost") || d.o.PortDomain != "" && strings.EqualFold(strings.TrimSuffix(domain, "."), d.o.PortDomain) {
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

// domain returns the domain of hosts of sandboxes: that of the settings, and else as
// the client calls this server.
func (d *Translator) domain(c *call) string {
	host, port, err := net.SplitHostPort(c.host)
	if err != nil {
		host, port = c.host, ""
	}
	if own := d.o.PortDomain; own != "" && own != "localhost" {
		host = own
	} else if ip := net.ParseIP(strings.Trim(host, "[]")); ip != nil {
		host = "localhost" // names below an address are none
	}
	if port == "" {
		return host
	}
	return net.JoinHostPort(host, port)
}

// headerTraffic is the header with the trafficAccessToken of a sandbox, which SDKs
// send to its ports.
const headerTraffic = "E2b-Traffic-Access-Token"

// label names a sandbox in the host names of [resource.Ports], which hold neither a
// dash nor as many characters as a name may have.
func label(name string) string {
	sum := sha256.Sum256([]byte("e2b " + name))
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:20]))
}

// expose has the ports of the sandbox reached by hosts PORT-ID.DOMAIN, and returns
// the token that requests for them need, which is empty where none is. public nil
// keeps what there is, and else makes ports that need a token: the sandbox was not
// created by this protocol. A server that has no such hosts exposes nothing.
func (d *Translator) expose(c *call, name string, public *bool) (token string, err error) {
	if d.o.PortDomain == "" {
		return "", nil
	}
	var made api.NewShare
	ctx := resource.WithLabel(c.r.Context(), resource.Label{Text: label(name), Keep: public == nil})
	in := api.SharePort{Port: 1, Public: public != nil && *public} // the port has no effect: every port is shared
	err = c.do(ctx, http.MethodPost, box(name, "/shares"), nil, in, &made)
	return made.Secret, err
}

// forward passes a request on to a port inside. Whether it may get there, the share
// of the sandbox's ports says, which expose has made.
func (d *Translator) forward(c *call, name, port string) {
	if d.o.PortDomain == "" {
		refuse(c.w, unsupported("port "+port+" of a sandbox, because the setting daemon.portDomain is empty, and so the port"))
		return
	}
	ctx := resource.WithShownHost(c.r.Context(), c.r.Host)
	r := c.r.Clone(context.WithValue(ctx, callKey{}, (*call)(nil)))
	r.Host = port + "-" + label(name) + "." + d.o.PortDomain
	h := r.Header
	secret := h.Values(headerTraffic)
	for _, own := range []string{headerTraffic, headerAccess, headerSandbox, headerPort, api.HeaderShare} {
		h.Del(own)
	}
	if key, err := plainKey(h.Get(headerKey)); err == nil && token.Mentioned(key) {
		h.Del(headerKey) // it is a key of this server, and not of a program inside
	}
	if len(secret) > 0 {
		share := secret[0] // of a share of this one port
		if _, of, own, ok := d.keys.openTraffic(share); ok && of == name {
			share = own
		}
		if share != "" {
			h.Set(api.HeaderShare, share)
		}
	}
	c.api.ServeHTTP(c.w, r)
}
