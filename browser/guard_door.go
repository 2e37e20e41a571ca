// Door: this part of the package decides who may speak to a listener of ours on loopback, from
// the head of a request alone. It is pure, and knows no path and no token:
// those are matters of the listener, which asks this package first.
//
// Whatever runs on the machine, web pages included, can send requests to a
// loopback port. What is refused here are requests that a page could make: one
// with the name of a foreign host (DNS rebinding), one with an origin, one that
// a browser says comes from another site; and heads that two readers could
// read in two ways.

package browser

import (
	"net/netip"
	"strconv"
	"strings"
)

// A Head is that of a request as it came, nothing of it decoded.
type guardHead struct {
	Method string
	Target string              // the second word of the first line
	Host   string              // of the header, or of an absolute target
	Peer   netip.Addr          // who connected
	Body   bool                // something follows the head
	Header map[string][]string // by canonical names, without Host
}

// Values returns those of the header of a canonical name.
func (h guardHead) Values(name string) []string { return h.Header[name] }

// A Refusal is an answer that lets nothing through. It says nothing that the
// request has said.
type guardRefusal struct {
	Status int // of HTTP
	Reason string
	Allow  string // methods, for 405
}

// Rules are what a listener demands of everybody.
type guardRules struct {
	Port    uint16       // that it listens at
	Sources netip.Prefix // peers that may connect; not valid: the own machine
	Pages   bool         // own pages exist, whose requests are welcome
}

// The refusals.
var (
	badPeer     = &guardRefusal{Status: 403, Reason: "This address may not connect."}
	badTarget   = &guardRefusal{Status: 400, Reason: "The target has to be a plain path."}
	badHost     = &guardRefusal{Status: 421, Reason: "The Host header has to be localhost or a loopback address, with the port of this server."}
	badOrigin   = &guardRefusal{Status: 403, Reason: "Pages of other origins have no access."}
	badBody     = &guardRefusal{Status: 400, Reason: "Requests have no body here."}
	badUpgrade  = &guardRefusal{Status: 400, Reason: "This is no WebSocket handshake of version 13."}
	badProtocol = &guardRefusal{Status: 501, Reason: "Only WebSocket can be upgraded to."}
)

// Check returns why nobody with this head is let in, or nil.
func (r guardRules) Check(h guardHead) *guardRefusal {
	switch {
	case !r.source(h.Peer):
		return badPeer
	case !plain(h.Target):
		return badTarget
	case !r.ownHost(h.Host):
		return badHost
	case !r.ownOrigin(h):
		return badOrigin
	case h.Body || len(h.Values("Expect")) > 0:
		return badBody
	}
	return nil
}

func (r guardRules) source(peer netip.Addr) bool {
	peer = peer.Unmap().WithZone("")
	if !r.Sources.IsValid() {
		return peer.IsLoopback()
	}
	return r.Sources.Contains(peer)
}

// plain reports whether a target is a path, and nothing in it but visible
// ASCII; an absolute address, "*" and an authority are not.
func plain(target string) bool {
	if !strings.HasPrefix(target, "/") {
		return false
	}
	for _, b := range []byte(target) {
		if b <= ' ' || b > '~' {
			return false
		}
	}
	return true
}

// ownHost holds against DNS rebinding: a page of a foreign name that was made
// to mean 127.0.0.1 still sends its name. Numbers in other spellings are names
// for browsers, so only the usual one counts.
func (r guardRules) ownHost(host string) bool {
	name, port, ok := cutPort(host)
	if !ok || port != strconv.Itoa(int(r.Port)) {
		return false
	}
	brackets := strings.HasPrefix(host, "[")
	if strings.EqualFold(name, "localhost") {
		return !brackets
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.IsLoopback() && addr.Zone() == "" && !addr.Is4In6() && addr.Is6() == brackets
}

// cutPort takes "name:port" or "[address]:port" apart.
func cutPort(host string) (name, port string, ok bool) {
	if rest, found := strings.CutPrefix(host, "["); found {
		name, port, ok = strings.Cut(rest, "]:")
		return name, port, ok
	}
	name, port, ok = strings.Cut(host, ":")
	return name, port, ok && name != ""
}

// ownOrigin holds against pages. Only browsers send these headers, and no
// page can leave them out or choose them.
func (r guardRules) ownOrigin(h guardHead) bool {
	for _, origin := range h.Values("Origin") {
		if !r.Pages || origin != "http://"+h.Host {
			return false
		}
	}
	for _, site := range h.Values("Sec-Fetch-Site") {
		if site != "none" && !(r.Pages && site == "same-origin") {
			return false
		}
	}
	return true
}
