package browser

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox"
)

// An upstreamStream is a connection of which some bytes may already be
// buffered.
type upstreamStream struct {
	net.Conn
	rest io.Reader
}

// Read reads the buffered bytes first, and then the connection.
func (s *upstreamStream) Read(p []byte) (int, error) { return s.rest.Read(p) }

// CloseWrite closes the writing side, where the connection supports it.
func (s *upstreamStream) CloseWrite() error {
	if half, ok := s.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return sandbox.Errorf(sandbox.CodeUnsupported, upstreamOp, "the connection has no half to close")
}

// An upstreamSocket says which WebSocket to open.
type upstreamSocket struct {
	Target string // path, checked by the caller
	Host   string // name the server answers to
}

// dialUpstream makes a handshake with the server at the other end of c, and
// takes ownership of c. It generates the key itself and asks for no extensions
// and no protocols, so that frames mean the same to every client. If the
// response is no WebSocket handshake, the error is [sandbox.CodeNotFound]
// where the server reports that the target does not exist, and
// [sandbox.CodeExecution] otherwise.
func dialUpstream(ctx context.Context, c net.Conn, s upstreamSocket) (_ *upstreamStream, err error) {
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer func() {
		if !stop() && err == nil {
			err = (&source{broke: true}).failed(ctx)
		}
		if err != nil {
			_ = c.Close()
		}
	}()
	raw := make([]byte, 16)
	_, _ = rand.Read(raw) // never fails
	key := base64.StdEncoding.EncodeToString(raw)
	lines := []string{"Host: " + s.Host, "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: " + key}
	if err := upstreamSay(ctx, c, "GET", s.Target, lines...); err != nil {
		return nil, err
	}
	in := &source{conn: c, left: maxHead}
	early := bufio.NewReaderSize(in, maxHead)
	resp, err := http.ReadResponse(early, &http.Request{Method: "GET"})
	if err != nil {
		return nil, in.failed(ctx)
	}
	if err := accepted(resp, key); err != nil {
		return nil, err
	}
	return &upstreamStream{c, rest(early, c)}, nil
}

// rest returns a reader of the bytes buffered in b followed by c itself.
func rest(b *bufio.Reader, c io.Reader) io.Reader {
	left, _ := b.Peek(b.Buffered()) // never more than there is
	return io.MultiReader(strings.NewReader(string(left)), c)
}

// accepted checks the server's half of the handshake (RFC 6455, section 4.1).
func accepted(resp *http.Response, key string) error {
	switch resp.StatusCode {
	case http.StatusSwitchingProtocols:
	case http.StatusNotFound, http.StatusInternalServerError: // Chromium returns 500 for a page that no longer exists
		return sandbox.Errorf(sandbox.CodeNotFound, upstreamOp, "the browser has nothing at this address")
	default:
		return sandbox.Errorf(sandbox.CodeExecution, upstreamOp, "the browser refused a WebSocket with status %d", resp.StatusCode)
	}
	h := resp.Header
	if !strings.EqualFold(h.Get("Upgrade"), "websocket") || !strings.EqualFold(h.Get("Connection"), "upgrade") ||
		!slices.Equal(h.Values("Sec-Websocket-Accept"), []string{proof(key)}) ||
		len(h.Values("Sec-Websocket-Extensions")) > 0 || len(h.Values("Sec-Websocket-Protocol")) > 0 {
		return sandbox.Errorf(sandbox.CodeExecution, upstreamOp, "the browser's handshake is not one of WebSocket")
	}
	return nil
}

// proof returns the server's answer to a key.
func proof(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) // RFC 6455, section 1.3
	return base64.StdEncoding.EncodeToString(sum[:])
}

// acceptUpstream completes the server's half of the handshake with a client
// whose key was checked, and hijacks its connection.
func acceptUpstream(w http.ResponseWriter, key string) (*upstreamStream, error) {
	c, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, sandbox.Errorf(sandbox.CodeInternal, upstreamOp, "the connection of the client cannot be taken over: %w", err)
	}
	const yes = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "
	if _, err := io.WriteString(c, yes+proof(key)+"\r\n\r\n"); err != nil {
		_ = c.Close()
		return nil, sandbox.Errorf(sandbox.CodeUnavailable, upstreamOp, "the client has gone: %w", err)
	}
	return &upstreamStream{c, rest(buffered.Reader, c)}, nil
}
