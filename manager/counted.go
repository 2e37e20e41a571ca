package manager

import (
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/grant/operation"
)

// A count is a call without a grant while it lasts, for metrics. Operations under
// grants are counted where they are carried out.
type count struct {
	m     *Manager
	ended operation.Ended
	began time.Time
	up    bool // the sandbox was
	late  bool // the command was ended at its time limit
}

// counting begins to count a call of req.
func (m *Manager) counting(req Request) *count {
	c := &count{m: m, began: time.Now(), ended: operation.Ended{
		Tenant: req.Who.Tenant, Tool: req.Tool, Domain: grant.DomainProc, Resource: req.resource(), Effects: []grant.SideEffect{grant.EffectProcess},
	}}
	if req.files {
		c.ended.Domain, c.ended.Effects = grant.DomainFS, []grant.SideEffect{grant.EffectFilesystem}
	}
	return c
}

// ready notes that the sandbox of the call is ready.
func (c *count) ready() {
	if c != nil {
		c.up = true
	}
}

// resource is what a request uses.
func (r *Request) resource() operation.Resource {
	switch {
	case r.files:
		return operation.ResourceFile
	case r.line != "":
		return operation.ResourceLine
	case len(r.Command.Args) > 0:
		return operation.ResourceCommand
	}
	return operation.ResourceSandbox
}

// timedOut notes that the command was ended at its time limit.
func (c *count) timedOut() {
	if c != nil {
		c.late = true
	}
}

// end counts the call, whose error is err. A command that was ended at its time
// limit has none, and is an error all the same.
func (c *count) end(err error) {
	if c.m.observer == nil {
		return
	}
	e := c.ended
	e.Duration = time.Since(c.began)
	switch {
	case err != nil:
		public := grant.Public(err)
		e.Code, e.Retryable = public.Code, public.Retryable
		e.Denied = statusOf(err, c.up) == evidence.Denied
	case c.late:
		e.Code = sandbox.CodeTimeout
	}
	c.m.observer.Ended(e)
}
