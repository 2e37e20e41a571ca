package server

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/resource"
)

// Heads returns l with the head of each request checked before the server reads
// it. net/http accepts heads whose body two readers may delimit differently, and
// removes the evidence before a handler could see it: Content-Length beside
// Transfer-Encoding, folded lines, lines without CR. Such a request is answered
// with 400, and its connection is closed: what follows could be a body or
// another request.
func Heads(l net.Listener) net.Listener { return headListener{l} }

type headListener struct{ net.Listener }

func (l headListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &headConn{Conn: c}, nil
}

// maxHead is how much of a head is buffered for the check: more than the server
// accepts, which refuses a longer head itself.
const maxHead = maxHeader + 8<<10

// A headConn passes the server one request head at a time, and the bytes of its
// body as Content-Length counts them. For requests whose body is not counted so,
// which are chunked requests and those that ask for another protocol, it passes
// on all that follows; their connections carry no further request, see [last].
type headConn struct {
	net.Conn

	// The fields below belong to the reader; net/http has one at a time.
	buf     []byte // was read and not passed on
	seen    int    // bytes of buf in which no head ends
	ready   int    // bytes of buf that are passed on unchanged
	body    int64  // bytes of a body that follow them
	through bool   // no further head is checked
	dropped bool   // no further byte is passed on

	refused atomic.Pointer[refusedHead]
}

// A refusedHead is passed on in place of a request that was refused.
type refusedHead struct {
	path string // that no caller knows
	err  error
}

// NetConn returns the connection below.
func (c *headConn) NetConn() net.Conn { return c.Conn }

// Known marks the connection as one of an identified caller, for the gate.
func (c *headConn) Known() {
	if known, ok := c.Conn.(interface{ Known() }); ok {
		known.Known()
	}
}

// Read implements net.Conn.
func (c *headConn) Read(p []byte) (int, error) {
	for {
		switch {
		case len(p) == 0:
			return 0, nil
		case c.ready > 0:
			n := c.take(p, int64(c.ready))
			c.ready -= n
			return n, nil
		case c.dropped:
			if _, err := c.Conn.Read(p); err != nil {
				return 0, err
			}
		case c.through && len(c.buf) > 0:
			return c.take(p, int64(len(c.buf))), nil
		case c.through:
			return c.Conn.Read(p)
		case c.body > 0 && len(c.buf) > 0:
			n := c.take(p, c.body)
			c.body -= int64(n)
			return n, nil
		case c.body > 0:
			n, err := c.Conn.Read(p[:min(int64(len(p)), c.body)])
			c.body -= int64(n)
			return n, err
		default:
			if err := c.head(); err != nil {
				return 0, err
			}
		}
	}
}

// take passes on at most most bytes of buf.
func (c *headConn) take(p []byte, most int64) int {
	n := copy(p[:min(int64(len(p)), most)], c.buf)
	if c.buf = c.buf[n:]; len(c.buf) == 0 {
		c.buf = nil
	}
	return n
}

// head reads until a head is whole, and checks it.
func (c *headConn) head() error {
	for bytes.HasPrefix(c.buf, []byte("\r\n")) {
		c.buf, c.seen = c.buf[2:], 0 // of old clients, behind a body
	}
	if end := headEnd(c.buf, c.seen); end > 0 {
		c.judge(end)
		c.seen = 0
		return nil
	}
	if len(c.buf) >= maxHead {
		c.through = true // the server refuses it
		return nil
	}
	c.seen = max(0, len(c.buf)-2) // the empty line may have begun there
	c.buf = slices.Grow(c.buf, 1<<10)
	n, err := c.Conn.Read(c.buf[len(c.buf):cap(c.buf)])
	c.buf = c.buf[:len(c.buf)+n]
	switch {
	case n > 0:
		return nil // an error comes again
	case errors.Is(err, io.EOF) && len(c.buf) > 0:
		c.through = true // half a head, which the server refuses
		return nil
	}
	return err
}

// headEnd returns where the first head in b ends, behind its empty line, or 0.
// No LF before from is followed by one.
func headEnd(b []byte, from int) int {
	for at := from; ; {
		i := bytes.IndexByte(b[at:], '\n')
		if i < 0 {
			return 0
		}
		at += i + 1
		switch rest := b[at:]; {
		case bytes.HasPrefix(rest, []byte("\n")):
			return at + 1
		case bytes.HasPrefix(rest, []byte("\r\n")):
			return at + 2
		}
	}
}

