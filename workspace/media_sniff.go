package workspace

import (
	"bytes"
	"unicode/utf8"
)

// sniffed is how many bytes of a file are looked at.
const sniffed = 512

const (
	mimeBinary = "application/octet-stream"
	mimeText   = "text/plain; charset=utf-8"
)

// A magic is what files of a type have at an offset.
type magic struct {
	at   int
	want string
	mime string
}

// magics are the types of content that people send each other. The first one
// that fits counts.
func magics() []magic {
	return []magic{
		{0, "\x89PNG\r\n\x1a\n", "image/png"},
		{0, "\xff\xd8\xff", "image/jpeg"},
		{0, "GIF87a", "image/gif"},
		{0, "GIF89a", "image/gif"},
		{0, "BM", "image/bmp"},
		{0, "II*\x00", "image/tiff"},
		{0, "MM\x00*", "image/tiff"},
		{4, "ftypheic", "image/heic"},
		{4, "ftypheix", "image/heic"},
		{4, "ftypmif1", "image/heif"},
		{4, "ftypavif", "image/avif"},
		{0, "%PDF-", "application/pdf"},
		{0, "ID3", "audio/mpeg"},
		{0, "\xff\xfb", "audio/mpeg"},
		{0, "\xff\xf3", "audio/mpeg"},
		{0, "\xff\xf1", "audio/aac"},
		{0, "\xff\xf9", "audio/aac"},
		{0, "OggS", "audio/ogg"},
		{0, "fLaC", "audio/flac"},
		{0, "#!AMR", "audio/amr"},
		{4, "ftypM4A", "audio/mp4"},
		{4, "ftypqt", "video/quicktime"},
		{4, "ftyp3g", "video/3gpp"},
		{4, "ftyp", "video/mp4"},
		{0, "\x1a\x45\xdf\xa3", "video/webm"},
		{0, "PK\x03\x04", "application/zip"},
		{0, "PK\x05\x06", "application/zip"},
		{0, "\x1f\x8b\x08", "application/gzip"},
	}
}

// sniff tells the type of a file by its first bytes. What has no sign of its
// own is text when it reads as such, and else bytes. It is a hint for the program that
// opens the file, and no promise: a file can be two things at once.
func sniff(head []byte) string {
	if len(head) == 0 {
		return mimeBinary
	}
	if len(head) >= 12 && string(head[:4]) == "RIFF" {
		switch string(head[8:12]) {
		case "WEBP":
			return "image/webp"
		case "WAVE":
			return "audio/wav"
		case "AVI ":
			return "video/x-msvideo"
		}
	}
	for _, m := range magics() {
		if len(head) >= m.at && bytes.HasPrefix(head[m.at:], []byte(m.want)) && !(m.want == "BM" && isText(head)) {
			return m.mime
		}
	}
	if isText(head) {
		return mimeText
	}
	return mimeBinary
}

// isText reports whether head is UTF-8 without control characters beside
// those of lines and columns. A character that head cuts counts as one.
func isText(head []byte) bool {
	for len(head) > 0 {
		r, size := utf8.DecodeRune(head)
		if r == utf8.RuneError && size == 1 {
			return len(head) < utf8.UTFMax && !utf8.FullRune(head)
		}
		if r < ' ' && r != '\t' && r != '\n' && r != '\r' && r != '\f' || r == 0x7f {
			return false
		}
		head = head[size:]
	}
	return true
}
