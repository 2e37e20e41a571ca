package fake

import (
	"slices"

	"github.com/bulkhead-dev/sandbox"
)

// Rules judge paths for the engine's sandboxes as they are opened, with what
// was granted to the handle.
type Rules func(s sandbox.Spec, op sandbox.Operation, path string) sandbox.Verdict

// Judge implements [sandbox.Judge]. An engine without [Options].Rules allows
// everything.
func (h *handle) Judge(op sandbox.Operation, path string) sandbox.Verdict {
	if h.e.rules == nil {
		return sandbox.Verdict{Allowed: true, Rule: "no rules"}
	}
	return h.e.rules(h.spec, op, path)
}

var _ sandbox.Judge = (*handle)(nil)

// Judge says what the rules of the process's handle make of an operation. The
// rules are not enforced: a program that minds them asks.
func (p *Proc) Judge(op sandbox.Operation, path string) sandbox.Verdict {
	return p.tree.h.Judge(op, path)
}

// ReportViolation reports to the sandbox that it has refused v to the process.
func (p *Proc) ReportViolation(v sandbox.Violation) {
	e := p.tree.h.e
	e.mu.Lock()
	defer e.mu.Unlock()
	v.Evidence, v.PID = sandbox.EvidenceCertain, p.pid
	p.tree.seen = append(p.tree.seen, v)
}

// Violations implements [sandbox.ReportViolation].
func (c *command) Violations() []sandbox.Violation {
	e := c.h.e
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(c.seen)
}

var _ sandbox.ViolationObserver = (*command)(nil)
