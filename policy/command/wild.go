package command

import "strings"

// wild reports whether pattern matches the whole of s: * stands for any
// bytes, everything else for itself. It takes at most len(pattern)*len(s)
// steps, whatever the pattern.
func wild(pattern, s string) bool {
	if i := strings.IndexByte(pattern, '*'); i < 0 {
		return pattern == s
	} else if !strings.HasPrefix(s, pattern[:i]) {
		return false
	} else {
		pattern, s = pattern[i:], s[i:]
	}
	parts := strings.Split(pattern, "*") // the first is empty
	last := parts[len(parts)-1]
	if !strings.HasSuffix(s, last) {
		return false
	}
	s = s[:len(s)-len(last)]
	for _, p := range parts[1 : len(parts)-1] {
		i := strings.Index(s, p)
		if i < 0 {
			return false
		}
		s = s[i+len(p):]
	}
	return true
}

// anyWild reports whether one of the blank-separated patterns matches s.
func anyWild(patterns, s string) bool {
	for p := range strings.FieldsSeq(patterns) {
		if wild(p, s) {
			return true
		}
	}
	return false
}
