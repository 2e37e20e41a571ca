package secret

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"strings"
)

// forms returns the encodings in which a server may repeat value: unchanged,
// in base64 at any offset of a longer text, in hexadecimal, and escaped for
// URLs, JSON and HTML. Some may be equal.
func forms(value []byte) [][]byte {
	v := string(value)
	out := []string{v, hex.EncodeToString(value), strings.ToUpper(hex.EncodeToString(value))}
	for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for shift := range 3 {
			out = append(out, core64(e, value, shift))
		}
	}
	for _, p := range []string{
		url.QueryEscape(v),
		url.PathEscape(v),
		percent(v, ""),
		percent(v, "!'()*"),               // encodeURIComponent
		percent(v, "!'()*;/?:@&=+$,#"),    // encodeURI
		percent(v, "!'()*;/?:@&=+$,#[]%"), // encoders that take the value for a URL
	} {
		out = append(out, p, lowerHex(p))
	}
	out = append(out, quoted(v)...)
	out = append(out, html.EscapeString(v), strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#x27;").Replace(v))
	list := make([][]byte, len(out))
	for i, s := range out {
		list[i] = []byte(s)
	}
	return list
}

// core64 encodes value as part of a longer text with shift bytes (modulo 3)
// before it, and keeps the digits that depend on value alone.
func core64(e *base64.Encoding, value []byte, shift int) string {
	padded := make([]byte, shift, shift+len(value))
	text := e.EncodeToString(append(padded, value...))
	first := (shift*8 + 5) / 6
	last := (shift + len(value)) * 8 / 6
	return text[first:last]
}

// percent encodes every byte of v but letters, digits, "-_.~" and those in
// keep.
func percent(v, keep string) string {
	var b strings.Builder
	for _, c := range []byte(v) {
		switch {
		case '0' <= c && c <= '9', 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z', strings.IndexByte("-_.~", c) >= 0, strings.IndexByte(keep, c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// lowerHex turns the digits of percent escapes into lower case.
func lowerHex(v string) string {
	b := []byte(v)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:i+3], strings.ToLower(string(b[i+1:i+3])))
			i += 2
		}
	}
	return string(b)
}

// quoted returns v as the inside of a JSON string, in the styles of different
// libraries: with and without escapes for HTML, slashes and non-ASCII
// characters.
func quoted(v string) []string {
	var plain strings.Builder
	e := json.NewEncoder(&plain)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // a string can always be encoded
	bare := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSuffix(plain.String(), "\n"), `"`), `"`)
	web := strings.NewReplacer("<", `\u003c`, ">", `\u003e`, "&", `\u0026`).Replace(bare)
	webUpper := strings.NewReplacer("<", `\u003C`, ">", `\u003E`, "&", `\u0026`, "'", `\u0027`, "+", `\u002B`).Replace(bare)
	slashes := strings.ReplaceAll(bare, "/", `\/`)
	out := []string{bare, web, webUpper, slashes}
	for _, s := range []string{bare, slashes} {
		var ascii, upper strings.Builder
		for _, r := range s {
			writeASCII(&ascii, r, `\u%04x`)
			writeASCII(&upper, r, `\u%04X`)
		}
		out = append(out, ascii.String(), upper.String())
	}
	return out
}

// writeASCII writes r, or its UTF-16 units in the given format if it is not
// ASCII.
func writeASCII(b *strings.Builder, r rune, format string) {
	switch {
	case r < 0x80:
		b.WriteRune(r)
	case r < 0x10000:
		fmt.Fprintf(b, format, r)
	default:
		fmt.Fprintf(b, format, 0xd800+(r-0x10000)>>10)
		fmt.Fprintf(b, format, 0xdc00+(r-0x10000)&0x3ff)
	}
}
