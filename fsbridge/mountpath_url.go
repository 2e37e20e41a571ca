package fsbridge

import (
	"net/url"
	"strings"
)

// FromURL returns the path that name means: the path of a file URL
// (file:///workspace/a%20b.txt) or of the URLs under which the MCP server lists
// files (sandbox:///workspace/a%20b.txt), with percent escapes decoded, and
// every other name as it is. It is for names that a caller writes, before they
// become paths; names that are read from a folder are not URLs, whatever
// characters they have.
//
// A URL of another scheme or host, and one with a query, a fragment or a
// relative path, is an error with the code [sandbox.CodeValidation]: taken as
// a path it would create unintended folders. A name that looks like a URL is
// taken as a path when it begins with "./".
func FromURL(name string) (string, error) {
	rest, ok, err := afterScheme(name)
	if !ok || err != nil {
		return name, err
	}
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		return "", malformed(name, "a "+rest[i:i+1]+" in a URL begins a part that is not the path; as part of the name it is written "+url.PathEscape(rest[i:i+1]))
	}
	path, err := url.PathUnescape(rest)
	if err != nil {
		return "", malformed(name, "the URL has a % that begins no escape; % itself is written %25")
	}
	return path, nil
}

// PatternFromURL is like [FromURL] for a pattern that begins with the URL of a
// folder. An escaped character is that character and never part of the pattern.
func PatternFromURL(pattern string) (string, error) {
	rest, ok, err := afterScheme(pattern)
	if !ok || err != nil {
		return pattern, err
	}
	var b strings.Builder
	for i := 0; i < len(rest); i++ {
		if rest[i] != '%' {
			b.WriteByte(rest[i])
			continue
		}
		c, err := url.PathUnescape(rest[i:min(i+3, len(rest))])
		if err != nil {
			return "", malformed(pattern, "the URL has a % that begins no escape; % itself is written %25")
		}
		if strings.Contains(`*?[]{},\`, c) {
			b.WriteByte('\\')
		}
		b.WriteString(c)
		i += 2
	}
	return b.String(), nil
}

// afterScheme returns the path of a URL that means a file here, still escaped,
// and whether name is one.
func afterScheme(name string) (rest string, ok bool, err error) {
	scheme, rest, found := strings.Cut(name, ":")
	if !found || !isScheme(scheme) {
		return "", false, nil
	}
	scheme = strings.ToLower(scheme)
	if scheme != "file" && scheme != "sandbox" {
		if !strings.HasPrefix(rest, "//") {
			return "", false, nil
		}
		return "", false, malformed(name, "this is a URL with the scheme "+scheme+", not a path; a name that looks like one begins with ./")
	}
	if after, ok := strings.CutPrefix(rest, "//"); ok {
		host, path, _ := strings.Cut(after, "/")
		if host != "" && (scheme != "file" || !strings.EqualFold(host, "localhost")) {
			return "", false, malformed(name, "the URL names the host "+host+"; write "+scheme+":/// and the path from the root")
		}
		if len(after) == len(host) {
			return "", false, malformed(name, "the URL has no path")
		}
		return "/" + path, true, nil
	}
	if !strings.HasPrefix(rest, "/") {
		return "", false, malformed(name, "the path of the URL is relative; write "+scheme+":/// and the path from the root, or ./ before a name that looks like a URL")
	}
	return rest, true, nil
}

// isScheme reports whether s can be the scheme of a URL. One letter is a drive
// of Windows.
func isScheme(s string) bool {
	for i, c := range []byte(s) {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (i == 0 || !('0' <= c && c <= '9' || c == '+' || c == '-' || c == '.')) {
			return false
		}
	}
	return len(s) > 1
}
