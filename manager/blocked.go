package manager

import (
	"cmp"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/violation"
	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// A lookout keeps the end of what a command says, where the sandbox has rules
// against which it can be held.
type lookout struct {
	live *acquired
	dir  string
	tail *tail  // nil when nothing is looked for in it
	said *tail  // the output, where the error output is apart and hosts are looked for; or nil
	line string // the command as text

	unjudged bool // nothing counts as blocked

	refused []sandbox.Violation // what the proxy did not let it reach
}

// lookOut has the end of the error output of the command kept, which on a terminal is
// its only output, and where hosts are looked for that of its output, too. It returns
// what to run instead.
func lookOut(l *acquired, req Request) (*lookout, sandbox.Command) {
	c := req.Command
	o := &lookout{live: l, dir: l.spec.DirOf(c.Dir), unjudged: req.unjudged, line: cmp.Or(req.line, strings.Join(c.Args, " "))}
	if _, ok := l.Sandbox.(sandbox.Judge); !ok && !closed(l) || req.unjudged {
		return o, c
	}
	if c.TTY != nil {
		o.tail = keep(&c.Stdout, violation.MaxTail)
		return o, c
	}
	o.tail = keep(&c.Stderr, violation.MaxTail)
	if closed(l) { // Maven and its like say there which host they did not reach
		o.said = keep(&c.Stdout, violation.MaxStdout)
	}
	return o, c
}

// keep has the last most bytes of out kept.
func keep(out *io.Writer, most int) *tail {
	t := &tail{w: *out, most: most}
	if t.w == nil {
		t.w = io.Discard
	}
	*out = t
	return t
}

// judge fills in what rules had to do with the end of the command. One that
// ran out of time, or whose end is not known, is not blocked.
func (o *lookout) judge(p sandbox.Process, out *Outcome, now time.Time, ended bool) {
	e := violation.Ending{Exit: out.Exit, Dir: o.dir, At: now}
	var rules sandbox.Judge
	if ended && o.tail != nil {
		rules, _ = o.live.Sandbox.(sandbox.Judge)
		e.Stderr, e.Command = o.tail.end, o.line
		if closed(o.live) {
			e.Network = unreached(o.live.egress)
			if o.said != nil {
				e.Stdout = o.said.end
			}
		}
	}
	if w, ok := p.(sandbox.ViolationObserver); ok {
		e.Observed = w.Violations()
	}
	e.Observed = append(e.Observed, o.refused...)
	f := violation.Classify(rules, e)
	out.Violations = f.Violations
	if ended && !o.unjudged {
		out.Blocked, out.BlockedReason, out.BlockedResource, out.Causes = f.Blocked, f.Reason, f.Resource, f.Causes
	}
}

// closed reports whether a sandbox has no network of its own.
func closed(l *acquired) bool {
	return l.spec.Network == "none" && l.egressSessions != nil
}

// notProxied is the rule of a host that the rules allow and that a program has
// looked for without the proxy.
const notProxied = "proxy: the program has not asked the proxy of HTTP_PROXY, by which alone the host is reached"

// unreached returns what the rules say of a host that was not reached.
func unreached(r sandbox.EgressRules) func(host string, port uint16) (target, rule string, denied bool) {
	hosts := sync.OnceValue(func() *network.Policy {
		p, err := network.New(network.Options{
			Allowed: r.AllowedDomains, Denied: r.DeniedDomains, AllowPublic: r.AllowPublic, AllowPrivate: r.AllowPrivate,
			Ask: r.Ask, AllowLocalBinding: r.AllowLocalBinding,
		})
		if err != nil {
			return nil // who opens the proxy says so
		}
		return p
	})
	return func(host string, port uint16) (target, rule string, denied bool) {
		h, err := network.Canonical(host)
		p := hosts()
		if a, literal := h.Addr(); err != nil || p == nil || literal && (a.IsLoopback() || a.IsUnspecified()) || h.String() == "localhost" || h.String() == sandbox.Hostname {
			return "", "", false
		}
		target = h.String()
		if port != 0 {
			target = h.Target(port)
		}
		// Without a port it is that of the web by which the host is reached.
		d := p.Judge(h, cmp.Or(port, 443))
		if port == 0 && d.Verdict != policy.Allow {
			if plain := p.Judge(h, 80); plain.Verdict == policy.Allow {
				d = plain
			}
		}
		if d.Verdict == policy.Allow {
			return target, notProxied, true
		}
		return target, d.Rule, true
	}
}

// A tail passes on what is written and keeps the end of it.
type tail struct {
	w    io.Writer
	most int // bytes; twice as many are held at most
	end  []byte
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	most := t.most
	if len(p) >= most {
		t.end = append(t.end[:0], p[len(p)-most:]...)
	} else {
		if len(t.end)+len(p) > 2*most {
			t.end = append(t.end[:0], t.end[len(t.end)-most:]...)
		}
		t.end = append(t.end, p...)
	}
	return t.w.Write(p)
}
