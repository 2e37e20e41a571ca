package secret

import (
	"bytes"
	"html"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// A spelling is a value with escapes in it, of any kind and at any bytes:
// those of URLs (%73, twice as %2573, and + for a blank), of JSON and of
// programming languages (\u0073, \x73, \163, \/, also with an escaped
// backslash) and of HTML (&#115;, &#x73;, &amp;). There are too many
// combinations for patterns.

const (
	maxEscape    = 16 // bytes of one escape
	maxSlashes   = 8  // leading backslashes of one escape
	maxBranching = 64 // escapes tried for one value at one position
)

// introduces reports whether an escape may begin with c.
func introduces(c byte) bool { return c == '%' || c == '\\' || c == '&' || c == '+' }

// A meaning is a possible decoding of an escape.
type meaning struct {
	bytes [utf8.UTFMax]byte
	size  int // of bytes
	long  int // of the escape
}

func (r meaning) text() []byte { return r.bytes[:r.size] }

func plain(c byte, long int) meaning {
	return meaning{bytes: [utf8.UTFMax]byte{c}, size: 1, long: long}
}

// meanings returns the possible decodings of the escape at the beginning of
// text. more reports that it may continue after the end of text.
func meanings(text []byte, to []meaning) (out []meaning, more bool) {
	switch text[0] {
	case '+':
		return append(to, plain(' ', 1)), false
	case '%':
		return percented(text, to)
	case '\\':
		return slashed(text, to)
	}
	return entity(text, to)
}

func percented(text []byte, to []meaning) (out []meaning, more bool) {
	if len(text) < 3 {
		return to, true
	}
	c, ok := digitsOf(text[1:3], 16)
	if !ok {
		return to, false
	}
	to = append(to, plain(byte(c), 3))
	if c != '%' {
		return to, false
	}
	if len(text) < 5 {
		return to, true
	}
	if c, ok := digitsOf(text[3:5], 16); ok {
		to = append(to, plain(byte(c), 5))
	}
	return to, false
}

func slashed(text []byte, to []meaning) (out []meaning, more bool) {
	n := 1
	for n < len(text) && n < maxSlashes && text[n] == '\\' {
		n++
	}
	if n > 1 {
		to = append(to, plain('\\', 2))
	}
	if n == len(text) {
		return to, true
	}
	rest := text[n:]
	switch c := rest[0]; {
	case c == 'u':
		r, long, more := unit(rest)
		if long > 0 && utf16.IsSurrogate(r) {
			var low rune
			var second int
			slashes := 0
			for after := rest[long:]; slashes < len(after) && slashes < maxSlashes && after[slashes] == '\\'; {
				slashes++
			}
			if after := rest[long+slashes:]; len(after) == 0 {
				return to, true
			} else if slashes > 0 {
				low, second, more = unit(after)
			}
			r, long = utf16.DecodeRune(r, low), long+slashes+second
		}
		if long == 0 {
			return to, more
		}
		read := meaning{long: n + long}
		read.size = utf8.EncodeRune(read.bytes[:], r)
		return append(to, read), more
	case c == 'x':
		if len(rest) < 3 {
			return to, true
		}
		if c, ok := digitsOf(rest[1:3], 16); ok {
			to = append(to, plain(byte(c), n+3))
		}
	case '0' <= c && c <= '7':
		if len(rest) < 3 {
			return to, true
		}
		if c, ok := digitsOf(rest[:3], 8); ok && c < 256 {
			to = append(to, plain(byte(c), n+3))
		}
	case c == 'n':
		to = append(to, plain('\n', n+1))
	case c == 't':
		to = append(to, plain('\t', n+1))
	case c == 'r':
		to = append(to, plain('\r', n+1))
	default:
		to = append(to, plain(c, n+1))
	}
	return to, false
}

// unit returns the UTF-16 unit that text encodes after its backslash.
func unit(text []byte) (r rune, long int, more bool) {
	if len(text) > 0 && text[0] != 'u' {
		return 0, 0, false
	}
	if len(text) < 5 {
		return 0, 0, true
	}
	c, ok := digitsOf(text[1:5], 16)
	if !ok {
		return 0, 0, false
	}
	return rune(c), 5, false
}

func entity(text []byte, to []meaning) (out []meaning, more bool) {
	end := bytes.IndexByte(text[:min(len(text), maxEscape)], ';')
	if end < 0 {
		return to, len(text) < maxEscape
	}
	read := meaning{long: end + 1}
	s := html.UnescapeString(string(text[:end+1]))
	if len(s) > utf8.UTFMax || len(s) == end+1 {
		return to, false
	}
	read.size = copy(read.bytes[:], s)
	return append(to, read), false
}

func digitsOf(digits []byte, base int) (uint64, bool) {
	n, err := strconv.ParseUint(string(digits), base, 32)
	return n, err == nil
}

// spells returns the length of the spelling of value at the beginning of text,
// or 0. more reports that a spelling may continue after the end of text. tries
// bounds the work.
func spells(text, value []byte, tries *int) (long int, more bool) {
	at := 0
	for len(value) > 0 {
		if at == len(text) {
			return 0, true
		}
		if introduces(text[at]) {
			if *tries--; *tries < 0 {
				return 0, false
			}
			var room [3]meaning
			list, open := meanings(text[at:], room[:0])
			for _, r := range list {
				if !bytes.HasPrefix(value, r.text()) {
					continue
				}
				n, open := spells(text[at+r.long:], value[r.size:], tries)
				if n > 0 || r.size == len(value) {
					return at + r.long + n, false
				}
				more = more || open
			}
			more = more || open
		}
		if text[at] != value[0] {
			return 0, more
		}
		at, value = at+1, value[1:]
	}
	return at, false
}

// A place is a position in a value.
type place struct{ value, at int }

// placesOf indexes the positions in values by their byte and the one before
// it, 0 at the beginning.
func placesOf(values []pattern) map[[2]byte][]place {
	out := map[[2]byte][]place{}
	for i, v := range values {
		before := byte(0)
		for k, c := range v.text {
			out[[2]byte{before, c}] = append(out[[2]byte{before, c}], place{i, k})
			before = c
		}
	}
	return out
}

// spelled returns the first spelling with an escape in text that starts before
// end, or, with open, the first position from which one may continue after the
// end of text. Up to its first escape a spelling is the value itself, so only
// the bytes before an escape are examined.
func (m *matcher) spelled(text []byte, end int, open bool) (at, long int, standIn []byte) {
	at = -1
	for j := 0; j < len(text); j++ {
		if at >= 0 && j-m.value >= at || at < 0 && j-m.value >= end {
			break // earlier spellings were found, or start after end
		}
		if !introduces(text[j]) {
			continue
		}
		var room [3]meaning
		list, cut := meanings(text[j:], room[:0])
		try := func(p place) {
			start := j - p.at
			if start < 0 || start >= end || at >= 0 && start >= at {
				return
			}
			v := m.values[p.value]
			if !bytes.Equal(text[start:j], v.text[:p.at]) {
				return
			}
			tries := maxBranching
			switch n, more := spells(text[j:], v.text[p.at:], &tries); {
			case open && more:
				at = start
			case !open && n > 0:
				at, long, standIn = start, p.at+n, v.standIn
			}
		}
		for _, r := range list {
			for _, p := range m.places[[2]byte{0, r.bytes[0]}] {
				if p.at == 0 {
					try(p)
				}
			}
			if j > 0 {
				for _, p := range m.places[[2]byte{text[j-1], r.bytes[0]}] {
					if p.at > 0 {
						try(p)
					}
				}
			}
		}
		if cut && open { // at the end of text: the encoded byte is not known yet
			for i, v := range m.values {
				for k := range v.text {
					try(place{i, k})
				}
			}
		}
	}
	return at, long, standIn
}

// next returns the first occurrence of a value before end, in any encoding; at
// is -1 if there is none.
func (m *matcher) next(text []byte, end int) (at, long int, standIn []byte) {
	at, p := m.find(text, end)
	if p != nil {
		long, standIn, end = len(p.text), p.standIn, at
	}
	if s, n, in := m.spelled(text, end, false); s >= 0 {
		return s, n, in
	}
	return at, long, standIn
}
