package tools

import (
	"bytes"
	"unicode/utf8"
)

// sniffed is how many bytes of a file say what it is.
const showSniffed = 8 << 10

// signatures are what files begin with; a dot in a pattern is any byte.
var signatures = []struct{ head, kind, mime string }{
	{"\x89PNG\r\n\x1a\n", "a PNG picture", "image/png"},
	{"\xff\xd8\xff", "a JPEG picture", "image/jpeg"},
	{"GIF87a", "a GIF picture", "image/gif"},
	{"GIF89a", "a GIF picture", "image/gif"},
	{"RIFF....WEBP", "a WebP picture", "image/webp"},
	{"%PDF-", "a PDF document", ""},
	{"\x1f\x8b", "a gzip archive", ""},
	{"PK\x03\x04", "a zip archive", ""},
	{"\x7fELF", "a program", ""},
	{"\xff\xfe", "UTF-16 text", ""},
	{"\xfe\xff", "UTF-16 text", ""},
}

// Kind says what a file is by its beginning, such as "a PNG picture", and is
// empty for text: no NUL, and at most a tenth of the bytes neither UTF-8 nor
// what texts are made of. The beginning should have 8 KiB where the file does.
func kindShow(head []byte) string {
	for _, s := range signatures {
		if begins(head, s.head) {
			return s.kind
		}
	}
	head = whole(head[:min(len(head), showSniffed)])
	if bytes.IndexByte(head, 0) >= 0 {
		return "binary data"
	}
	odd := 0
	for rest := head; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		if r == utf8.RuneError && n == 1 || r < ' ' && !bytes.ContainsRune([]byte("\t\n\v\f\r\b\x1b"), r) || r == 0x7f {
			odd++
		}
		rest = rest[n:]
	}
	if odd*10 > len(head) {
		return "binary data"
	}
	return ""
}

// Picture returns the media type of a picture that agents can be shown, by its
// beginning, and empty for any other file.
func pictureShow(head []byte) string {
	for _, s := range signatures {
		if s.mime != "" && begins(head, s.head) {
			return s.mime
		}
	}
	return ""
}

func begins(head []byte, pattern string) bool {
	if len(head) < len(pattern) {
		return false
	}
	for i, c := range []byte(pattern) {
		if c != '.' && head[i] != c {
			return false
		}
	}
	return true
}
