package change

import (
	"strconv"
	"strings"
)

// Quote returns name as git shows it: as it is if it has plain ASCII characters
// alone, and otherwise in double quotes, with escapes as in C and other bytes
// in octal. The result is safe for a terminal, and [Unquote] restores the name.
func Quote(name string) string {
	if plainName(name) {
		return name
	}
	var b strings.Builder
	b.WriteByte('"')
	escape(&b, name)
	b.WriteByte('"')
	return b.String()
}

func plainName(name string) bool {
	for i := range len(name) {
		if c := name[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

func escape(b *strings.Builder, name string) {
	for i := range len(name) {
		switch c := name[i]; c {
		case '\a':
			b.WriteString(`\a`)
		case '\b':
			b.WriteString(`\b`)
		case '\t':
			b.WriteString(`\t`)
		case '\n':
			b.WriteString(`\n`)
		case '\v':
			b.WriteString(`\v`)
		case '\f':
			b.WriteString(`\f`)
		case '\r':
			b.WriteString(`\r`)
		case '"', '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		default:
			if c >= 0x20 && c < 0x7f {
				b.WriteByte(c)
				continue
			}
			b.WriteByte('\\')
			b.WriteByte('0' + c>>6)
			b.WriteByte('0' + c>>3&7)
			b.WriteByte('0' + c&7)
		}
	}
}

// Unquote returns the name that [Quote] shows as text. A text without quotes is
// a name as it stands.
func Unquote(text string) (string, bool) {
	if !strings.HasPrefix(text, `"`) {
		return text, text != ""
	}
	if len(text) < 2 || !strings.HasSuffix(text, `"`) {
		return "", false
	}
	text = text[1 : len(text)-1]
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '"' {
			return "", false
		}
		if c != '\\' {
			b.WriteByte(c)
			continue
		}
		if i++; i >= len(text) {
			return "", false
		}
		if at := strings.IndexByte(`abtnvfr"\`, text[i]); at >= 0 {
			b.WriteByte("\a\b\t\n\v\f\r\"\\"[at])
			continue
		}
		if i+3 > len(text) {
			return "", false
		}
		n, err := strconv.ParseUint(text[i:i+3], 8, 8)
		if err != nil {
			return "", false
		}
		b.WriteByte(byte(n))
		i += 2
	}
	return b.String(), b.Len() > 0
}

// prefixed quotes a name with a prefix such as "a/".
func prefixed(prefix, name string) string {
	if plainName(name) {
		return prefix + name
	}
	return Quote(prefix + name)
}

// header is prefixed for the lines "---" and "+++", where git marks the end of
// a name that has a space by a tab.
func header(prefix, name string) string {
	if s := prefixed(prefix, name); s[0] == '"' || !strings.Contains(name, " ") {
		return s
	}
	return prefix + name + "\t"
}
