// Relay: this part of the package speaks to a server of a browser's container over one
// connection: it asks one question, or it opens a WebSocket and carries the
// bytes of a client to it and back. What the server says is untrusted: heads
// and bodies are bounded, and nothing of a head is handed on.
//
// Requests are written anew from the few words given here, so that no header
// of a client ever reaches the server.

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

// A Question is a request without a body.
type upstreamQuestion struct {
	Method string // of HTTP
	Target string // path and query, checked by the caller
	Host   string // that the server believes to be
	Limit  int64  // of the answer's body, in bytes
}

// An Answer is what came.
type upstreamAnswer struct {
	Status int
	Body   []byte
}

// Ask asks one question and closes the connection. An answer beyond its limit
// is [sandbox.CodeBudgetExceeded], one that is not HTTP
// [sandbox.CodeExecution]; a connection that fails is
// [sandbox.CodeUnavailable], and [sandbox.CodeTimeout] when ctx has ended. A
// redirect is an answer like others; it is not followed.
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

// say writes the head of a request.
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

// A source reads a bounded number of bytes, and remembers why it ended.
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

// failed says why no answer could be read. It does not repeat what came: that
// is untrusted, and errors go into logs.
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

// grace is how long the other half of a connection may go on when one half
// has ended: as long as the last frames may take.
const grace = 2 * time.Second
