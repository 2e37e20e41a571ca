package browser

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"path"
	"strings"
)

// A watchKind is the kind of a request.
type watchKind int

const (
	link watchKind = iota + 1
	file
	display
)

// A watchWish is what a request asks for.
type watchWish struct {
	kind watchKind
	path string // of a file inside
	mime string // of a file
	key  string // of the handshake, for display
}

// cookieName is the same for all watches: their folders keep them apart.
const cookieName = "sandbox-watch"

// The refusals. noCookie is the response to every path, a link's included, if
// the request has no cookie.
var (
	noCookie     = &guardRefusal{Status: 401, Reason: "This link works once, within a minute, where it was made. Ask for another one."}
	watchNothing = &guardRefusal{Status: 404, Reason: "There is nothing at this path."}
	notGET       = &guardRefusal{Status: 405, Reason: "This method is not for this path.", Allow: "GET"}
	watchNoQuery = &guardRefusal{Status: 400, Reason: "There is no query at this path."}
	notOwn       = &guardRefusal{Status: 403, Reason: "The display is shown to pages of this server alone."}
	prefetch     = &guardRefusal{Status: 403, Reason: "This link is not fetched in advance."}
)

// kinds maps the file types that are served to their content types. The types
// sent by the server inside are ignored.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".json": "application/json", ".svg": "image/svg+xml", ".png": "image/png", ".ico": "image/vnd.microsoft.icon",
	".woff": "font/woff", ".woff2": "font/woff2", ".ttf": "font/ttf", ".mp3": "audio/mpeg", ".oga": "audio/ogg",
}

// watchClassify decides about a request from its head alone. It does not know
// whether the link was used already.
func watchClassify(h guardHead, s secrets, rules guardRules) (watchWish, *guardRefusal) {
	if r := rules.Check(h); r != nil {
		return watchWish{}, r
	}
	isLink := same(strings.TrimPrefix(h.Target, "/open/"), s.link)
	switch {
	case isLink && h.Method != http.MethodGet:
		return watchWish{}, notGET
	case isLink && len(h.Values("Sec-Purpose"))+len(h.Values("Purpose"))+len(h.Values("X-Moz")) > 0:
		return watchWish{}, prefetch
	case isLink && upgradesGuard(h):
		return watchWish{}, badProtocol
	case isLink:
		return watchWish{kind: link}, nil
	case !hasCookie(h, s.cookie):
		return watchWish{}, noCookie
	}
	target, query, _ := strings.Cut(h.Target, "?")
	rest, ok := strings.CutPrefix(target, s.base())
	mime := ""
	if ok && rest != socketName {
		mime = kinds[path.Ext(rest)]
		ok = mime != "" && isFile(rest)
	}
	switch {
	case !ok:
		return watchWish{}, watchNothing
	case h.Method != http.MethodGet:
		return watchWish{}, notGET
	case query != "" || target != h.Target:
		return watchWish{}, watchNoQuery
	case rest != socketName && upgradesGuard(h):
		return watchWish{}, badProtocol
	case rest != socketName:
		return watchWish{kind: file, path: "/" + rest, mime: mime}, nil
	case len(h.Values("Origin")) != 1: // its value was checked
		return watchWish{}, notOwn
	}
	key, r := socketGuard(h)
	return watchWish{kind: display, key: key}, r
}

// socketName is the path of the display, below the folder and inside.
const socketName = "websockify"

// base returns the path below which everything is served.
func (s secrets) base() string { return "/" + s.folder + "/" }

// same reports whether the texts are equal, in constant time.
func same(got, want string) bool {
	g, w := sha256.Sum256([]byte(got)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(g[:], w[:]) == 1
}

// hasCookie reports whether one of the cookies is that of this watch. Servers
// at other ports may have set others of the same name.
func hasCookie(h guardHead, want string) bool {
	r := http.Request{Header: h.Header}
	for _, c := range r.CookiesNamed(cookieName) {
		if same(c.Value, want) {
			return true
		}
	}
	return false
}

// isFile reports whether a path has one possible spelling: plain names, none
// hidden.
func isFile(p string) bool {
	if len(p) > 200 {
		return false
	}
	for name := range strings.SplitSeq(p, "/") {
		if name == "" || name[0] == '.' || strings.IndexFunc(name, watchForeign) >= 0 {
			return false
		}
	}
	return true
}

func watchForeign(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.'
}
