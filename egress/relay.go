package egress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// hops returns the hop-by-hop fields, which are never passed on.
func hops() []string {
	return []string{
		"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade",
	}
}

// dropHops removes the hop-by-hop fields, and the fields that Connection
// names.
func dropHops(h http.Header) {
	for _, field := range h["Connection"] {
		for name := range strings.SplitSeq(field, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range hops() {
		delete(h, name)
	}
}

// relayBuffer is the chunk size for passing on a response.
const relayBuffer = 32 << 10

// relay passes the response on.
func (x *exchange) relay(resp *http.Response) {
	defer resp.Body.Close()
	if x.bound {
		if err := x.scrub(resp); err != nil {
			x.end(502, err)
			x.answer(refusal{502, "secret", err.Error(), "have the host answer without encoding"})
			return
		}
	}
	stop := func() {}
	if whole := x.body.answering(); !whole {
		x.keep = false
	} else if resp.ContentLength != 0 {
		stop = x.line.watch(x.hungUp)
	}
	w := &tally{w: x.line.conn}
	bw := bufio.NewWriterSize(w, readSize)
	err := x.writeAnswer(bw, resp)
	if err == nil {
		err = bw.Flush()
	}
	stop()
	x.in = w.n
	if err != nil {
		x.keep = false
	}
	x.end(resp.StatusCode, err)
	if !x.keep && err == nil {
		x.bye(x.line)
	}
}

// bodyless reports whether the response has no body.
func (x *exchange) bodyless(resp *http.Response) bool {
	return x.head.Method == http.MethodHead || resp.StatusCode == 204 || resp.StatusCode == 304
}

// writeAnswer writes head and body of the response.
func (x *exchange) writeAnswer(bw *bufio.Writer, resp *http.Response) error {
	bodyless := x.bodyless(resp)
	chunked := false
	length := resp.Header.Get("Content-Length")
	dropHops(resp.Header)
	delete(resp.Header, "Content-Length")
	switch {
	case bodyless:
		if length != "" && resp.StatusCode != 204 {
			resp.Header.Set("Content-Length", length)
		}
	case resp.ContentLength >= 0:
		resp.Header.Set("Content-Length", strconv.FormatInt(resp.ContentLength, 10))
	case x.head.Minor == 1:
		chunked = true
		resp.Header.Set("Transfer-Encoding", "chunked")
	default:
		x.keep = false
	}
	if !x.keep {
		resp.Header.Set("Connection", "close")
	}
	_, reason, _ := strings.Cut(resp.Status, " ")
	fmt.Fprintf(bw, "HTTP/1.1 %03d %s\r\n", resp.StatusCode, printable(reason, 120))
	if x.bound {
		x.session.o.Secrets.ScrubHeader(resp.Trailer) // the announced names
	}
	for name := range resp.Trailer {
		if chunked {
			resp.Header.Add("Trailer", name)
		}
	}
	if err := resp.Header.Write(bw); err != nil {
		return err
	}
	bw.WriteString("\r\n")
	if bodyless {
		return nil
	}
	if resp.ContentLength < 0 || resp.ContentLength > relayBuffer { // a short body is sent with the head
		if err := bw.Flush(); err != nil {
			return err
		}
	}
	return x.copyBody(bw, resp, chunked)
}

// copyBody passes on each part of the body as soon as it is read.
func (x *exchange) copyBody(bw *bufio.Writer, resp *http.Response, chunked bool) error {
	buf := make([]byte, relayBuffer)
	for {
		n, err := resp.Body.Read(buf)
		x.moved()
		if n > 0 {
			if chunked {
				fmt.Fprintf(bw, "%x\r\n", n)
			}
			bw.Write(buf[:n])
			if chunked {
				bw.WriteString("\r\n")
			}
			if err := bw.Flush(); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return x.writeTrailer(bw, resp, chunked)
		case context.Cause(x.own) != nil:
			return context.Cause(x.own)
		case err != nil:
			return errors.New("the host ended the answer early")
		}
	}
}

// writeTrailer ends a chunked body.
func (x *exchange) writeTrailer(bw *bufio.Writer, resp *http.Response, chunked bool) error {
	if !chunked {
		return nil
	}
	bw.WriteString("0\r\n")
	dropHops(resp.Trailer)
	delete(resp.Trailer, "Content-Length")
	if x.bound {
		x.session.o.Secrets.ScrubHeader(resp.Trailer)
	}
	if err := resp.Trailer.Write(bw); err != nil {
		return err
	}
	_, err := bw.WriteString("\r\n")
	return err
}

// A tally counts what is written.
type tally struct {
	w io.Writer
	n int64
}

// Write implements io.Writer.
func (t *tally) Write(b []byte) (int, error) {
	n, err := t.w.Write(b)
	t.n += int64(n)
	return n, err
}
