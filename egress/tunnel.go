package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"

	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// A target is the destination of a tunnel.
type target struct {
	host     network.Host
	port     uint16
	protocol Protocol
	answer   func(*refusal) // answers the request for the tunnel; nil opens it
	yes      yes
}

// method returns the name of the tunnel request in questions and events.
func (t *target) method() string {
	if t.protocol == ProtocolSOCKS5 {
		return "SOCKS5"
	}
	return "CONNECT"
}

// answerConnect responds to a CONNECT.
func (c *client) answerConnect(r *refusal) {
	if r != nil {
		c.say(c.line, *r, true, false)
		return
	}
	c.line.conn.Write([]byte("HTTP/1.1 200 Connection established\r\n\r\n"))
}

// tunnel serves a CONNECT of HTTP or SOCKS5 to its end.
func (c *client) tunnel(t *target) {
	v := c.newAccess(t.protocol, t.method(), t.host.String(), t.port, "")
	first := c.first(t)
	if first.Verdict != policy.Allow {
		c.turnDown(v, t, denied(first), first, netip.AddrPort{})
		return
	}
	if c.session.bound(t.host, t.port) {
		t.answer(nil)
		c.intercept(v, t, first)
		return
	}
	raw := c.session.o.Policy.JudgeRequest(network.Request{Host: t.host, Port: t.port, Protocol: network.Raw})
	outside, addr, err := c.session.plane.o.Dialer.Dial(c.ctx, t.host, t.port, c.session.dialJudge(t.host))
	if err != nil {
		c.unreached(v, t, first, err)
		return
	}
	defer outside.Close()
	v.event.Addr = addr
	if raw.Verdict == policy.Allow {
		if !v.decide(raw) {
			c.turnDown(v, t, denied(v.barred), v.barred, addr)
			return
		}
		t.answer(nil)
		c.pump(v, outside)
		return
	}
	t.answer(nil)
	c.converse(v, t, first, outside)
}

// first judges the host alone, before anything is looked up.
func (c *client) first(t *target) network.Decision {
	d := c.session.crossings.barred(c.session.o.Policy.Judge(t.host, t.port), t.host, t.port)
	if d.Verdict != policy.Ask {
		return d
	}
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	stop := c.line.watch(cancel)
	defer stop()
	return c.settle(ctx, d, t.host, t.port, t.method(), &t.yes)
}

// turnDown refuses the tunnel.
func (c *client) turnDown(v *access, t *target, r refusal, d network.Decision, addr netip.AddrPort) {
	v.refuse(d, addr)
	t.answer(&r)
	linger(c.raw)
}

// unreached answers a tunnel whose host could not be dialled.
func (c *client) unreached(v *access, t *target, d network.Decision, err error) {
	r, refused, addr := explain(err)
	if refused != nil {
		c.turnDown(v, t, r, *refused, addr)
		return
	}
	v.event.Addr = addr
	v.decide(d)
	v.end(ending{err: r.message})
	t.answer(&r)
	linger(c.raw)
}

// converse detects the program's protocol in an open tunnel, and decides by
// it.
func (c *client) converse(v *access, t *target, first network.Decision, outside net.Conn) {
	said, ok := c.hear(v, t, first)
	if !ok {
		return
	}
	switch said {
	case network.TLS:
		if !c.named(v, t) {
			return
		}
	case network.HTTP:
		outside.Close() // requests use connections of their own
		c.line.bottom.metered(true)
		if c.serveHTTP(c.line, t.scope(false)); c.requests == 0 { // the host was connected to nevertheless
			v.decide(first)
			v.end(ending{err: "the program hung up before it had said anything whole"})
		}
		return
	}
	d := c.judge(c.ctx, network.Request{Host: t.host, Port: t.port, Protocol: said}, t.method(), &t.yes)
	switch {
	case v.decide(d):
		c.pump(v, outside)
	case said == network.TLS:
		c.alert()
	}
}

// scope returns the scope of requests in the tunnel.
func (t *target) scope(secure bool) scope {
	return scope{fixed: true, host: t.host, port: t.port, secure: secure, yes: t.yes}
}

// hear waits for the program's first bytes. If it sends none, the protocol may
// be one in which the server speaks first, which needs a rule for raw bytes.
func (c *client) hear(v *access, t *target, first network.Decision) (network.Protocol, bool) {
	c.line.bottom.metered(false) // metered by its next user
	c.line.bottom.within(c.session.headTime())
	said, err := c.line.hear()
	c.line.bottom.within(0)
	switch {
	case err == nil:
		return said, true
	case timedOut(err):
		v.decide(network.Decision{
			Verdict: policy.Deny, Rule: "protocol",
			Message: "the program said nothing to " + t.host.Target(t.port) + ", so that it is not known what protocol it speaks",
			Hint:    "have network.allowedDomains name tcp://" + t.host.Target(t.port),
		})
	default:
		v.decide(first)
		v.end(ending{err: "the program hung up before it said anything"})
	}
	return "", false
}

// named compares the server name of the program's TLS with the target, and
// refuses a mismatch.
func (c *client) named(v *access, t *target) bool {
	d := network.Decision{Verdict: policy.Deny, Rule: "tls", Message: "the TLS that the program begins with is malformed"}
	c.line.bottom.within(c.session.headTime())
	h, err := peekHello(c.line.larger(helloBufferSize))
	c.line.bottom.within(0)
	if err == nil {
		d = fits(h, t.host)
	}
	if d.Verdict != policy.Allow {
		v.decide(d)
		c.alert()
		return false
	}
	return true
}

// fits compares the name in a hello with the host of the tunnel.
func fits(h hello, host network.Host) network.Decision {
	_, literal := host.Addr()
	if h.ServerName == "" {
		if literal {
			return network.Decision{Verdict: policy.Allow}
		}
		return network.Decision{Verdict: policy.Deny, Rule: "sni",
			Message: "the TLS to " + host.String() + " names no server", Hint: "use a program that sends the server's name (SNI)"}
	}
	if named, err := network.Canonical(h.ServerName); err != nil || named != host {
		return network.Decision{Verdict: policy.Deny, Rule: "sni",
			Message: "the TLS to " + host.String() + " names another server: " + printable(h.ServerName, 100),
			Hint:    "connect to the host that the TLS names"}
	}
	return network.Decision{Verdict: policy.Allow}
}

// alert sends a TLS client the alert "access denied".
func (c *client) alert() {
	const alert, fatal, accessDenied = 21, 2, 49
	c.line.conn.Write([]byte{alert, 3, 1, 0, 2, fatal, accessDenied})
	linger(c.raw)
}

// pump copies the bytes of the tunnel to its end.
func (c *client) pump(v *access, outside net.Conn) {
	first := c.line.rest()
	c.line.bottom.clear()
	in, out, err := pumpPair{Inside: c.raw, Outside: outside, First: first, Meter: c.session.meter}.Run(c.ctx)
	v.end(ending{in: in, out: out, err: errText(err)})
}

// errText returns the text of an error for an event, in this module's words.
func errText(err error) string {
	var op *net.OpError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &op):
		return op.Err.Error()
	}
	return err.Error()
}
