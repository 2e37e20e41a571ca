package jsonschema

import (
	"bytes"
	"strconv"
	"unicode/utf16"
)

// HasHalf reports whether an escape in data, which is JSON, is half of a
// character: a surrogate without its other one, as in "\ud800". No text of
// Unicode has such a half, and decoders of Go put U+FFFD in its place without a
// word: two names that differ would become one.
func HasHalf(data []byte) bool {
	for {
		i := bytes.IndexByte(data, '\\')
		if i < 0 || i+1 >= len(data) {
			return false
		}
		r, ok := escaped(data[i:])
		switch {
		case !ok:
			data = data[i+2:]
			continue
		case utf16.IsSurrogate(r):
			low, ok := escaped(data[i+6:])
			if !ok || utf16.DecodeRune(r, low) == '\ufffd' {
				return true
			}
			data = data[i+12:]
		default:
			data = data[i+6:]
		}
	}
}

// escaped is the unit of UTF-16 of an escape with which data begins.
func escaped(data []byte) (rune, bool) {
	if len(data) < 6 || data[0] != '\\' || data[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(data[2:6]), 16, 16)
	return rune(n), err == nil
}
