package egress

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// bound reports whether a secret is bound to the host at the port.
func (s *Session) bound(h network.Host, port uint16) bool {
	return s.o.Secrets != nil && s.o.Secrets.Bound(h, port)
}

// intercept serves an open tunnel to a host with a secret: it reads the
// requests, inside TLS or plain. Nothing else passes to such a host.
func (c *client) intercept(v *access, t *target, first network.Decision) {
	said, ok := c.hear(v, t, first)
	if !ok {
		return
	}
	switch said {
	case network.TLS:
		c.interceptTLS(v, t, first)
	case network.HTTP:
		c.line.bottom.metered(true)
		c.serveHTTP(c.line, t.scope(false))
	default:
		v.decide(network.Decision{
			Verdict: policy.Deny, Rule: "secret",
			Message: "a secret is bound to " + t.host.Target(t.port) + ", so that only HTTP passes, over TLS or plain",
		})
	}
}

// interceptTLS terminates the program's TLS in the host's place.
func (c *client) interceptTLS(v *access, t *target, first network.Decision) {
	if !c.named(v, t) {
		return
	}
	leaf, err := c.session.o.Authority.Leaf(t.host.String())
	if err != nil {
		v.decide(first)
		v.end(ending{err: "there is no certificate for " + t.host.String()})
		c.alert()
		return
	}
	c.line.bottom.metered(true)
	c.line.bottom.within(c.session.headTime())
	over := tls.Server(&buffered{c.line.bottom, c.line.br}, &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, Certificates: []tls.Certificate{*leaf},
	})
	ctx, cancel := context.WithTimeout(c.ctx, c.session.headTime())
	defer cancel()
	if err := over.HandshakeContext(ctx); err != nil {
		v.decide(first)
		v.end(ending{err: "the program did not take the certificate of the proxy, or ended the TLS for another reason"})
		return
	}
	c.serveHTTP(newLine(over, c.line.bottom), t.scope(true))
	over.CloseWrite()
}

// A buffered is a connection with bytes already read into a buffer.
type buffered struct {
	net.Conn
	br *bufio.Reader
}

// Read implements io.Reader.
func (b *buffered) Read(p []byte) (int, error) { return b.br.Read(p) }

// fill puts secrets into the request. It returns false if it refused the
// request.
func (x *exchange) fill() bool {
	if !x.bound {
		return true
	}
	d := network.Decision{Verdict: policy.Deny, Rule: "secret"}
	span := x.access.span.Child(spanSecret, sandbox.SpanInternal)
	names, err := x.session.o.Secrets.Swap(x.ctx, x.host, x.port, x.scope.secure, x.req.Header)
	span.String("sandbox.secret.names", strings.Join(names, " "))
	span.EndWith(err)
	switch {
	case err != nil:
		d.Message, d.Hint = "a secret for "+x.host.String()+" cannot be had", "have the operator look at its source"
		r := denied(d) // the cause is not sent inside: it may name files of the host
		var e *sandbox.Error
		if errors.As(err, &e) {
			d.Message, d.Hint = d.Message+": "+e.Message, e.Hint
		}
		x.refuse(r, d, netip.AddrPort{})
		return false
	case x.head.Method == http.MethodTrace:
		d.Message, d.Hint = "TRACE would have the secret sent back", "use another method"
	case len(names) > 0 && upgrades(x.req):
		d.Message, d.Hint = "a websocket cannot be searched for the secret that it was opened with", "use requests instead"
	default:
		x.access.event.Secrets = names
		return true
	}
	x.refuse(denied(d), d, netip.AddrPort{})
	return false
}

// scrub removes the secrets from a response. A response that is encoded
// although that was not requested is decoded first.
func (x *exchange) scrub(resp *http.Response) error {
	secrets := x.session.o.Secrets
	secrets.ScrubHeader(resp.Header)
	resp.Status = secrets.ScrubString(resp.Status)
	if x.bodyless(resp) {
		return nil
	}
	body, err := decoded(resp)
	if err != nil {
		return err
	}
	resp.Header.Del("Content-Length")
	resp.Header.Del("Content-Encoding")
	resp.ContentLength = -1
	resp.Body = &scrubbed{searched(secrets, body), resp.Body}
	return nil
}

// A scrubbed reads scrubbed data and closes its source.
type scrubbed struct {
	io.Reader
	io.Closer
}

// decoded returns the decoded body.
func decoded(resp *http.Response) (io.Reader, error) {
	body := resp.Body // resp.Body is replaced before this is read
	encoding := strings.ToLower(strings.TrimSpace(strings.Join(resp.Header["Content-Encoding"], ",")))
	switch encoding {
	case "", "identity":
		return body, nil
	case "gzip", "x-gzip":
		return &late{open: func() (io.Reader, error) { return gzip.NewReader(body) }}, nil
	case "deflate":
		return &late{open: func() (io.Reader, error) { return inflate(body) }}, nil
	}
	return nil, errors.New("the host encoded its answer in a way that cannot be searched for the secret")
}

// inflate decodes what HTTP calls deflate: zlib, or, from some servers, raw
// deflate.
func inflate(r io.Reader) (io.Reader, error) {
	br := bufio.NewReader(r)
	if b, _ := br.Peek(2); len(b) == 2 && b[0]&0x0f == 8 && (int(b[0])<<8|int(b[1]))%31 == 0 {
		return zlib.NewReader(br)
	}
	return flate.NewReader(br), nil
}

// A late reader is opened at its first read, as opening waits for bytes.
type late struct {
	open func() (io.Reader, error)
	r    io.Reader
	err  error
}

// Read implements io.Reader.
func (l *late) Read(p []byte) (int, error) {
	if l.r == nil && l.err == nil {
		l.r, l.err = l.open()
	}
	if l.err != nil {
		return 0, l.err
	}
	return l.r.Read(p)
}
