package plan

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	policypath "github.com/bulkhead-dev/sandbox/policy/path"
)

// globs turns the globs into closures.
func (r Rules) globs() ([]seatbeltClosure, error) {
	var out []seatbeltClosure
	for _, g := range r.Globs {
		alternatives, why := policypath.Parse(g.Pattern)
		if why != "" {
			return nil, seatbeltInvalid(g.Pattern, fmt.Sprintf("the pattern %q %s", g.Pattern, why))
		}
		for _, segments := range alternatives {
			for _, base := range r.bases(g.Pattern, segments) {
				c := seatbeltClosure{read: g.Read, rule: g.Rule, match: base + segmentsRegex(segments) + "(/.*)?"}
				for _, s := range templatesRegex(segments) {
					c.except = append(c.except, base+s)
				}
				c.filters = []string{sparing(regex(c.match), c.except)}
				out = append(out, c)
			}
		}
	}
	return out, nil
}

// bases returns the expressions that precede the segments of a pattern.
func (r Rules) bases(p string, segments []string) []string {
	if strings.HasPrefix(p, "/") || segments[0] == "**" {
		return []string{"/"}
	}
	var out []string
	for _, root := range sorted(r.Readable, r.Writable) {
		out = append(out, strings.TrimSuffix(pathRegex(root), "/")+"/")
	}
	return out
}

// pinned returns the folders on the path to what g matches: moved elsewhere,
// their content would no longer match. If a "**" follows other segments, that
// is every folder below.
func (r Rules) pinned(g Glob) []string {
	alternatives, _ := policypath.Parse(g.Pattern)
	var out []string
	for _, segments := range alternatives {
		for _, base := range r.bases(g.Pattern, segments) {
			if base != "/" {
				out = append(out, regex(strings.TrimSuffix(base, "/")))
			}
			for i, s := range segments {
				switch {
				case s != "**":
					out = append(out, regex(base+segmentsRegex(segments[:i+1])))
				case i > 0 && segments[i-1] != "**":
					out = append(out, "(require-all "+regex(base+segmentsRegex(segments[:i])+"/.*")+" (vnode-type DIRECTORY))")
				}
			}
		}
	}
	return out
}

// segmentsRegex writes segments of a pattern as an expression. After "**" the
// expression ends with the slash of the last folder, if there is one.
func segmentsRegex(segments []string) string {
	var b strings.Builder
	for i, s := range segments {
		if s == "**" {
			b.WriteString("(.*/)?")
			continue
		}
		b.WriteString(segmentRegex(s))
		if i < len(segments)-1 {
			b.WriteByte('/')
		}
	}
	return b.String()
}

// templatesRegex writes the template names that segments do not cover, one
// expression for each ending: see pattern.Spares. A profile cannot tell folders
// apart from files, so segments do not cover folders with such names here; they
// cover the content of these folders.
func templatesRegex(segments []string) []string {
	last := len(segments) - 1
	if !policypath.SparesTemplates(segments[last]) {
		return nil
	}
	head := strings.TrimRight(segments[last], "*")
	before := segmentsRegex(append(slices.Clone(segments[:last]), head))
	any := `[^/]*\.`
	if strings.HasSuffix(head, ".") {
		any = `([^/]*\.)?`
	}
	var out []string
	for _, ending := range policypath.TemplateEndings() {
		out = append(out, before+any+segmentRegex(ending))
	}
	return out
}

func segmentRegex(s string) string {
	var e expression
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch r {
		case '*':
			e.add("[^/]*")
		case '?':
			e.add(anySign)
		case '[':
			end := i + 1
			for end < len(s) && s[end] != ']' {
				if s[end] == '\\' {
					end++
				}
				end++
			}
			e.add(class(s[i+1 : min(end, len(s))]))
			n = end + 1 - i
		case '\\':
			i++
			r, n = utf8.DecodeRuneInString(s[i:])
			fallthrough
		default:
			next, _ := utf8.DecodeRuneInString(s[min(i+n, len(s)):])
			e.literal(r, next)
		}
		i += n
	}
	return e.b.String()
}

// pathRegex writes a path literally, except for case and accents.
func pathRegex(p string) string {
	var e expression
	signs := []rune(path.Clean(p))
	for i, r := range signs {
		next := rune(0)
		if i+1 < len(signs) {
			next = signs[i+1]
		}
		e.literal(r, next)
	}
	return e.b.String()
}

// anySign matches one character, which may be several bytes long or a letter
// followed by combining accents.
const anySign = "[^/][^ -~]*"

// anySigns matches a run of characters that may be encoded in several ways.
const anySigns = "[^/]+"

// An expression is a regular expression under construction.
type expression struct {
	b   strings.Builder
	run bool // it ends with anySigns
}

func (e *expression) add(s string) {
	if e.run && s == anySigns {
		return
	}
	e.b.WriteString(s)
	e.run = s == anySigns
}

// literal writes one character of a name; next is the character after it.
func (e *expression) literal(r, next rune) {
	switch {
	case r >= utf8.RuneSelf || r < ' ' || r == 0x7f || unicode.Is(unicode.Mn, next):
		e.add(anySigns)
	case r >= 'a' && r <= 'z':
		e.add("[" + string(r) + string(r-'a'+'A') + "]")
	case r >= 'A' && r <= 'Z':
		e.add("[" + string(r-'A'+'a') + string(r) + "]")
	case strings.ContainsRune(`.^$*+?()[]{}|\`, r):
		e.add(`\` + string(r))
	default:
		e.add(string(r))
	}
}

// class writes the content of a character class. A class with characters that
// are special in brackets, or outside ASCII, matches any character, and so does
// a negated class, because a letter that it excludes in one case it would
// include in the other.
func class(s string) string {
	not := strings.HasPrefix(s, "!") || strings.HasPrefix(s, "^")
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if !alphanumeric(s[i]) && !strings.ContainsRune(" _.,:;@%+=~#", rune(s[i])) {
			return anySign
		}
		if i+2 >= len(s) || s[i+1] != '-' {
			b.WriteString(fold(s[i], s[i]))
			continue
		}
		if !alphanumeric(s[i+2]) || s[i] > s[i+2] || kind(s[i]) != kind(s[i+2]) {
			return anySign
		}
		b.WriteString(fold(s[i], s[i+2]))
		i += 2
	}
	if not || b.Len() == 0 {
		return anySign
	}
	return "[" + b.String() + "]"
}

// fold writes a range of characters, of letters in both cases.
func fold(lo, hi byte) string {
	span := func(a, b byte) string {
		if a == b {
			return string(rune(a))
		}
		return string(rune(a)) + "-" + string(rune(b))
	}
	switch kind(lo) {
	case 'a':
		return span(lo, hi) + span(lo-'a'+'A', hi-'a'+'A')
	case 'A':
		return span(lo-'A'+'a', hi-'A'+'a') + span(lo, hi)
	}
	return span(lo, hi)
}

// kind distinguishes lower case, upper case, digits and other characters.
func kind(c byte) byte {
	switch {
	case c >= 'a' && c <= 'z':
		return 'a'
	case c >= 'A' && c <= 'Z':
		return 'A'
	case c >= '0' && c <= '9':
		return '0'
	}
	return 0
}

func alphanumeric(c byte) bool { return kind(c) != 0 }
