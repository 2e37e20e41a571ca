// This file parses the head of one HTTP/1 request strictly: input that two
// programs could read differently is an error, so that the request sent on is
// the one that was judged. It only parses, and has no side effects.

package egress

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
	maxHead   = 64 << 10 // bytes, with the empty line at its end
	maxFields = 200
)

// A requestForm is the form of a request target.
type requestForm int

// The forms: "/path", "http://host/path", and "host:port", which is CONNECT's.
const (
	requestOrigin requestForm = iota
	requestAbsolute
	requestAuthority
)

// requestChunked is the Length of a chunked body.
const requestChunked = -1

// A requestHead is a parsed request head. Host and Port are those of the
// target; a request in origin form has those of its Host field, with port 0 if
// the field has none, and no Host if the field is missing.
type requestHead struct {
	Method string
	Form   requestForm
	Host   network.Host
	Port   uint16
	Path   string // in origin form, as sent, with the query; empty for CONNECT
	Minor  int    // of HTTP/1: 0 or 1
	Length int64  // of the body in bytes, or requestChunked
	Size   int    // of the head in bytes
}

// A requestError is the reason why a request is rejected. It can be shown.
type requestError struct {
	Status int // of the response: 400, 431, 501 or 505
	Reason string
}

// Error implements error.
func (e *requestError) Error() string { return e.Reason }

func requestMalformed(reason string) error { return &requestError{400, reason} }

// peekRequest parses a head without consuming it: the caller discards Size
// bytes, or has another parser read the same bytes. If the head does not fit
// the buffer of br, the error is bufio.ErrBufferFull for a buffer smaller than
// maxHead, so that the caller can retry with a larger one; beyond maxHead it
// is a *requestError, as for every malformed head. io.EOF means that no byte
// was received; other errors are those of reading.
func peekRequest(br *bufio.Reader) (requestHead, error) {
	scanned := 0
	for {
		have, err := br.Peek(max(br.Buffered(), scanned+1))
		if end := bytes.Index(have[max(0, scanned-3):], []byte("\r\n\r\n")); end >= 0 {
			return parse(have[:max(0, scanned-3)+end+4])
		}
		if why := oddBytes(have, scanned); why != "" {
			return requestHead{}, requestMalformed(why)
		}
		switch {
		case len(have) >= maxHead:
			return requestHead{}, &requestError{431, "the head of the request is longer than 64 KiB"}
		case errors.Is(err, io.EOF) && len(have) > 0:
			return requestHead{}, io.ErrUnexpectedEOF
		case err != nil:
			return requestHead{}, err
		case len(have) == br.Size():
			return requestHead{}, bufio.ErrBufferFull
		}
		scanned = len(have)
	}
}

// oddBytes returns what is wrong with the bytes of head starting at index
// from, or "". The last byte may be a CR whose LF is still to come.
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

// parse parses a complete head.
func parse(head []byte) (requestHead, error) {
	if len(head) > maxHead {
		return requestHead{}, &requestError{431, "the head of the request is longer than 64 KiB"}
	}
	if why := oddBytes(head, 0); why != "" {
		return requestHead{}, requestMalformed(why)
	}
	lines := strings.Split(string(head[:len(head)-4]), "\r\n")
	h := requestHead{Size: len(head)}
	target, err := h.requestLine(lines[0])
	if err != nil {
		return requestHead{}, err
	}
	f, err := fields(lines[1:])
	if err != nil {
		return requestHead{}, err
	}
	if err := h.target(target); err != nil {
		return requestHead{}, err
	}
	if err := h.host(f.host); err != nil {
		return requestHead{}, err
	}
	return h, h.body(f)
}

// requestLine parses "METHOD target HTTP/1.x" and returns the target.
func (h *requestHead) requestLine(line string) (target string, err error) {
	method, rest, _ := strings.Cut(line, " ")
	target, version, ok := strings.Cut(rest, " ")
	switch {
	case !ok || target == "" || !token(method) || len(method) > 32:
		return "", requestMalformed("the request line is none")
	case version == "HTTP/1.1":
		h.Minor = 1
	case version == "HTTP/1.0":
	case strings.HasPrefix(version, "HTTP/"):
		return "", &requestError{505, "only HTTP/1.0 and HTTP/1.1 are spoken here"}
	default:
		return "", requestMalformed("the request line is none")
	}
	for i := range len(target) {
		if c := target[i]; c <= ' ' || c >= 0x7f {
			return "", requestMalformed("there is a character in the target that belongs into no URL")
		}
	}
	h.Method = method
	return target, nil
}

// body determines the length of the body.
func (h *requestHead) body(f framing) error {
	switch {
	case f.transfer && f.length != "":
		return requestMalformed("there are a Content-Length and a Transfer-Encoding")
	case f.transfer && h.Minor == 0:
		return requestMalformed("HTTP/1.0 has no Transfer-Encoding")
	case f.transfer:
		h.Length = requestChunked
	case f.length != "":
		for _, c := range []byte(f.length) {
			if c < '0' || c > '9' || len(f.length) > 18 {
				return requestMalformed("the Content-Length is no number")
			}
			h.Length = h.Length*10 + int64(c-'0')
		}
	}
	if h.Method == "CONNECT" && h.Length != 0 {
		return requestMalformed("a CONNECT has no body")
	}
	return nil
}
