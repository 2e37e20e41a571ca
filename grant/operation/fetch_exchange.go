package operation

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/grant/budget"
)

// maxHead is how much a host may say before the body of its answer, interim
// answers included.
const maxHead = 64 << 10

// An exchange is one request and its answer, on a connection of its own.
type exchange struct {
	*fetching
	v    grant.Vetted
	hops int // redirects before it

	raw   net.Conn      // to the proxy
	below *ending       // raw as TLS sees it; nil without TLS
	conn  net.Conn      // that the request is written to: raw, or the TLS in it
	stop  func() bool   // leaves raw alone when the context ends
	wrote chan struct{} // closed when nothing more is written; nil before

	out        Output
	redirected bool
	next       grant.Operation // that the answer redirects to

	whole  bool            // all of the answer was taken that is wanted
	passed bool            // something may have reached the host
	effect evidence.Effect // that is noted then
}

// do sends the request and takes the answer.
func (x *exchange) do(ctx context.Context) error {
	x.effect = evidence.Effect{Kind: grant.EffectNetwork, Method: x.v.Method, Host: x.v.Host.Target(x.v.Port)}
	u, err := url.Parse(x.v.URL)
	if err != nil {
		return sandbox.Errorf(sandbox.CodeInternal, fetchOp, "the address that was judged cannot be read")
	}
	if x.raw, err = x.inside.dial(ctx); err != nil {
		return err
	}
	x.conn = x.raw
	x.stop = context.AfterFunc(ctx, func() { x.raw.Close() })
	secure := u.Scheme == "https"
	if secure {
		if err := x.tunnel(ctx); err != nil {
			return err
		}
	}
	if n := int64(len(x.v.Data)); n > 0 {
		if err := x.call.Meter.Add(budget.BytesOut, n); err != nil {
			return err
		}
		x.effect.BytesOut = n
	}
	req := x.request(u)
	x.send(req, !secure)
	resp, err := x.head(req)
	if err != nil {
		return x.failed(ctx, err)
	}
	if !secure {
		if err := x.ofProxy(ctx, resp); err != nil {
			return err
		}
	}
	return x.take(ctx, resp)
}

// drainTime is how long a host may take to end the connection after its
// response. It is short, because a host that leaves the connection open costs
// the executor that time.
const drainTime = 100 * time.Millisecond

// close ends the connection and notes what was done.
func (x *exchange) close() {
	if x.raw != nil {
		if x.whole { // otherwise the proxy's record would report a connection that was cut off
			_ = x.raw.SetReadDeadline(time.Now().Add(x.drainTime))
			_, _ = io.CopyN(io.Discard, x.raw, maxHead)
		}
		x.stop()
		x.raw.Close()
	}
	if x.wrote != nil {
		<-x.wrote
	}
	if x.passed {
		x.call.Effect(x.effect)
	}
}

// tunnel has the proxy open a tunnel to the host, and TLS in it.
func (x *exchange) tunnel(ctx context.Context) error {
	target := x.v.Host.Target(x.v.Port)
	x.passed = true
	// A response can arrive before the request was read, so the response
	// explains more than a write error.
	_, _ = fmt.Fprintf(x.raw, "CONNECT %s HTTP/1.1\r\nHost: %s\r\nProxy-Authorization: %s\r\n\r\n", target, target, x.auth)
	br := bufio.NewReader(io.LimitReader(x.raw, maxHead))
	resp, err := http.ReadResponse(br, &http.Request{Method: http.MethodConnect})
	switch {
	case err != nil:
		return x.failed(ctx, err)
	case resp.StatusCode != http.StatusOK:
		return x.notOpened(ctx, resp)
	case br.Buffered() > 0:
		return malformed(&x.v, "the host speaks before it was spoken to", nil)
	}
	x.below = &ending{Conn: x.raw}
	over := tls.Client(x.below, &tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: x.roots, ServerName: x.v.Host.String(), NextProtos: []string{"http/1.1"},
	})
	if err := over.HandshakeContext(ctx); err != nil {
		return x.untrusted(ctx, err)
	}
	x.conn = over
	return nil
}

// An ending is a connection that knows whether it has ended by itself.
type ending struct {
	net.Conn
	ended bool
}

// Read implements io.Reader.
func (e *ending) Read(p []byte) (int, error) {
	n, err := e.Conn.Read(p)
	e.ended = e.ended || err == io.EOF
	return n, err
}

// severed reports whether a response that lasts until the connection ends was
// cut off: TLS has a closing alert (close_notify), but package tls does not
// require it.
func (x *exchange) severed(resp *http.Response) bool {
	return x.below != nil && x.below.ended && resp.ContentLength < 0 && len(resp.TransferEncoding) == 0
}

// request is what is sent.
func (x *exchange) request(u *url.URL) *http.Request {
	req := &http.Request{
		Method: x.v.Method, URL: u, Host: u.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"User-Agent": {"sandbox"}}, ContentLength: int64(len(x.v.Data)), Close: true,
	}
	for name, value := range x.v.Header {
		req.Header.Set(name, value)
	}
	req.Header.Set("Accept-Encoding", "identity")
	if len(x.v.Data) > 0 {
		req.Body = io.NopCloser(bytes.NewReader(x.v.Data))
	}
	if x.conn == x.raw {
		req.Header.Set("Proxy-Authorization", x.auth)
	}
	return req
}

// send writes the request while the answer is waited for: a host may answer
// before it has read all of it, and take the rest when its answer is read.
func (x *exchange) send(req *http.Request, toProxy bool) {
	x.wrote, x.passed = make(chan struct{}), true
	go func() {
		defer close(x.wrote)
		// What went wrong shows in the answer.
		if toProxy {
			_ = req.WriteProxy(x.conn)
		} else {
			_ = req.Write(x.conn)
		}
	}()
}

// errLongHead means that the header of a response is too long.
var errLongHead = errors.New("the head of the answer is longer than 64 KiB")

// head reads the head of the answer. Interim answers are passed over.
func (x *exchange) head(req *http.Request) (*http.Response, error) {
	bounded := &io.LimitedReader{R: x.conn, N: maxHead}
	br := bufio.NewReader(bounded)
	for {
		resp, err := http.ReadResponse(br, req)
		switch {
		case err != nil && bounded.N <= 0:
			return nil, errLongHead
		case err != nil:
			return nil, err
		case resp.ProtoMajor != 1:
			return nil, errors.New("the answer is of another version of HTTP")
		case resp.StatusCode == http.StatusSwitchingProtocols:
			return nil, errors.New("the host changed the protocol without being asked")
		case resp.StatusCode < 100 || resp.StatusCode > 599:
			return nil, errors.New("the answer has a status that there is not")
		case resp.StatusCode >= 200:
			bounded.N = math.MaxInt64
			return resp, nil
		}
	}
}
