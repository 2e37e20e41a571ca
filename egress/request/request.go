// Package request reads the head of one HTTP/1 request strictly: what two
// programs could read differently is an error, so that what was judged is what
// is sent on. It parses and decides nothing else, and touches nothing.
package request

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/bulkhead-dev/sandbox/policy/network"
)

// The bounds of a head.
const (
	MaxHead   = 64 << 10 // bytes, with the empty line at its end
	MaxFields = 200
)

// A Form is how a request names its target.
type Form int

// The forms: "/path", "http://host/path", and "host:port", which is CONNECT's.
const (
	Origin Form = iota
	Absolute
	Authority
)

// Chunked is the Length of a body that comes in chunks.
const Chunked = -1

// A Head is what a request says of itself. Host and Port are those of the
// target; a request of the origin form has those of its Host field, with
// port 0 when the field has none, and no Host when the field is missing.
type Head struct {
	Method string
	Form   Form
	Host   network.Host
	Port   uint16
	Path   string // in origin form, as sent, with the query; empty for CONNECT
	Minor  int    // of HTTP/1: 0 or 1
	Length int64  // of the body in bytes, or Chunked
	Size   int    // of the head in bytes
}

// An Error says why a request is not taken. It is fit to be shown.
type Error struct {
	Status int // to answer with: 400, 431, 501 or 505
	Reason string
}

// Error implements error.
func (e *Error) Error() string { return e.Reason }

func malformed(reason string) error { return &Error{400, reason} }

// Peek reads a head without consuming it: [bufio.Reader.Discard] of Size bytes,
// or somebody else who reads the same bytes, does that. A head that does not
// fit the buffer of br is bufio.ErrBufferFull when that is smaller than
// MaxHead, so that the caller can go on with a larger one; beyond MaxHead it is
// an *Error, like everything else that is wrong with it. io.EOF says that
// nothing came at all; other errors are those of reading.
func Peek(br *bufio.Reader) (Head, error) {
	scanned := 0
	for {
		have, err := br.Peek(max(br.Buffered(), scanned+1))
		if end := bytes.Index(have[max(0, scanned-3):], []byte("\r\n\r\n")); end >= 0 {
			return parse(have[:max(0, scanned-3)+end+4])
		}
		if why := oddBytes(have, scanned); why != "" {
			return Head{}, malformed(why)
		}
		switch {
		case len(have) >= MaxHead:
			return Head{}, &Error{431, "the head of the request is longer than 64 KiB"}
		case errors.Is(err, io.EOF) && len(have) > 0:
			return Head{}, io.ErrUnexpectedEOF
		case err != nil:
			return Head{}, err
		case len(have) == br.Size():
			return Head{}, bufio.ErrBufferFull
		}
		scanned = len(have)
	}
}

// oddBytes says what is wrong with the bytes of head from index from on. The
// last byte may be a CR whose LF is still to come.
func oddBytes(head []byte, from int) string {
	for i := max(0, from-1); i < len(head); i++ {
		switch c := head[i]; {
		case c == 0:
			return "there is a NUL in the head of the request"
		case c == '\n' && (i == 0 || head[i-1] != '\r'):
			return "a line of the head ends without CR"
		case c == '\r' && i+1 < len(head) && head[i+1] != '\n':
			return "there is a CR within a line of the head"
		}
	}
	return ""
}

// parse reads a complete head.
func parse(head []byte) (Head, error) {
	if len(head) > MaxHead {
		return Head{}, &Error{431, "the head of the request is longer than 64 KiB"}
	}
	if why := oddBytes(head, 0); why != "" {
		return Head{}, malformed(why)
	}
	lines := strings.Split(string(head[:len(head)-4]), "\r\n")
	h := Head{Size: len(head)}
	target, err := h.requestLine(lines[0])
	if err != nil {
		return Head{}, err
	}
	f, err := fields(lines[1:])
	if err != nil {
		return Head{}, err
	}
	if err := h.target(target); err != nil {
		return Head{}, err
	}
	if err := h.host(f.host); err != nil {
		return Head{}, err
	}
	return h, h.body(f)
}

// requestLine reads "METHOD target HTTP/1.x" and returns the target.
func (h *Head) requestLine(line string) (target string, err error) {
	method, rest, _ := strings.Cut(line, " ")
	target, version, ok := strings.Cut(rest, " ")
	switch {
	case !ok || target == "" || !token(method) || len(method) > 32:
		return "", malformed("the request line is none")
	case version == "HTTP/1.1":
		h.Minor = 1
	case version == "HTTP/1.0":
	case strings.HasPrefix(version, "HTTP/"):
		return "", &Error{505, "only HTTP/1.0 and HTTP/1.1 are spoken here"}
	default:
		return "", malformed("the request line is none")
	}
	for i := range len(target) {
		if c := target[i]; c <= ' ' || c >= 0x7f {
			return "", malformed("there is a character in the target that belongs into no URL")
		}
	}
	h.Method = method
	return target, nil
}

// body settles the length of the body.
func (h *Head) body(f framing) error {
	switch {
	case f.transfer && f.length != "":
		return malformed("there are a Content-Length and a Transfer-Encoding")
	case f.transfer && h.Minor == 0:
		return malformed("HTTP/1.0 has no Transfer-Encoding")
	case f.transfer:
		h.Length = Chunked
	case f.length != "":
		for _, c := range []byte(f.length) {
			if c < '0' || c > '9' || len(f.length) > 18 {
				return malformed("the Content-Length is no number")
			}
			h.Length = h.Length*10 + int64(c-'0')
		}
	}
	if h.Method == "CONNECT" && h.Length != 0 {
		return malformed("a CONNECT has no body")
	}
	return nil
}