// judge passes on the head that ends at end, or in its place a request that the
// server answers with the refusal.
func (c *headConn) judge(end int) {
	h, why := readHead(string(c.buf[:end]))
	if why == "" {
		c.ready, c.body, c.through = end, h.length, h.uncounted
		return
	}
	r := &refusedHead{path: "/" + rand.Text(), err: &resource.Fault{Status: http.StatusBadRequest, Close: true, Err: &sandbox.Error{
		Code: sandbox.CodeValidation, Op: "read request", Message: "the head of the request is refused: " + why,
		Hint: "send lines that end with CRLF, and one Content-Length or one Transfer-Encoding: chunked",
	}}}
	c.refused.Store(r)
	c.buf = []byte("GET " + r.path + " HTTP/1.0\r\n\r\n")
	c.ready, c.dropped = len(c.buf), true
}

// A requestHead holds the parts of a head that say where its request ends.
type requestHead struct {
	length    int64
	uncounted bool // the body has chunks, or another protocol follows
}

// readHead parses a head up to its empty line, or returns why it is refused. It
// parses only what says where the body ends; the server parses the rest.
func readHead(text string) (h requestHead, why string) {
	lines := strings.Split(text, "\n")
	lines = lines[:len(lines)-1] // behind the last LF is nothing
	for i, line := range lines {
		whole, ok := strings.CutSuffix(line, "\r")
		if !ok || strings.ContainsRune(whole, '\r') {
			return h, "a line does not end with CRLF"
		}
		lines[i] = whole
	}
	method, rest, _ := strings.Cut(lines[0], " ")
	version := rest[strings.LastIndexByte(rest, ' ')+1:]
	if version != "HTTP/1.1" && version != "HTTP/1.0" {
		return h, "it is not one of HTTP/1.1"
	}
	h.uncounted = method == http.MethodConnect
	var lengths, encodings []string
	for _, line := range lines[1 : len(lines)-1] {
		name, value, ok := strings.Cut(line, ":")
		switch {
		case strings.HasPrefix(line, " "), strings.HasPrefix(line, "\t"):
			return h, "a header is folded over several lines"
		case !ok || name == "":
			return h, "a header has no name"
		case strings.ContainsAny(name, " \t"):
			return h, "the name of a header holds a space"
		}
		value = strings.Trim(value, " \t")
		switch {
		case strings.EqualFold(name, "Content-Length"):
			lengths = append(lengths, value)
		case strings.EqualFold(name, "Transfer-Encoding"):
			encodings = append(encodings, value)
		case strings.EqualFold(name, "Upgrade"):
			h.uncounted = true
		}
	}
	return h.framed(version, lengths, encodings)
}

// framed returns h with the length of its body, or why it is refused.
func (h requestHead) framed(version string, lengths, encodings []string) (requestHead, string) {
	switch {
	case len(encodings) > 0 && len(lengths) > 0:
		return h, "it has Content-Length and Transfer-Encoding"
	case len(encodings) > 1 || len(encodings) == 1 && !strings.EqualFold(encodings[0], "chunked"):
		return h, "its Transfer-Encoding is not chunked alone"
	case len(encodings) == 1 && version != "HTTP/1.1":
		return h, "HTTP/1.0 has no Transfer-Encoding"
	}
	for _, l := range lengths {
		n, err := strconv.ParseInt(l, 10, 64)
		if err != nil || n < 0 || strings.Trim(l, "0123456789") != "" {
			return h, "its Content-Length is no number of bytes"
		}
		if l != lengths[0] {
			return h, "it has different values of Content-Length"
		}
		h.length = n
	}
	h.uncounted = h.uncounted || len(encodings) > 0
	return h, ""
}

// headRefused returns why the head was refused that r replaces, or nil.
func headRefused(r *http.Request) error {
	c, ok := headOf(r.Context())
	if !ok {
		return nil
	}
	if refused := c.refused.Load(); refused != nil && refused.path == r.URL.Path {
		return refused.err
	}
	return nil
}

// last reports whether no request may follow r on its connection, because the
// end of r was not determined and the rest not checked.
func last(r *http.Request) bool {
	_, ok := headOf(r.Context())
	return ok && (len(r.TransferEncoding) > 0 || r.Method == http.MethodConnect || r.Header["Upgrade"] != nil)
}

func headOf(ctx context.Context) (*headConn, bool) {
	c, ok := ctx.Value(connKey{}).(*headConn)
	return c, ok
}
