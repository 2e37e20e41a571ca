package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox/policy/network"
)

// A dialled is an outgoing connection with the address of its host, which
// differs from the remote address if there is an upstream proxy.
type dialled struct {
	net.Conn
	addr netip.AddrPort
}

// maxAnswerHead bounds the head of a host's response.
const maxAnswerHead = 256 << 10

// newTransport returns the transport for requests of one sandbox. Its
// connections are kept, but never shared with another sandbox.
func (s *Session) newTransport() *http.Transport {
	return &http.Transport{
		DialContext:            s.dial,
		DialTLSContext:         s.dialTLS,
		DisableCompression:     true,
		MaxIdleConns:           64,
		MaxIdleConnsPerHost:    16,
		IdleConnTimeout:        min(90*time.Second, s.meter.Limits().Idle),
		MaxResponseHeaderBytes: maxAnswerHead,
	}
}

// An ownKey is the context key of the exchange's own context. The transport
// continues dials of abandoned requests, which a program could accumulate
// without limit by disconnecting.
type ownKey struct{}

// dial connects to a host for the transport.
func (s *Session) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	h, port, err := network.ParseTarget(addr)
	if err != nil {
		return nil, err
	}
	ctx, done := owned(ctx)
	defer done()
	conn, at, err := s.plane.o.Dialer.Dial(ctx, h, port, s.dialJudge(h))
	if err != nil {
		return nil, err
	}
	return &dialled{conn, at}, nil
}

// dialTLS is dial for a host that a secret is bound to.
func (s *Session) dialTLS(ctx context.Context, _, addr string) (net.Conn, error) {
	h, _, err := network.ParseTarget(addr)
	if err != nil {
		return nil, err
	}
	ctx, done := owned(ctx)
	defer done()
	conn, err := s.dial(ctx, "", addr)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, headTime)
	defer cancel()
	over := tls.Client(conn, s.outerTLS(h.String()))
	if err := over.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return over, nil
}

// owned returns ctx, ended also when its exchange ends.
func owned(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	own, ok := ctx.Value(ownKey{}).(context.Context)
	if !ok {
		return ctx, func() { cancel(nil) }
	}
	stop := context.AfterFunc(own, func() { cancel(context.Cause(own)) })
	return ctx, func() { stop(); cancel(nil) }
}

// outerTLS returns the TLS configuration for hosts of secrets.
func (s *Session) outerTLS(name string) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: s.roots, ServerName: name, NextProtos: []string{"http/1.1"}}
}

// outgoing returns the request to send for the request that was read.
func (x *exchange) outgoing(ctx context.Context) (*http.Request, error) {
	scheme := "http"
	if x.scope.secure {
		scheme = "https"
	}
	u, err := exactURL(x.head.Path)
	if err != nil {
		return nil, err
	}
	u.Scheme, u.Host = scheme, x.host.Target(x.port)
	out := &http.Request{
		Method: x.head.Method, URL: u, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: x.req.Header, Host: x.hostField(), ContentLength: x.head.Length, Trailer: x.body.announce(x.req.Trailer),
		Body: x.body,
	}
	if x.head.Length == 0 {
		out.Body = http.NoBody
	}
	x.body.expects = x.waits() && x.head.Length != 0
	dropHops(out.Header)
	out.Header.Del("Expect")
	if x.bound { // encoded or partial responses cannot be searched for the secret
		out.Header.Set("Accept-Encoding", "identity")
		out.Header.Del("Range")
		out.Header.Del("If-Range")
		// net/http logs bytes that follow a response without a body, which may
		// contain the secret.
		out.Close = x.head.Method == http.MethodHead
	}
	if _, ok := out.Header["User-Agent"]; !ok {
		out.Header["User-Agent"] = []string{""} // net/http would add its own
	}
	return out.WithContext(ctx), nil
}

// hostField returns the Host field to send: the host that was judged.
func (x *exchange) hostField() string {
	target := x.host.Target(x.port)
	if x.port == x.scope.defaultPort() {
		return strings.TrimSuffix(target, fmt.Sprintf(":%d", x.port))
	}
	return target
}

// exactURL returns a URL whose path net/http sends byte for byte as it was
// judged.
func exactURL(path string) (*url.URL, error) {
	if u, err := url.ParseRequestURI(path); err == nil && u.Host == "" && u.RequestURI() == path {
		return u, nil
	}
	opaque, query, has := strings.Cut(path, "?")
	u := &url.URL{Opaque: opaque, RawQuery: query, ForceQuery: has}
	if u.RequestURI() != path {
		return nil, &requestError{Status: 400, Reason: "the path can be read in two ways"}
	}
	return u, nil
}

// forward sends the request and relays the response.
func (x *exchange) forward(d network.Decision) {
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if at := addrOf(info.Conn); at.IsValid() {
			x.access.event.Addr = at
		}
		if !x.access.decide(d) {
			info.Conn.Close() // unused for this request
		}
	}}
	out, err := x.outgoing(context.WithValue(httptrace.WithClientTrace(x.own, trace), ownKey{}, x.own))
	if err != nil {
		x.access.decide(d)
		x.end(400, err)
		x.answer(refusal{400, "request", err.Error(), ""})
		return
	}
	whole, err := x.gather(out)
	if err != nil {
		x.failed(d, err)
		return
	}
	stop := func() {}
	if whole {
		stop = x.line.watch(x.hungUp)
	}
	resp, err := x.session.transport.RoundTrip(out)
	stop()
	if err == nil && resp.StatusCode == http.StatusSwitchingProtocols {
		resp.Body.Close()
		err = errors.New("the host changed the protocol without being asked")
	}
	if err != nil {
		x.failed(d, err)
		return
	}
	x.relay(resp)
}

// gathered is the longest body that is read completely before it is sent.
const gathered = 32 << 10

// gather reads a short body, so that the transport can resend the request if
// the host closed a kept connection. It reports whether the request is read
// completely.
func (x *exchange) gather(out *http.Request) (whole bool, err error) {
	if x.head.Length == 0 {
		return true, nil
	}
	if x.head.Length < 0 || x.head.Length > gathered || x.waits() {
		return false, nil
	}
	b := make([]byte, x.head.Length)
	if _, err := io.ReadFull(x.body, b); err != nil {
		return false, err
	}
	out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }
	out.Body, err = out.GetBody()
	return true, err
}

// addrOf returns the host address of one of the transport's connections.
func addrOf(conn net.Conn) netip.AddrPort {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	if d, ok := conn.(*dialled); ok {
		return d.addr
	}
	return netip.AddrPort{}
}
