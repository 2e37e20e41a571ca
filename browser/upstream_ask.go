// This file holds the connection to a server of a browser's container. It
// sends one request, or opens a WebSocket and copies the bytes between it and
// a client. The server's output is untrusted: heads and bodies are bounded,
// and no header is passed on.
//
// Requests are composed from the fields given here, so that no header of a
// client ever reaches the server.

package browser

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

const upstreamOp = "ask browser"

// maxHead bounds the head of an answer, in bytes.
const maxHead = 16 << 10

// An upstreamQuestion is a request without a body.
type upstreamQuestion struct {
	Method string // of HTTP
	Target string // path and query, checked by the caller
	Host   string // name the server answers to
	Limit  int64  // of the answer's body, in bytes
}

// An upstreamAnswer is the response.
type upstreamAnswer struct {
	Status int
	Body   []byte
}

// askUpstream sends one request and closes the connection. The error is
// [sandbox.CodeBudgetExceeded] for a response beyond its limit,
// [sandbox.CodeExecution] for one that is not HTTP, [sandbox.CodeUnavailable]
// for a failed connection, and [sandbox.CodeTimeout] if ctx has ended. A
// redirect is returned like any response; it is not followed.
func askUpstream(ctx context.Context, c net.Conn, q upstreamQuestion) (upstreamAnswer, error) {
	defer func() { _ = c.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	if err := upstreamSay(ctx, c, q.Method, q.Target, "Host: "+q.Host, "Connection: close", "Accept-Encoding: identity"); err != nil {
		return upstreamAnswer{}, err
	}
	in := &source{conn: c, left: maxHead}
	resp, err := http.ReadResponse(bufio.NewReader(in), &http.Request{Method: q.Method})
	if err != nil {
		return upstreamAnswer{}, in.failed(ctx)
	}
	in.left = q.Limit + maxHead // chunks have heads as well
	body, err := io.ReadAll(io.LimitReader(resp.Body, q.Limit+1))
	switch {
	case int64(len(body)) > q.Limit:
		return upstreamAnswer{}, sandbox.Errorf(sandbox.CodeBudgetExceeded, upstreamOp, "the answer is longer than %d bytes", q.Limit)
	case err != nil:
		return upstreamAnswer{}, in.failed(ctx)
	}
	return upstreamAnswer{Status: resp.StatusCode, Body: body}, nil
}

// upstreamSay writes the head of a request.
func upstreamSay(ctx context.Context, c net.Conn, method, target string, lines ...string) error {
	head := method + " " + target + " HTTP/1.1"
	if strings.ContainsAny(target, " \r\n") {
		return sandbox.Errorf(sandbox.CodeInternal, upstreamOp, "the target of a request is more than one word")
	}
	if _, err := io.WriteString(c, head+"\r\n"+strings.Join(lines, "\r\n")+"\r\n\r\n"); err != nil {
		return (&source{broke: true}).failed(ctx)
	}
	return nil
}

// A source reads a bounded number of bytes, and records why reading ended.
type source struct {
	conn  net.Conn
	left  int64
	broke bool // the connection has ended or failed
}

// Read reads from the connection while bytes are left.
func (s *source) Read(p []byte) (int, error) {
	if s.left <= 0 {
		return 0, io.EOF
	}
	n, err := s.conn.Read(p[:min(int64(len(p)), s.left)])
	s.left -= int64(n)
	s.broke = s.broke || err != nil
	return n, err
}

// failed returns the error for a response that could not be read. It does not
// repeat the received bytes: they are untrusted, and errors are logged.
func (s *source) failed(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return sandbox.Errorf(sandbox.CodeTimeout, upstreamOp, "the browser did not answer in time: %w", context.Cause(ctx))
	case s.broke:
		return sandbox.Errorf(sandbox.CodeUnavailable, upstreamOp, "the connection to the browser broke")
	case s.left <= 0:
		return sandbox.Errorf(sandbox.CodeBudgetExceeded, upstreamOp, "the browser's answer is too long")
	}
	return sandbox.Errorf(sandbox.CodeExecution, upstreamOp, "the browser's answer is not HTTP")
}

// grace is how long one direction of a connection may go on after the other
// has ended: enough for the last frames.
const grace = 2 * time.Second
