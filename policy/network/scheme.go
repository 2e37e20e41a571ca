package network

import (
	"strconv"
	"strings"
)

// maxRule is the longest rule, in bytes.
const maxRule = 1024

// take reads off text what stands around the host: methods, scheme and path,
// and gives the rest, which is a host with or without ports.
func (r *Rule) take(text string) (rest string, err error) {
	if len(text) > maxRule {
		return "", badRule(text, "is longer than "+strconv.Itoa(maxRule)+" bytes", "")
	}
	methods, rest, spaced := strings.Cut(text, " ")
	if !spaced {
		rest = text
	}
	scheme, after, ok := strings.Cut(rest, "://")
	switch {
	case !ok && spaced && strings.Trim(methods, "ABCDEFGHIJKLMNOPQRSTUVWXYZ,-") != "":
		return text, nil // the blank is what is wrong
	case !ok && spaced:
		return "", badRule(text, "has methods and no http:// after them", "write GET,HEAD http://example.com")
	case !ok:
		return rest, nil
	case spaced && scheme != "http":
		return "", badRule(text, "has methods, which can be seen in plain HTTP only", "write GET http://example.com, or leave the methods out")
	case spaced:
		if err := r.method(methods); err != nil {
			return "", err
		}
	}
	switch scheme {
	case "http":
		r.only = HTTP
		return r.cutPath(after)
	case "https":
		r.only = TLS
		if host, ok := strings.CutSuffix(after, "/"); ok && !strings.Contains(host, "/") {
			after = host
		}
		if beyondRange(after) {
			return "", badRule(text, "has a path, which cannot be seen in TLS", "write https://HOST or https://HOST:PORT")
		}
	case "tcp":
		r.only = Raw
	default:
		return "", badRule(text, "has a scheme that is none of http, https and tcp", "write the host alone, or http://, https:// or tcp:// before it")
	}
	return after, nil
}

// beyondRange reports whether the slash in a host is no part of a range of addresses.
func beyondRange(host string) bool {
	before, after, ok := strings.Cut(host, "/")
	if !ok || strings.HasPrefix(before, "[") {
		return false
	}
	bits, _, _ := strings.Cut(after, ":")
	return bits == "" || strings.Trim(bits, "0123456789") != "" || strings.Trim(before, "0123456789abcdefABCDEF.:x") != ""
}

// method reads the methods before an URL.
func (r *Rule) method(list string) error {
	for m := range strings.SplitSeq(list, ",") {
		switch {
		case m == "" || len(m) > 32 || strings.Trim(m, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") != "":
			return badRule(r.text, "has "+quoted(m)+" where a method in upper case belongs", "write GET,HEAD http://example.com")
		case m == "CONNECT":
			return badRule(r.text, "has the method CONNECT, which opens a tunnel and is no request", "write https://HOST or tcp://HOST:PORT")
		}
	}
	r.methods = "," + list + ","
	return nil
}

// cutPath takes the path off what follows http://.
func (r *Rule) cutPath(text string) (rest string, err error) {
	start := 0
	if strings.HasPrefix(text, "[") {
		start = strings.IndexByte(text, ']') + 1 // a slash before it is of a range of addresses
	}
	i := strings.IndexByte(text[start:], '/')
	if i < 0 {
		return text, nil
	}
	host, path := text[:start+i], text[start+i:]
	if h, err := Canonical(host); err == nil && h.addr.IsValid() && len(path) > 1 && strings.Trim(path[1:], "0123456789:-") == "" {
		return "", badRule(r.text, "may mean a range of addresses or a path", "write a range as http://[10.0.0.0/8]")
	}
	if strings.Contains(path, "?") {
		return "", badRule(r.text, "has a query, which rules do not look at", "write the path alone")
	}
	canonical, ok := canonicalPath(path)
	if !ok {
		return "", badRule(r.text, "has a path that servers may read differently", "write it without . and .. segments, //, \\, ; and their escapes")
	}
	if canonical != "/" {
		r.path, r.sent = canonical, asSent(path)
	}
	return host, nil
}

// limited reports whether r means some requests only.
func (r *Rule) limited() bool { return r.methods != "" || r.path != "" }

// meets reports whether r, as one that allows, matches the request. A path has
// to lie below that of the rule both decoded and undecoded.
func (r *Rule) meets(q *query) bool {
	if r.methods != "" && (q.method == "" || !strings.Contains(r.methods, ","+q.method+",")) {
		return false
	}
	return r.path == "" || !q.odd && below(q.path, r.path) && below(asSent(q.sent), r.sent)
}

// catches reports whether r, as one that denies, means the request: a doubt
// counts against it.
func (r *Rule) catches(q *query) bool {
	if r.methods != "" && q.method != "" && !strings.Contains(r.methods, ","+strings.ToUpper(q.method)+",") {
		return false
	}
	return r.path == "" || q.odd || belowFolded(q.path, r.path)
}
