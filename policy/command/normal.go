package command

import (
	"strings"
)

// normal returns the words as rules see them: quotes and escapes taken off,
// one blank between words, and quotes back around a word with anything in it
// that could pass for two words or for something the shell reads. A word that
// the text does not tell stands as it was written; since every static word
// with a special character is quoted, neither can pass for the other.
func normal(words []lineWord) string {
	if len(words) == 1 && words[0].Static && isBare(words[0].Value) {
		return words[0].Value
	}
	var b strings.Builder
	for i, w := range words {
		if i > 0 {
			b.WriteByte(' ')
		}
		appendWord(&b, w)
	}
	return b.String()
}

func appendWord(b *strings.Builder, w lineWord) {
	switch {
	case !w.Static, w.Glob:
		b.WriteString(w.Raw)
	case isBare(w.Value):
		b.WriteString(w.Value)
	default:
		b.WriteByte('\'')
		b.WriteString(strings.ReplaceAll(w.Value, "'", `'\''`))
		b.WriteByte('\'')
	}
}

// isBare reports whether a word means itself without quotes.
func isBare(s string) bool {
	if s == "" {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c >= 0x80:
		case strings.IndexByte("-_./:=@%+,^", c) >= 0:
		default:
			return false
		}
	}
	return true
}

// word returns what a program gets, or what was written where the text does
// not tell.
func word(w lineWord) string {
	if w.Static && !w.Glob {
		return w.Value
	}
	return w.Raw
}

// base returns the last part of a path.
func base(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }
