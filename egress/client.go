package egress

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// A client is one connection from inside.
type client struct {
	ctx     context.Context
	session *Session
	raw     net.Conn // as it was accepted
	line    *line
	caller  string // id of the command that its credentials named last

	waited time.Duration // queueing time, until it is attributed to a command

	requests int // requests that were decided or malformed
}

func newClient(ctx context.Context, w *Session, conn net.Conn) *client {
	c := &counted{Conn: conn, meter: w.meter, idle: w.meter.Limits().Idle}
	return &client{ctx: ctx, session: w, raw: conn, line: newLine(c, c)}
}

// of attributes the connection's queueing time to the command with that id, if
// there is one.
func (c *client) of(id string) {
	if c.waited > 0 && c.session.callers.waited(id, c.waited) {
		c.waited = 0
	}
}

// serve detects the program's protocol, and serves it.
func (c *client) serve() {
	c.line.bottom.within(c.session.headTime())
	first, err := c.line.br.Peek(1)
	if err != nil {
		return
	}
	if first[0] == socksProtocol {
		c.serveSOCKS()
		return
	}
	c.serveHTTP(c.line, scope{})
}

// serveSOCKS performs the handshake and opens the tunnel.
func (c *client) serveSOCKS() {
	q, err := readSocks(c.line.br, c.line.conn)
	c.caller = c.session.callers.known(q.User, q.Password)
	c.of(c.caller)
	if err != nil {
		var bad *socksError
		if !errors.As(err, &bad) {
			return
		}
		v := c.newAccess(ProtocolSOCKS5, "", hostText(q.Host), q.Port, "")
		v.decide(network.Decision{Verdict: policy.Deny, Rule: "request", Message: bad.Reason})
		if bad.Asked {
			answerSocks(c.line.conn, bad.Reply)
		}
		linger(c.raw)
		return
	}
	c.tunnel(&target{host: q.Host, port: q.Port, protocol: ProtocolSOCKS5, answer: c.answerSOCKS})
}

// answerSOCKS answers the request for a tunnel; nil says that it is open.
func (c *client) answerSOCKS(r *refusal) {
	code := socksSucceeded
	if r != nil {
		switch r.status {
		case 403:
			code = notAllowed
		case 502, 504:
			code = hostUnreachable
		default:
			code = socksFailed
		}
	}
	answerSocks(c.line.conn, code)
}

// A scope is the fixed destination of requests on a line. The zero scope is
// the proxy's own port, where each request names its host.
type scope struct {
	fixed  bool // every request goes to this host
	host   network.Host
	port   uint16
	secure bool // the requests were read inside TLS
	yes    yes  // approval for the host, if there was one
}

// serveHTTP serves requests until the program or a request ends the line.
func (c *client) serveHTTP(l *line, s scope) {
	for first := true; ; first = false {
		if !first { // the next request may start after the idle time
			l.bottom.within(c.line.bottom.idle)
			busy, ok := func() {}, true
			if l.br.Buffered() == 0 {
				busy, ok = c.session.resting(c.raw)
			}
			if !ok {
				return
			}
			_, err := l.br.Peek(1)
			busy()
			if err != nil {
				return
			}
		}
		l.bottom.within(c.session.headTime())
		h, err := l.head()
		l.bottom.within(0)
		var req *http.Request
		if err == nil {
			err = s.check(h)
		}
		if err == nil {
			req, err = readRequest(l, h)
		}
		if err != nil {
			c.malformed(l, s, h, err)
			return
		}
		if field := req.Header.Get("Proxy-Authorization"); field != "" && !s.fixed {
			c.caller = c.session.callers.basic(field)
			c.of(c.caller)
		}
		if h.Form == requestAuthority {
			c.tunnel(&target{host: h.Host, port: h.Port, protocol: ProtocolConnect, answer: c.answerConnect})
			return
		}
		if !c.exchange(l, s, h, req) {
			return
		}
	}
}

// check compares a head with the scope.
func (s scope) check(h requestHead) error {
	switch {
	case !s.fixed && h.Form == requestOrigin:
		return &requestError{Status: 400, Reason: "this is a proxy: the request has to name its host in a URL of http"}
	case !s.fixed:
		return nil
	case h.Form != requestOrigin:
		return &requestError{Status: 400, Reason: "within a tunnel a request names a path and nothing else"}
	case h.Host.IsZero():
		return nil // HTTP/1.0 without a Host; a Host is added
	}
	port := h.Port
	if port == 0 {
		port = s.defaultPort()
	}
	if h.Host != s.host || port != s.port {
		return &requestError{Status: 400, Reason: "the Host field differs from the host of the tunnel"}
	}
	return nil
}

func (s scope) defaultPort() uint16 {
	if s.secure {
		return 443
	}
	return 80
}

// readRequest has net/http parse and consume the head that was judged.
func readRequest(l *line, h requestHead) (*http.Request, error) {
	req, err := http.ReadRequest(l.br)
	if err != nil {
		return nil, &requestError{Status: 400, Reason: "the head of the request is malformed"}
	}
	if req.Method != h.Method || req.ContentLength != h.Length || req.ProtoMinor != h.Minor {
		return nil, &requestError{Status: 400, Reason: "the head of the request can be read in two ways"}
	}
	return req, nil
}

// malformed answers an invalid request, and ends the line.
func (c *client) malformed(l *line, s scope, h requestHead, err error) {
	var bad *requestError
	switch {
	case errors.As(err, &bad):
	case timedOut(err):
		bad = &requestError{Status: 408, Reason: "the head of the request took too long"}
	default:
		return // the program hung up
	}
	c.requests++
	host, port := h.Host, h.Port
	if s.fixed {
		host, port = s.host, s.port
	}
	v := c.newAccess(s.protocol(), h.Method, hostText(host), port, h.Path)
	v.decide(network.Decision{Verdict: policy.Deny, Rule: "request", Message: bad.Reason})
	c.say(l, refusal{bad.Status, "request", bad.Reason, ""}, true, h.Method == "HEAD")
	c.bye(l)
}

func (s scope) protocol() Protocol {
	if s.secure {
		return ProtocolIntercepted
	}
	return ProtocolHTTP
}

// say sends the proxy's own response. It is not metered, because it has to be
// sent also when the limits are used up.
func (c *client) say(l *line, r refusal, closes, head bool) error {
	l.bottom.metered(false)
	defer l.bottom.metered(true)
	_, err := l.conn.Write(r.bytes(closes, head))
	return err
}

// bye ends a line so that the program can read the last response.
func (c *client) bye(l *line) {
	if l.conn != net.Conn(l.bottom) {
		closeWrite(l.conn) // the close_notify of TLS
	}
	linger(c.raw)
}

// A yes is an approval for a host, kept for the duration of a connection; the
// zero yes is none.
type yes struct{ decision network.Decision }

// judge decides a request, and asks for approval if the policy requires it.
func (c *client) judge(ctx context.Context, r network.Request, method string, said *yes) network.Decision {
	return c.settle(ctx, c.session.crossings.barred(c.session.o.Policy.JudgeRequest(r), r.Host, r.Port), r.Host, r.Port, method, said)
}

// settle turns a decision to ask into an allow or deny. After one approval it
// asks no more.
func (c *client) settle(ctx context.Context, d network.Decision, h network.Host, port uint16, method string, said *yes) network.Decision {
	if d.Verdict != policy.Ask {
		return d
	}
	if said.decision.Verdict == policy.Allow {
		return said.decision
	}
	d = c.session.asker.decide(ctx, d, Question{Caller: c.caller, Host: h.String(), Port: port, Method: method, Reason: d.Message})
	if d.Verdict == policy.Allow {
		said.decision = d
	}
	return d
}

// dialJudge judges the addresses of a host.
func (s *Session) dialJudge(h network.Host) func(netip.Addr, uint16) network.Decision {
	return func(a netip.Addr, port uint16) network.Decision { return s.o.Policy.JudgeDial(h, a, port) }
}

// hostText returns the host as events contain it; empty if there is none.
func hostText(h network.Host) string {
	if h.IsZero() {
		return ""
	}
	return h.String()
}

// discard reads the rest of a body, and reports false if it is too long.
func discard(body io.Reader) bool {
	n, err := io.CopyN(io.Discard, body, 64<<10)
	return n < 64<<10 && errors.Is(err, io.EOF)
}
