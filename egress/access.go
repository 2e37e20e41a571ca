package egress

import (
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// maxPath is the maximum length of a path in an Event.
const maxPath = 512

// An access is one request or tunnel, from its decision to its end.
type access struct {
	session *Session
	event   Event
	began   time.Time
	decided bool
	passes  bool             // it was allowed, and the decision is recorded
	barred  network.Decision // why it is refused although it was allowed
	conn    net.Conn         // the program's end
	span    *sandbox.Span    // nil where no trace is recorded
}

// newAccess starts an access. If host has no canonical form, the caller has quoted
// it.
func (s *Session) newAccess(caller string, p Protocol, method, host string, port uint16, path string) *access {
	path, _, _ = strings.Cut(path, "?")
	v := &access{session: s, began: s.plane.o.Now(), event: Event{
		ID: s.plane.ids.Add(1), Sandbox: s.o.Sandbox, Caller: caller, Protocol: p,
		Method: printable(method, 32), Host: host, Port: port, Path: printable(path, maxPath),
	}}
	if parent := s.callers.spanOf(caller); parent != nil {
		v.trace(parent)
	}
	return v
}

// newAccess starts an access of the client's connection.
func (c *client) newAccess(p Protocol, method, host string, port uint16, path string) *access {
	v := c.session.newAccess(c.caller, p, method, host, port, path)
	v.conn = c.raw
	return v
}

// decide records the decision, and reports whether the access may pass. Only
// the first decision counts: an allowed access that fails later has an end.
func (v *access) decide(d network.Decision) bool {
	if v.decided {
		return v.passes
	}
	v.decided = true
	if d.Verdict == policy.Allow {
		if no := v.session.crossings.enter(v, d); no != nil {
			v.barred = *no
			d = v.barred
		}
	}
	if d.Verdict == policy.Allow {
		if err := v.session.plane.o.Decide(v.decision(d)); err != nil {
			v.barred = network.Decision{Verdict: policy.Deny, Rule: "requireEvidence", Message: "what passes has to be on record, and cannot be put there", Hint: "look for a full disk at the state folder"}
			d = v.barred
			v.session.crossings.leave(v)
		}
	}
	e := v.decision(d)
	v.event.Verdict, v.event.Rule, v.event.Message = e.Verdict, e.Rule, e.Message
	c := &v.session.plane.counts
	if v.passes = e.Verdict == policy.Allow; v.passes {
		c.allowed.Add(1)
		v.session.callers.passed(e)
		return true
	}
	c.refused.Add(1)
	v.session.callers.refused(e)
	v.session.plane.o.Record(e)
	v.traceRefused()
	return false
}

// decision returns the event of d. A question without an answer is a refusal.
func (v *access) decision(d network.Decision) Event {
	e := v.event
	e.Phase, e.Time = PhaseDecision, v.session.plane.o.Now()
	e.Verdict, e.Rule, e.Message, e.Hint = policy.Deny, printable(d.Rule, 300), printable(d.Message, 500), printable(d.Hint, 500)
	if d.Verdict == policy.Allow {
		e.Verdict, e.Hint = policy.Allow, ""
	}
	return e
}

// refuse records the decision with its address, if there is one.
func (v *access) refuse(d network.Decision, addr netip.AddrPort) {
	v.event.Addr = addr
	v.decide(d)
}

// An ending is the result of an access.
type ending struct {
	status  int
	in, out int64
	err     string
}

// end records the end of an allowed access. A refused one has none.
func (v *access) end(x ending) {
	v.session.crossings.leave(v)
	if v.decided && !v.passes {
		return
	}
	c := &v.session.plane.counts
	c.bytesIn.Add(x.in)
	c.bytesOut.Add(x.out)
	if x.err != "" {
		c.failed.Add(1)
	}
	e := v.event
	e.Phase, e.Time = PhaseEnd, v.session.plane.o.Now()
	e.Status, e.BytesIn, e.BytesOut, e.Error = x.status, x.in, x.out, printable(x.err, 300)
	e.Duration = e.Time.Sub(v.began)
	v.session.callers.passed(e)
	v.session.plane.o.Record(e)
	v.traceEnded(e)
}
