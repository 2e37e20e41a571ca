package path

import (
	"strings"
	"unicode/utf8"
)

// A fit says how well a pattern of the shell fits a name.
type fit int

const (
	apart   fit = iota // it cannot match
	roomFor            // it may match, as it may most names
	named              // it says the name, or a good part of it
)

// A shellName is one name of a shell's glob.
type shellName struct {
	text   string // the name when plain; else the pattern
	plain  bool
	deep   bool // any number of folders
	tokens []token
	start  string // the characters that it starts with
	end    string // the characters that it ends with
}

// A token matches one character, or with star any number.
type token struct {
	char rune // 0 for any
	star bool
	dots bool   // of a star: matches a leading dot too
	set  string // of a class, its inside; such tokens have no char
}

// parseShell cuts a glob into its names.
func parseShell(pattern string, fold bool) []shellName {
	var out []shellName
	var b strings.Builder
	wild := false
	flush := func() {
		text := foldName(b.String(), fold)
		b.Reset()
		n := shellName{text: text}
		if n.plain = !wild; wild {
			n.deep = text == "**"
			n.tokens = tokens(text)
			n.start, n.end = ends(n.tokens)
		} else {
			n.text = Unescape(text)
		}
		wild = false
		if n.text != "" {
			out = append(out, n)
		}
	}
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; c {
		case '/':
			flush()
			continue
		case '\\':
			if i+1 < len(pattern) && pattern[i+1] != '/' {
				b.WriteByte(c)
				i++
			}
		case '*', '?', '[':
			wild = true
		case '(':
			wild = wild || i > 0 && strings.IndexByte("@+!", pattern[i-1]) >= 0
		}
		b.WriteByte(pattern[i])
	}
	flush()
	return out
}

func literalName(name string) shellName { return shellName{text: name, plain: true} }

// maxTokens bounds a pattern of one name; a name has no more bytes.
const maxTokens = 255

// tokens reads a pattern of one name. What it does not understand matches
// anything.
func tokens(text string) []token {
	var out []token
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		next := i + n
		extended := next < len(text) && text[next] == '('
		switch {
		case extended && strings.ContainsRune("?*+@!", r):
			return append(out, token{star: true, dots: true}) // and whatever follows
		case len(out) > maxTokens:
			return []token{{star: true, dots: true}}
		case r == '*' && len(out) > 0 && out[len(out)-1].star:
		case r == '*':
			out = append(out, token{star: true})
		case r == '?':
			out = append(out, token{})
		case r == '[':
			set, end, ok := class(text, i)
			if !ok {
				return append(out, token{star: true, dots: true})
			}
			out = append(out, token{set: set})
			next = end
		case r == '\\' && next < len(text):
			r, n = utf8.DecodeRuneInString(text[next:])
			next += n
			out = append(out, token{char: r})
		default:
			out = append(out, token{char: r})
		}
		i = next
	}
	return out
}

// class returns the inside of the class of characters at i and where it ends.
// It reports false for one that is not closed or not plain.
func class(text string, i int) (set string, end int, ok bool) {
	start := i + 1
	j := start
	if j < len(text) && (text[j] == '!' || text[j] == '^') {
		j++
	}
	if j < len(text) && text[j] == ']' {
		j++
	}
	for ; j < len(text) && text[j] != ']'; j++ {
		if text[j] == '[' || text[j] == '\\' || text[j] >= utf8.RuneSelf {
			return "", 0, false
		}
	}
	if j >= len(text) {
		return "", 0, false
	}
	return text[start:j], j + 1, true
}

// may reports whether t, which is no star, may match c. Ranges run by bytes;
// a locale in which they run otherwise makes them match more, so a range
// counts for every letter when it has one at an end.
func (t token) may(c rune) bool {
	if t.set == "" {
		return t.char == 0 || t.char == c
	}
	set, negated := t.set, t.set[0] == '!' || t.set[0] == '^'
	if negated {
		return true
	}
	for i := 0; i < len(set); i++ {
		if i+2 < len(set) && set[i+1] == '-' {
			low, high := rune(set[i]), rune(set[i+2])
			if low <= c && c <= high || letter(c) && (letter(low) || letter(high)) || c >= utf8.RuneSelf {
				return true
			}
			i += 2
			continue
		}
		if rune(set[i]) == c {
			return true
		}
	}
	return false
}

func letter(c rune) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// mayBe reports whether n may match name.
func (n *shellName) mayBe(name string) bool {
	if n.plain {
		return n.text == name
	}
	return n.deep || spells(n.tokens, name)
}

// template reports whether every name that n and s match is that of a template
// which s does not cover: n ends with such an ending as it is written, and s
// spells no part of the ending.
func (n *shellName) template(s *segment) bool {
	if n.plain {
		return Spares(s.text, n.text)
	}
	if n.deep {
		return false
	}
	_, ok := templateStem("x" + n.end)
	head := strings.TrimRight(s.text, "*")
	if !ok || strings.ContainsAny(head, `?*[\`) {
		return false
	}
	for _, ending := range TemplateEndings() {
		for i := 1; i <= len(ending) && strings.HasSuffix(n.end, "."+ending); i++ {
			if strings.HasSuffix(head, "."+ending[:i]) {
				return false
			}
		}
	}
	return true
}

// spells reports whether a pattern of the shell may match name.
func spells(t []token, name string) bool {
	if !dotted(t) && strings.HasPrefix(name, ".") {
		return false
	}
	i, at, star, back := 0, 0, -1, 0
	for {
		r, n := utf8.DecodeRuneInString(name[at:])
		switch {
		case i < len(t) && t[i].star:
			star, back = i, at
			i++
		case i == len(t) && at == len(name):
			return true
		case i < len(t) && n > 0 && t[i].may(r):
			i, at = i+1, at+n
		case star >= 0 && back < len(name):
			_, n = utf8.DecodeRuneInString(name[back:])
			back += n
			i, at = star+1, back
		default:
			return false
		}
	}
}

// dotted reports whether a pattern of the shell may match a leading dot.
func dotted(t []token) bool { return len(t) > 0 && (t[0].char == '.' || t[0].dots) }

// overlap reports whether some name is matched by both a, a pattern of the
// shell, and b. Dot says that such names start with a dot, which * and ? do
// not match.
func overlap(a, b []token, dot bool) bool {
	if dot && !dotted(a) {
		return false
	}
	// reach[j]: a[:i] and b[:j] can match one text.
	reach, next := make([]bool, len(b)+1), make([]bool, len(b)+1)
	reach[0] = true
	for j := 1; j <= len(b); j++ {
		reach[j] = reach[j-1] && b[j-1].star
	}
	for i := range a {
		next[0] = reach[0] && a[i].star
		for j := 1; j <= len(b); j++ {
			s := b[j-1]
			switch {
			case a[i].star && s.star:
				next[j] = reach[j] || next[j-1] || reach[j-1]
			case a[i].star:
				next[j] = reach[j] || next[j-1]
			case s.star:
				next[j] = next[j-1] || reach[j]
			default:
				next[j] = reach[j-1] && meet(a[i], s)
			}
		}
		reach, next = next, reach
	}
	return reach[len(b)]
}

// meet reports whether two tokens that are no stars may match one character.
func meet(a, b token) bool {
	switch {
	case b.set == "" && b.char != 0:
		return a.may(b.char)
	case a.set == "" && a.char != 0:
		return b.may(a.char)
	}
	return true
}

// fits reports how well a pattern of the shell fits a segment of a rule.
func fits(s *segment, n *shellName) fit {
	if n.plain {
		if s.matches(n.text) {
			return named
		}
		return apart
	}
	want := s.prefix
	if s.plain {
		want = s.text
	}
	m := min(len(n.start), len(want))
	if n.start[:m] != want[:m] || s.plain && !strings.HasSuffix(s.text, n.end) {
		return apart
	}
	dot := strings.HasPrefix(want, ".")
	switch {
	case s.plain && !spells(n.tokens, s.text), !s.plain && !overlap(n.tokens, s.tokens, dot):
		return apart
	case dot || n.says(s):
		return named
	}
	return roomFor
}

// ends returns the characters that a pattern starts and ends with.
func ends(t []token) (start, end string) {
	var b strings.Builder
	for i := 0; i < len(t) && t[i].char != 0; i++ {
		b.WriteRune(t[i].char)
	}
	i := len(t)
	for i > 0 && t[i-1].char != 0 {
		i--
	}
	var e strings.Builder
	for ; i < len(t); i++ {
		e.WriteRune(t[i].char)
	}
	return b.String(), e.String()
}

// says reports whether n spells a good part of what s is. An extension that
// many files have says nothing of a name.
func (n *shellName) says(s *segment) bool {
	switch {
	case !s.plain && s.prefix != "":
		return len(n.start) >= min(3, len(s.prefix))
	case !s.plain:
		return strings.HasSuffix(n.text, s.suffix)
	case len(n.start) >= 4:
		return true
	}
	stem, spelled := s.text, 0
	for _, t := range n.tokens {
		if t.char != 0 {
			spelled++
		}
	}
	if i := strings.LastIndexByte(stem, '.'); i > 0 {
		if strings.HasSuffix(n.text, stem[i:]) {
			spelled -= len(stem) - i
		}
		stem = stem[:i]
	}
	return 2*spelled >= len(stem)
}
