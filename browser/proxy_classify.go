package browser

import (
	"strings"
)

// A proxyKind is the kind of a request.
type proxyKind int

const (
	version proxyKind = iota + 1
	list
	protocol
	opened
	activated
	closed
	socket
)

// A proxyWish is what a request asks of the browser, in terms of the proxy.
type proxyWish struct {
	kind   proxyKind
	method string
	target string
	key    string // of the handshake, for socket
}

// The refusals. noToken is the same for every path, so that it does not reveal
// which paths exist.
var (
	noToken      = &guardRefusal{Status: 401, Reason: "A token is wanted, as \"Authorization: Bearer\" or as first part of the path, never in the query."}
	stop         = &guardRefusal{Status: 429, Reason: "There were too many wrong tokens."}
	proxyNothing = &guardRefusal{Status: 404, Reason: "There is nothing at this path."}
	proxyNoQuery = &guardRefusal{Status: 400, Reason: "There is no query at this path."}
	needsWS      = &guardRefusal{Status: 426, Reason: "This path is a WebSocket."}
)

// proxyClassify decides about a request from its head alone: it returns what
// is wanted of the browser, or a refusal. Paths are compared as written; none
// is decoded or cleaned, so that no later parser reads another path.
func proxyClassify(h guardHead, t token, rules guardRules) (proxyWish, *guardRefusal) {
	if r := rules.Check(h); r != nil {
		return proxyWish{}, r
	}
	target, ok := shown(h, t)
	if !ok {
		return proxyWish{}, noToken
	}
	path, query, hasQuery := strings.Cut(target, "?")
	kind, methods := route(path)
	switch {
	case kind == 0:
		return proxyWish{}, proxyNothing
	case strings.Contains(query, t.text):
		return proxyWish{}, noToken // it would become part of a page's URL
	case !allowed(methods, h.Method):
		return proxyWish{}, &guardRefusal{Status: 405, Reason: "This method is not for this path.", Allow: methods}
	case hasQuery && kind != opened:
		return proxyWish{}, proxyNoQuery
	case kind == socket && !upgradesGuard(h):
		return proxyWish{}, needsWS
	case kind == socket:
		key, r := socketGuard(h)
		return proxyWish{kind, h.Method, path, key}, r
	case upgradesGuard(h):
		return proxyWish{}, badProtocol
	}
	clean := strings.TrimSuffix(path, "/") // Playwright asks for /json/version/
	if hasQuery {
		clean += "?" + query
	}
	return proxyWish{kind: kind, method: h.Method, target: clean}, nil
}

// shown returns the target without the token. ok is false if there is no token
// or one of several is wrong. All tokens are compared, and before the path is
// looked at.
func shown(h guardHead, t token) (target string, ok bool) {
	first, rest, more := strings.Cut(strings.TrimPrefix(h.Target, "/"), "/")
	inPath := t.is(first) && more
	bearers := h.Values("Authorization")
	bearer := ""
	if len(bearers) > 0 {
		bearer = bearers[0]
	}
	scheme, text, _ := strings.Cut(bearer, " ")
	inHeader := t.is(text) && strings.EqualFold(scheme, "Bearer") && len(bearers) == 1
	target = h.Target
	if inPath {
		target = "/" + rest
	}
	return target, inHeader || inPath && len(bearers) == 0
}

// route returns the kind of a path and the methods it allows.
func route(path string) (_ proxyKind, methods string) {
	switch path {
	case "/json/version", "/json/version/":
		return version, "GET"
	case "/json", "/json/", "/json/list", "/json/list/":
		return list, "GET"
	case "/json/protocol", "/json/protocol/":
		return protocol, "GET"
	case "/json/new":
		return opened, "PUT"
	}
	folder, id := path[:strings.LastIndexByte(path, '/')+1], path[strings.LastIndexByte(path, '/')+1:]
	if !isID(id) {
		return 0, ""
	}
	switch folder {
	case "/json/activate/":
		return activated, "GET, PUT"
	case "/json/close/":
		return closed, "GET, PUT"
	case "/devtools/browser/", "/devtools/page/":
		return socket, "GET"
	}
	return 0, ""
}

func allowed(methods, method string) bool {
	for m := range strings.SplitSeq(methods, ", ") {
		if m == method {
			return true
		}
	}
	return false
}

// isID reports whether s can be the id of a page or browser.
func isID(s string) bool {
	return s != "" && len(s) <= 64 && strings.IndexFunc(s, proxyForeign) < 0
}
