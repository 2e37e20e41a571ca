package egress

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// An exchange is one request and its response.
type exchange struct {
	*client
	line   *line
	scope  scope
	head   requestHead
	req    *http.Request
	access *access
	body   *body
	host   network.Host
	port   uint16
	bound  bool  // a secret is bound to the host
	keep   bool  // the line may carry another request
	in     int64 // bytes of the response

	own    context.Context // context of this exchange alone
	cancel context.CancelCauseFunc
	still  *time.Timer // ends the exchange when nothing passes for too long
}

// Causes of an ended exchange.
var (
	errHungUp = errors.New("the program hung up")
	errIdle   = errors.New("nothing passed for too long")
)

// exchange serves one request. It reports whether the line can carry another.
func (c *client) exchange(l *line, s scope, h requestHead, req *http.Request) bool {
	c.requests++
	x := &exchange{client: c, line: l, scope: s, head: h, req: req, host: h.Host, port: h.Port}
	if s.fixed {
		x.host, x.port = s.host, s.port
	}
	x.own, x.cancel = context.WithCancelCause(c.ctx)
	defer x.cancel(nil)
	x.still = time.AfterFunc(l.bottom.idle, func() { x.cancel(errIdle) })
	defer x.still.Stop()
	x.bound = c.session.bound(x.host, x.port)
	x.keep = !req.Close && h.Minor == 1
	x.body = &body{x: x, limit: c.session.o.Limits.RequestBytes}
	x.access = c.newAccess(s.protocol(), h.Method, x.host.String(), x.port, h.Path)
	d := x.decide()
	switch {
	case d.Verdict != policy.Allow:
		x.refuse(denied(d), d, netip.AddrPort{})
	case x.tooLarge():
		d = network.Decision{Verdict: policy.Deny, Rule: "limits.requestBytes", Message: "the body of the request is larger than it may be", Hint: "send less"}
		x.refuse(refusal{413, d.Rule, d.Message, d.Hint}, d, netip.AddrPort{})
	case !x.fill():
	case upgrades(req):
		x.upgrade(d)
	default:
		x.forward(d)
	}
	x.body.stop()
	return x.keep
}

// decide judges the request.
func (x *exchange) decide() network.Decision {
	p := network.HTTP
	if x.scope.secure {
		p = network.TLS
	}
	r := network.Request{Host: x.host, Port: x.port, Protocol: p, Method: x.head.Method, Path: x.head.Path}
	d := x.session.o.Policy.JudgeRequest(r)
	if d.Verdict != policy.Ask {
		return d
	}
	x.still.Stop() // an approval may take longer than the idle time
	defer x.moved()
	stop := x.line.watch(x.hungUp)
	defer stop()
	said := x.scope.yes
	return x.settle(x.own, d, x.host, x.port, x.head.Method, &said)
}

// hungUp ends the exchange because the program has disconnected.
func (x *exchange) hungUp() { x.cancel(errHungUp) }

// moved resets the idle timer.
func (x *exchange) moved() { x.still.Reset(x.line.bottom.idle) }

func (x *exchange) tooLarge() bool {
	limit := x.session.o.Limits.RequestBytes
	return limit > 0 && x.head.Length > limit
}

// refuse records and sends a refusal. The line goes on if the request's body
// is short.
func (x *exchange) refuse(r refusal, d network.Decision, addr netip.AddrPort) {
	x.access.refuse(d, addr)
	x.answer(r)
}

// answer sends the proxy's own response.
func (x *exchange) answer(r refusal) {
	x.body.answering()
	x.line.bottom.within(lingerTime)
	whole := x.head.Length == 0 || !x.waits() && discard(x.body)
	x.line.bottom.within(0)
	x.keep = x.keep && whole
	if err := x.say(x.line, r, !x.keep, x.head.Method == http.MethodHead); err != nil {
		x.keep = false
	} else if !x.keep {
		x.bye(x.line)
	}
}

// waits reports whether the program waits for "100 Continue".
func (x *exchange) waits() bool {
	return x.head.Minor == 1 && strings.EqualFold(x.req.Header.Get("Expect"), "100-continue")
}

// failed answers an allowed request that got no response.
func (x *exchange) failed(d network.Decision, err error) {
	r, refused, addr := explain(err)
	if refused != nil {
		x.refuse(r, *refused, addr)
		return
	}
	if addr.IsValid() {
		x.access.event.Addr = addr
	}
	if !x.access.decide(d) {
		x.answer(denied(x.access.barred))
		return
	}
	_, ended := x.body.state()
	cause := context.Cause(x.own)
	switch {
	case errors.Is(ended, errTooLarge):
		x.end(413, ended)
		x.answer(refusal{413, "limits.requestBytes", ended.Error(), "send less"})
	case errors.Is(cause, errIdle):
		x.end(504, cause)
		x.answer(refusal{504, "reach", "the host did not answer in time", "try again later"})
	case cause != nil:
		x.keep = false
		x.end(0, cause)
	case ended != nil:
		x.keep = false
		x.end(0, errHungUp)
	default:
		x.end(r.status, errors.New(r.message))
		x.answer(r)
	}
}

// end records how the exchange ended, and stops reading the body.
func (x *exchange) end(status int, err error) {
	n, _ := x.body.state()
	x.access.end(ending{status: status, in: x.in, out: int64(x.head.Size) + n, err: errText(err)})
}
