package manager

import (
	"cmp"
	"io"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/violation"
)

// A lookout keeps the end of what a command says, where the wall has rules
// against which it can be held.
type lookout struct {
	live *live
	dir  string
	tail *tail // nil when there are no rules for paths

	unjudged bool // nothing counts as blocked

	refused []sandbox.Violation // what the proxy did not let it reach
}

// lookOut has the error output of the command kept, which is its only output on a
// terminal, and returns what to run instead.
func lookOut(l *live, req Request) (*lookout, sandbox.Command) {
	c := req.Command
	o := &lookout{live: l, dir: cmp.Or(c.Dir, l.spec.Workdir), unjudged: req.unjudged}
	if _, ok := l.Sandbox.(sandbox.Judge); !ok || req.unjudged {
		return o, c
	}
	o.tail = &tail{}
	out := &c.Stderr
	if c.TTY != nil {
		out = &c.Stdout
	}
	if o.tail.w = *out; o.tail.w == nil {
		o.tail.w = io.Discard
	}
	*out = o.tail
	return o, c
}

// judge fills in what rules had to do with the end of the command. One that
// ran out of time, or whose end is not known, is not blocked.
func (o *lookout) judge(p sandbox.Process, out *Outcome, now time.Time, ended bool) {
	e := violation.Ending{Exit: out.Exit, Dir: o.dir, At: now}
	var rules sandbox.Judge
	if ended && o.tail != nil {
		rules, _ = o.live.Sandbox.(sandbox.Judge)
		e.Stderr = o.tail.end
	}
	if w, ok := p.(sandbox.Witness); ok {
		e.Witnessed = w.Violations()
	}
	e.Witnessed = append(e.Witnessed, o.refused...)
	f := violation.Classify(rules, e)
	out.Violations = f.Violations
	if ended && !o.unjudged {
		out.Blocked, out.BlockedReason, out.BlockedResource, out.Causes = f.Blocked, f.Reason, f.Resource, f.Causes
	}
}

// A tail passes on what is written and keeps the end of it.
type tail struct {
	w   io.Writer
	end []byte
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	const most = violation.MaxTail
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
