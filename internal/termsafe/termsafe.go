// Package termsafe makes untrusted text safe to show on a terminal.
//
// What a sandbox says (names, messages, output in an error) may hold escape
// sequences that move the cursor, recolour, retitle or even type into a
// terminal, and Unicode characters that reorder or hide what follows. The
// functions here replace each of them with a visible escape in Go notation
// (\x1b, \u202e), so that a reader sees that something was there and what.
//
// The functions are pure, and escaped text passes through them unchanged. A
// backslash in the input stays a backslash, so the escaping is for eyes and
// cannot be undone. Every character that Unicode calls a control, a format
// character, a line separator, private or invisible is escaped; that takes the
// joiners and variation selectors of some emoji along, which is the safe side.
package termsafe

import (
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// Line returns s with everything escaped that is not plainly visible,
// newline and tab included: the result is always one line.
func Line(s string) string { return escape(s, false) }

// String returns s like [Line] does but keeps newline and tab, for text of
// several lines. A carriage return is escaped: it would overwrite the line.
func String(s string) string { return escape(s, true) }

// Safe reports whether r may be written to a terminal as it is. Newline and
// tab are not safe in this sense.
func Safe(r rune) bool {
	if r < utf8.RuneSelf {
		return r >= 0x20 && r != 0x7f
	}
	if r == utf8.RuneError {
		return true // the replacement character itself is harmless
	}
	if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs, unicode.Zl, unicode.Zp) {
		return false
	}
	if unicode.Is(unicode.Variation_Selector, r) || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) {
		return false
	}
	return r == ' ' || unicode.IsGraphic(r)
}

func escape(s string, multiline bool) string {
	if i := firstUnsafe(s, multiline); i < 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + len(s)/4 + 8)
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			writeByte(&b, s[i])
		case keep(r, multiline):
			b.WriteString(s[i : i+n])
		default:
			writeRune(&b, r)
		}
		i += n
	}
	return b.String()
}

// firstUnsafe returns the index of the first byte that needs an escape, or -1.
func firstUnsafe(s string, multiline bool) int {
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if (r == utf8.RuneError && n == 1) || !keep(r, multiline) {
			return i
		}
		i += n
	}
	return -1
}

func keep(r rune, multiline bool) bool {
	if r == '\n' || r == '\t' {
		return multiline
	}
	return Safe(r)
}

func writeByte(b *strings.Builder, c byte) {
	b.WriteString(`\x`)
	b.WriteByte(hexDigits[c>>4])
	b.WriteByte(hexDigits[c&0xf])
}

func writeRune(b *strings.Builder, r rune) {
	switch {
	case r == '\n':
		b.WriteString(`\n`)
	case r == '\t':
		b.WriteString(`\t`)
	case r == '\r':
		b.WriteString(`\r`)
	case r < utf8.RuneSelf:
		writeByte(b, byte(r))
	case r <= 0xffff:
		b.WriteString(`\u`)
		writeHex(b, r, 4)
	default:
		b.WriteString(`\U`)
		writeHex(b, r, 8)
	}
}

func writeHex(b *strings.Builder, r rune, digits int) {
	for shift := 4 * (digits - 1); shift >= 0; shift -= 4 {
		b.WriteByte(hexDigits[(r>>shift)&0xf])
	}
}

// A Writer escapes what is written through it like [String] does. A
// character that is split over two writes is held back until it is complete;
// Close writes what is left. A Writer is not safe for concurrent use.
type Writer struct {
	w    io.Writer
	held [utf8.UTFMax]byte
	n    int // bytes of held in use
}

// NewWriter returns a Writer onto w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write escapes p. It returns len(p) and nil, or 0 and the error of the
// underlying writer: how much of p was shown is then not known.
func (w *Writer) Write(p []byte) (int, error) {
	text := make([]byte, 0, w.n+len(p))
	text = append(text, w.held[:w.n]...)
	text = append(text, p...)
	cut := len(text) - incomplete(text)
	if _, err := io.WriteString(w.w, String(string(text[:cut]))); err != nil {
		return 0, err
	}
	w.n = copy(w.held[:], text[cut:])
	return len(p), nil
}

// Close writes the bytes of a character that never became complete. It does
// not close the underlying writer.
func (w *Writer) Close() error {
	rest := string(w.held[:w.n])
	w.n = 0
	if rest == "" {
		return nil
	}
	_, err := io.WriteString(w.w, String(rest))
	return err
}

// incomplete returns how many bytes at the end of p begin a character that
// further bytes could complete.
func incomplete(p []byte) int {
	for back := 1; back < utf8.UTFMax && back <= len(p); back++ {
		tail := p[len(p)-back:]
		if utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return back
		}
	}
	return 0
}
