package path

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Fold maps names that differ in case alone to one, for folders that do not
// tell them apart. Bytes that are no UTF-8 stay what they are.
func Fold(s string) string {
	if folded(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n <= 1 {
			b.WriteByte(s[0])
		} else {
			least := r
			for o := unicode.SimpleFold(r); o != r; o = unicode.SimpleFold(o) {
				least = min(least, o)
			}
			b.WriteRune(unicode.ToLower(least))
		}
		s = s[n:]
	}
	return b.String()
}

// folded reports that s is ASCII without upper case, which folding leaves alone.
func folded(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf || 'A' <= s[i] && s[i] <= 'Z' {
			return false
		}
	}
	return true
}
