package violation

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxNames bounds what may be paths in one line.
const maxNames = 24

// names returns the candidates for paths in a line, the most certain reading
// first: quoted texts; the pieces between colons, because a name with blanks
// has no other bounds when it is not quoted; single words with a slash. A name
// without a slash counts only next to the text of a denial, because any word is
// one.
func names(line string, denial bool) [3][]string {
	var out [3][]string
	for _, q := range quoted(line) {
		if denial || strings.Contains(q, "/") {
			out[0] = append(out[0], unescape(q))
		}
	}
	out[1] = pieces(line, denial)
	for word := range strings.FieldsSeq(line) {
		if w := pathWord(word); w != "" && len(out[2]) < maxNames {
			out[2] = append(out[2], w)
		}
	}
	return out
}

// pieces returns the names that fill a piece between colons, or its end.
func pieces(line string, denial bool) []string {
	var out []string
	parts := strings.Split(line, ": ")
	for i, p := range parts[:min(maxNames, len(parts))] {
		p = strings.TrimSpace(p)
		beside := denial && i > 0 && i+1 < len(parts) && holdsAny(strings.ToLower(parts[i+1]), denials)
		switch at := strings.Index(" "+p, " /"); {
		case at >= 0:
			out = append(out, bare(p[at:]))
		case strings.HasPrefix(p, "./"), strings.HasPrefix(p, "../"):
			out = append(out, bare(p))
		case beside && i+2 == len(parts):
			out = append(out, bare(p), bare(p[strings.LastIndexByte(p, ' ')+1:]))
		}
	}
	if _, after, ok := strings.Cut(line, " @ "); ok && denial { // as Ruby has it
		if _, name, ok := strings.Cut(after, " - "); ok {
			out = append(out, bare(name))
		}
	}
	return out
}

// bare takes the remarks off a name without quotes: the error in brackets as
// Ruby, Java and Rust write it, and the number of a line.
func bare(name string) string {
	for _, remark := range []string{" (Errno::", " (os error", " (Permission denied", " (Operation not permitted", " (Read-only file system"} {
		name, _, _ = strings.Cut(name, remark)
	}
	for range 2 {
		head, number, ok := cutLast(name, ':')
		if !ok || strings.Trim(number, "0123456789") != "" {
			break
		}
		name = head
	}
	return strings.TrimSpace(name)
}

func cutLast(s string, sep byte) (before, after string, found bool) {
	if i := strings.LastIndexByte(s, sep); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return s, "", false
}

// pathWord returns the path in a word, if it has a slash and is not a URL,
// without the punctuation around it.
func pathWord(w string) string {
	if !strings.Contains(w, "/") || strings.Contains(w, "://") {
		return ""
	}
	if _, value, ok := strings.Cut(w, "="); ok && strings.Contains(value, "/") {
		w = value
	}
	return bare(strings.TrimRight(strings.Trim(w, "'\"`‘’“”()[]{}<>,;:!?"), "."))
}

// quoted returns the quoted texts in s. A quote opens at the start of a word
// only, so that the apostrophe of "can't" does not open one.
func quoted(s string) []string {
	var out []string
	before, tried := ' ', 0
	for i := 0; i < len(s) && tried < maxNames; {
		r, n := utf8.DecodeRuneInString(s[i:])
		i += n
		opens := unicode.IsSpace(before) || strings.ContainsRune("([{=:,", before)
		before = r
		closing := closes(r)
		if closing == "" || !opens {
			continue
		}
		tried++
		end := closingQuote(s[i:], closing)
		if end < 0 {
			continue
		}
		out = append(out, s[i:i+end])
		i += end
		before = 'x'
	}
	return out
}

// closes returns the quotes that close what r opens, or "".
func closes(r rune) string {
	switch r {
	case '\'', '"':
		return string(r)
	case '`':
		return "`'"
	case '‘':
		return "’"
	case '“':
		return "”"
	}
	return ""
}

// closingQuote returns the position of the first quote of those in closing that
// is followed by the end of a word and not escaped, or -1.
func closingQuote(s, closing string) int {
	escaped := false
	for i, r := range s {
		if !escaped && strings.ContainsRune(closing, r) {
			next, _ := utf8.DecodeRuneInString(s[i+utf8.RuneLen(r):])
			if next == utf8.RuneError || !unicode.IsLetter(next) && !unicode.IsDigit(next) {
				return i
			}
		}
		escaped = r == '\\' && !escaped
	}
	return -1
}

// unescape takes the backslashes before quotes and backslashes away, as
// Python, Node and Go write them.
func unescape(s string) string {
	return strings.NewReplacer(`\\`, `\`, `\'`, `'`, `\"`, `"`).Replace(s)
}
