package change

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"strings"
)

// A sum is what is known of the content of a file.
type sum struct {
	digest string // SHA-256 in hexadecimal
	size   int64
	binary bool
	mime   string
	unread bool
}

// digestOf reads r to its end, or to limit bytes and no further.
func digestOf(ctx context.Context, r io.Reader, limit int64, buffer []byte) (sum, error) {
	h := sha256.New()
	var s sum
	var head []byte
	for {
		n, err := r.Read(buffer)
		h.Write(buffer[:n])
		if len(head) < sniffed {
			head = append(head, buffer[:min(n, sniffed-len(head))]...)
		}
		if s.size += int64(n); s.size > limit {
			return sum{size: s.size, unread: true}, nil
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return s, err
		}
		if err := ctx.Err(); err != nil {
			return s, stopped("read file", err)
		}
	}
	s.digest = hex.EncodeToString(h.Sum(nil))
	s.binary, s.mime = isBinary(head), sniff(head)
	return s, nil
}

// sniffed is the number of bytes by which git distinguishes text from other content.
const sniffed = 8000

// isBinary reports whether git takes a file that begins with head for binary.
func isBinary(head []byte) bool { return bytes.IndexByte(head[:min(len(head), sniffed)], 0) >= 0 }

// magics are types of programs, which package http does not know.
var magics = []struct{ prefix, mime string }{
	{"\x7fELF", "application/x-executable"},
	{"\xcf\xfa\xed\xfe", "application/x-mach-binary"},
	{"\xce\xfa\xed\xfe", "application/x-mach-binary"},
	{"\xca\xfe\xba\xbe", "application/java-vm"},
	{"MZ", "application/vnd.microsoft.portable-executable"},
	{"SQLite format 3\x00", "application/vnd.sqlite3"},
}

// sniff returns the MIME type of a file that begins with head.
func sniff(head []byte) string {
	for _, m := range magics {
		if strings.HasPrefix(string(head[:min(len(head), len(m.prefix))]), m.prefix) && isBinary(head) {
			return m.mime
		}
	}
	mime, _, _ := strings.Cut(http.DetectContentType(head), ";")
	return mime
}

// text returns the content of a small regular file of the tree. The error
// wraps errLong for one that has more than limit bytes.
func (t *Tree) text(rel string, limit int64) ([]byte, error) {
	f, info, err := t.Open(rel)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info.Size > limit {
		return nil, errLong
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = errLong
	}
	return data, err
}

// hexDigest returns the SHA-256 of data in hexadecimal.
func hexDigest(data []byte) string {
	h := sha256.Sum256(data)
	return hex.EncodeToString(h[:])
}
