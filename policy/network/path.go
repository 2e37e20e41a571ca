package network

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// canonicalPath returns the path of a request target in origin form, its query
// left out and its escapes decoded, or false when programs that serve it may
// read it in more than one way: as another path, or as one elsewhere in the
// tree. The root may be left out. The result is for comparing only.
func canonicalPath(target string) (string, bool) {
	if i := strings.IndexByte(target, '?'); i >= 0 {
		target = target[:i]
	}
	if target == "" {
		return "/", true
	}
	if target[0] != '/' {
		return "", false // the * of OPTIONS, or no path
	}
	path, ok := decoded(target)
	if !ok || strings.Contains(path, "//") || strings.Contains(path, ":$") {
		return "", false
	}
	for segment := range strings.SplitSeq(path, "/") {
		// A file system of Windows leaves dots and blanks at the end of a name
		// out; . and .. are among those.
		if n := len(segment); n > 0 && (segment[n-1] == '.' || segment[n-1] == ' ') {
			return "", false
		}
	}
	return path, true
}

// decoded replaces the escapes in path, or reports that it has signs that are
// read differently: separators in disguise, escapes of escapes, what begins a
// query or the parameters of a segment, control characters.
func decoded(path string) (string, bool) {
	escaped, wide := false, false
	for i := 0; i < len(path); i++ {
		c := path[i]
		if c == '%' {
			if i+2 >= len(path) {
				return "", false
			}
			high, low := unhex(path[i+1]), unhex(path[i+2])
			if high > 15 || low > 15 {
				return "", false
			}
			c = high<<4 | low
			if c == '/' || c == '.' || c == '?' {
				return "", false
			}
			escaped = true
			i += 2
		} else if c == ' ' || c >= utf8.RuneSelf {
			return "", false // not as it would be sent
		}
		if c < ' ' || c == 0x7f || c == '%' || c == '\\' || c == ';' || c == '#' {
			return "", false
		}
		wide = wide || c >= utf8.RuneSelf
	}
	if !escaped {
		return path, true
	}
	out := make([]byte, 0, len(path))
	for i := 0; i < len(path); i++ {
		if path[i] == '%' {
			out = append(out, unhex(path[i+1])<<4|unhex(path[i+2]))
			i += 2
			continue
		}
		out = append(out, path[i])
	}
	s := string(out)
	return s, !wide || utf8.ValidString(s) && !strings.ContainsFunc(s, disguised)
}

// disguised reports whether a character beyond ASCII is taken for one of ASCII
// by programs that normalise names or fold their case.
func disguised(r rune) bool {
	switch {
	case r < utf8.RuneSelf:
		return false
	case r >= 0x80 && r < 0xa0, r == 0x130, r == 0x131, r == 0x17f, r == 0x212a: // controls, and what folds to i, s, k
		return true
	case r >= 0xff00 && r <= 0xffef, r >= 0x2000 && r <= 0x206f: // full-width forms, punctuation and blanks
		return true
	case r == 0x2215, r == 0x2216, r == 0x29f5, r == 0x29f8, r == 0x29f9, r == 0x3002, r == 0xfe52, r == 0xfe68, r == 0xfeff:
		return true
	case r >= 0x1d400 && r <= 0x1d7ff, r >= 0x2100 && r <= 0x214f, r >= 0x2460 && r <= 0x24ff: // letters and digits in other styles
		return true
	}
	return false
}

// unhex returns the value of a hexadecimal digit, or more than 15.
func unhex(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	}
	return 0xff
}

// asSent returns the path of a request target as it stands, its escapes in
// upper case.
func asSent(target string) string {
	path, _, _ := strings.Cut(target, "?")
	if !strings.Contains(path, "%") {
		return path
	}
	out := []byte(path)
	for i := 0; i+2 < len(out); i++ {
		if out[i] == '%' {
			copy(out[i+1:i+3], bytes.ToUpper(out[i+1:i+3]))
			i += 2
		}
	}
	return string(out)
}

// below reports whether path is prefix or lies below it. A prefix that ends in
// a slash is not below itself without it. Both are canonical.
func below(path, prefix string) bool {
	rest, ok := strings.CutPrefix(path, prefix)
	return ok && (rest == "" || rest[0] == '/' || prefix[len(prefix)-1] == '/')
}

// belowFolded is below for programs that take names of different case for one.
func belowFolded(path, prefix string) bool {
	return len(path) >= len(prefix) && strings.EqualFold(path[:len(prefix)], prefix) &&
		(len(path) == len(prefix) || path[len(prefix)] == '/' || prefix[len(prefix)-1] == '/')
}
