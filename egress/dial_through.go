package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// maxProxyAnswerHead bounds the head of a proxy's response.
const maxProxyAnswerHead = 16 << 10

// A proxyError is an error of an upstream proxy. It contains no credentials.
type proxyError struct {
	why string
	err error
}

func (e *proxyError) Error() string { return "the upstream proxy " + e.why }
func (e *proxyError) Unwrap() error { return e.err }

// through connects to a vetted address through the proxy.
func (r *Dialer) through(ctx context.Context, p *upstreamProxy, to netip.AddrPort) (net.Conn, error) {
	conn, err := r.toProxy(ctx, p)
	if err != nil {
		return nil, err
	}
	// An ended ctx interrupts the wait for the proxy.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	asked, err := p.ask(ctx, conn, to)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = conn.Close()
		if ctx.Err() != nil {
			return nil, &proxyError{"did not answer in time", errors.Join(context.Cause(ctx), err)}
		}
		return nil, err
	}
	return asked, nil
}

// toProxy connects to the proxy itself. The orchestrator's configuration names
// it, so its addresses are not judged.
func (r *Dialer) toProxy(ctx context.Context, p *upstreamProxy) (net.Conn, error) {
	addrs := []netip.Addr{}
	if a, ok := p.host.Addr(); ok {
		addrs = append(addrs, a)
	} else if found, err := r.lookup(ctx, p.host.String()); err != nil || len(found) == 0 {
		return nil, &proxyError{"cannot be looked up", err}
	} else {
		addrs = found
	}
	targets := make([]netip.AddrPort, len(addrs))
	for i, a := range addrs {
		targets[i] = netip.AddrPortFrom(a.Unmap(), p.port)
	}
	conn, _, err := race(ctx, order(targets), r.direct)
	if err != nil {
		return nil, &proxyError{"cannot be reached", err}
	}
	return conn, nil
}

// ask has the proxy connect conn to the address, and returns the connection
// to use: conn, or TLS on it.
func (p *upstreamProxy) ask(ctx context.Context, conn net.Conn, to netip.AddrPort) (net.Conn, error) {
	if p.scheme == "socks5" {
		return conn, p.socks(conn, to)
	}
	if p.scheme == "https" {
		secure := tls.Client(conn, &tls.Config{
			ServerName: p.host.String(), RootCAs: p.roots, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		})
		if err := secure.HandshakeContext(ctx); err != nil {
			return nil, &proxyError{"could not prove who it is", err}
		}
		conn = secure
	}
	return conn, p.connect(conn, to)
}

// connect performs the CONNECT handshake.
func (p *upstreamProxy) connect(conn net.Conn, to netip.AddrPort) error {
	head := "CONNECT " + to.String() + " HTTP/1.1\r\nHost: " + to.String() + "\r\n"
	if p.login {
		head += "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(p.user+":"+p.pass)) + "\r\n"
	}
	if _, err := io.WriteString(conn, head+"\r\n"); err != nil {
		return &proxyError{"ended the connection", err}
	}
	answer, err := readHead(conn)
	if err != nil {
		return err
	}
	line, _, _ := strings.Cut(string(answer), "\n")
	return judgeStatus(strings.TrimSuffix(line, "\r"))
}

// readHead reads up to the empty line and not a byte more: the next bytes are
// from the host.
func readHead(conn net.Conn) ([]byte, error) {
	var head []byte
	var b [1]byte
	for {
		if _, err := io.ReadFull(conn, b[:]); err != nil {
			return nil, &proxyError{"ended the connection instead of answering", err}
		}
		head = append(head, b[0])
		switch {
		case len(head) <= len("HTTP/1.") && !strings.HasPrefix("HTTP/1.", string(head)):
			return nil, &proxyError{why: "does not speak HTTP"}
		case bytes.HasSuffix(head, []byte("\n\r\n")), bytes.HasSuffix(head, []byte("\n\n")):
			return head, nil
		case len(head) >= maxProxyAnswerHead:
			return nil, &proxyError{why: "answers without an end"}
		}
	}
}

// judgeStatus checks the status line of the answer to CONNECT.
func judgeStatus(line string) error {
	version, rest, _ := strings.Cut(line, " ")
	code, reason, _ := strings.Cut(rest, " ")
	status, err := strconv.Atoi(code)
	switch {
	case err != nil || len(code) != 3 || status < 100 || version != "HTTP/1.0" && version != "HTTP/1.1":
		return &proxyError{why: "does not speak HTTP"}
	case status/100 == 2:
		return nil
	case status == 407:
		return &proxyError{why: "wants other credentials (407)"}
	}
	return &proxyError{why: fmt.Sprintf("refused with %d %s", status, quoted(reason))}
}

// quoted returns received text quoted where needed, and shortened.
func quoted(s string) string {
	if len(s) > 80 {
		return strconv.QuoteToASCII(s[:80]) + "..."
	}
	return strconv.QuoteToASCII(s)
}
