// This file holds the loopback guard. It decides from the head of a request
// alone which requests a loopback listener of this package accepts. It is pure
// and knows no paths and no tokens: the listener checks these after the guard.
//
// Every program on the machine, and every web page in a browser on it, can
// send requests to a loopback port. The guard refuses requests that a page
// could make: those with the name of a foreign host (DNS rebinding), with a
// foreign origin, or marked by the browser as coming from another site. It
// also refuses heads that two parsers could read in two ways.

package browser

import (
	"net/netip"
	"strconv"
	"strings"
)

// A guardHead is the head of a request as received; nothing of it is decoded.
type guardHead struct {
	Method string
	Target string              // request target, the second word of the first line
	Host   string              // Host header, or the host of an absolute target
	Peer   netip.Addr          // address of the client
	Body   bool                // a body follows the head
	Header map[string][]string // by canonical names, without Host
}

// Values returns the values of a header by its canonical name.
func (h guardHead) Values(name string) []string { return h.Header[name] }

// A guardRefusal is the response to a request that is refused. It repeats
// nothing of the request.
type guardRefusal struct {
	Status int // of HTTP
	Reason string
	Allow  string // methods, for 405
}

// guardRules are what a listener demands of every request.
type guardRules struct {
	Port    uint16       // port of the listener
	Sources netip.Prefix // peers that may connect; not valid: loopback
	Pages   bool         // the listener serves pages, and requests of these are allowed
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

// Check returns the refusal for a request with this head, or nil if the
// request is allowed.
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

// plain reports whether a target is a path of visible ASCII only; an absolute
// URL, "*" and an authority are not.
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

// ownHost reports whether host is that of the listener. It protects against
// DNS rebinding: a page under a foreign name that resolves to 127.0.0.1 still
// sends its own name. Browsers treat numbers in unusual spellings as names, so
// only the usual spelling counts.
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

// cutPort splits "name:port" or "[address]:port".
func cutPort(host string) (name, port string, ok bool) {
	if rest, found := strings.CutPrefix(host, "["); found {
		name, port, ok = strings.Cut(rest, "]:")
		return name, port, ok
	}
	name, port, ok = strings.Cut(host, ":")
	return name, port, ok && name != ""
}

// ownOrigin reports whether the request does not come from a foreign page.
// Only browsers send these headers, and no page can leave them out or choose
// them.
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
