// This file parses the globs of path rules. It uses the syntax of doublestar
// and expands a glob into patterns without braces, split at their slashes. It
// does no I/O. The code that judges paths, the code that looks up matches on
// the host and the code that translates patterns use the same parser.

package path

import (
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// Bounds of a pattern. Ten groups of two alternatives are a thousand patterns
// that each name is held against.
const (
	maxPattern      = 4096
	maxAlternatives = 1024
)

// Parse checks the pattern and returns the patterns without braces that mean
// the same together, each as its segments: no empty ones, no ".", and no
// "**" at the end, since what lies below a match is closed with it. Why says
// what is wrong with a pattern that it does not take.
func Parse(pattern string) (alternatives [][]string, why string) {
	switch {
	case pattern == "" || len(pattern) > maxPattern:
		return nil, "is empty or too long"
	case strings.IndexByte(pattern, 0) >= 0:
		return nil, "contains a NUL byte"
	case !doublestar.ValidatePattern(pattern):
		return nil, "is no pattern: a bracket or brace is not closed, or it ends with a backslash"
	case oddClass(pattern):
		return nil, "has a slash, brace or comma in a character class, which says nothing clear"
	}
	var plain []string
	if !expand(pattern, &plain) {
		return nil, "has too many alternatives"
	}
	for _, p := range plain {
		if !strings.HasPrefix(pattern, "/") && (strings.HasPrefix(p, "/") || strings.HasPrefix(p, `\/`)) {
			return nil, "stands for something that begins with a slash, without beginning with one itself"
		}
		var segments []string
		for _, s := range split(p) {
			switch s {
			case "", ".":
			case "..":
				return nil, `has ".." in it`
			default:
				segments = append(segments, s)
			}
		}
		for len(segments) > 0 && segments[len(segments)-1] == "**" {
			segments = segments[:len(segments)-1]
		}
		if len(segments) == 0 {
			return nil, "closes everything"
		}
		alternatives = append(alternatives, segments)
	}
	return alternatives, ""
}

// split cuts p at its slashes. A slash is one with a backslash before it too.
func split(p string) []string {
	var out []string
	start := 0
	for i := 0; i < len(p); i++ {
		switch {
		case p[i] == '\\' && i+1 < len(p) && p[i+1] != '/':
			i++
		case p[i] == '\\':
			out = append(out, p[start:i])
			i++
			start = i + 1
		case p[i] == '/':
			out = append(out, p[start:i])
			start = i + 1
		}
	}
	return append(out, p[start:])
}

// expand appends to out the patterns that p with its braces stands for. It
// reports false when they are too many.
func expand(p string, out *[]string) bool {
	open := nextOf(p, 0, "{")
	if open < 0 {
		*out = append(*out, p)
		return len(*out) <= maxAlternatives
	}
	depth, start := 0, open+1
	var parts []string
	end := open
	for ; end >= 0; end = nextOf(p, end+1, "{},") {
		switch {
		case p[end] == '{':
			depth++
		case p[end] == '}':
			depth--
		case depth == 1: // a comma
			parts = append(parts, p[start:end])
			start = end + 1
		}
		if depth == 0 {
			break
		}
	}
	if end < 0 {
		return false // ValidatePattern has seen to it that there is an end
	}
	for _, part := range append(parts, p[start:end]) {
		if !expand(p[:open]+part+p[end+1:], out) {
			return false
		}
	}
	return true
}

// nextOf returns the place of the first unescaped byte of set in p at or
// after from, outside of character classes, or -1.
func nextOf(p string, from int, set string) int {
	for i := from; i < len(p); i++ {
		switch c := p[i]; {
		case c == '\\':
			i++
		case c == '[':
			if i = classEnd(p, i); i < 0 {
				return -1
			}
		case strings.IndexByte(set, c) >= 0:
			return i
		}
	}
	return -1
}

// classEnd returns the place of the bracket that closes the class which opens
// at i, or -1.
func classEnd(p string, i int) int {
	for i++; i < len(p); i++ {
		switch p[i] {
		case '\\':
			i++
		case ']':
			return i
		}
	}
	return -1
}

// oddClass reports whether a class holds a character that delimits segments or
// braces. doublestar looks for these without regard to classes, so such a
// pattern would mean one thing here and another there.
func oddClass(p string) bool {
	for i := 0; i < len(p); i++ {
		switch p[i] {
		case '\\':
			i++
		case '[':
			end := classEnd(p, i)
			if end < 0 || strings.ContainsAny(p[i:end], "/{},") {
				return true
			}
			i = end
		}
	}
	return false
}

// Plain reports whether a segment stands for one name.
func Plain(segment string) bool {
	for i := 0; i < len(segment); i++ {
		switch segment[i] {
		case '\\':
			i++
		case '*', '?', '[':
			return false
		}
	}
	return true
}

// Unescape returns the name that a plain segment stands for.
func Unescape(segment string) string {
	if strings.IndexByte(segment, '\\') < 0 {
		return segment
	}
	var b strings.Builder
	for i := 0; i < len(segment); i++ {
		if segment[i] == '\\' && i+1 < len(segment) {
			i++
		}
		b.WriteByte(segment[i])
	}
	return b.String()
}
