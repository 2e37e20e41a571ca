// This file shortens texts for records. The results are valid UTF-8, and as
// JSON they take at most six times their own length.

package journal

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode/utf8"
)

// MaxName bounds a name in bytes. Names that settings allow are shorter.
const MaxName = 256

// mark stands at the end of what was cut.
const mark = "…"

// Name returns a name as it is kept. One that is short enough and valid stays
// as it is; of others the end is replaced by a digest, so that two never become
// one.
func Name(s string) string {
	if len(s) <= MaxName && utf8.ValidString(s) {
		return s
	}
	return Text(s, MaxName/2) + "#" + Digest(s)
}

// Digest returns the SHA-256 of s as hex digits.
func Digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// Text returns s as valid UTF-8 of at most most bytes; what is cut ends with
// "…". Bytes that are no UTF-8 become \xNN.
func Text(s string, most int) string {
	if len(s) > most {
		s = s[:most+1] // enough to see that it is too long
	}
	if !utf8.ValidString(s) {
		s = escapeInvalid(s)
	}
	if len(s) <= most {
		return s
	}
	at := most - len(mark)
	for at > 0 && !utf8.RuneStart(s[at]) {
		at--
	}
	return s[:at] + mark
}

func escapeInvalid(s string) string {
	const hexDigits = "0123456789abcdef"
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			b.WriteString(`\x`)
			b.WriteByte(hexDigits[s[i]>>4])
			b.WriteByte(hexDigits[s[i]&0xf])
		} else {
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}
