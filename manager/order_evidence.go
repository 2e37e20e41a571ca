package manager

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"path"
	"strconv"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/grant/operation"
)

// beginning is what is on record of an order from the start.
func (o *order) beginning() evidence.Begin {
	g, op := &o.req.Grant, &o.req.Do
	b := evidence.Begin{
		ID: o.id, Time: o.start, Tenant: g.Tenant, Subject: g.Subject, Agent: o.who.Agent, Session: o.who.Session, Tool: g.Tool, Call: g.Call, Grant: g.ID,
		Kind: op.Kind, Capability: o.vetted.Capability, Inputs: inputs(*op),
		ManifestVersion: o.req.Manifest.Version, RequestID: o.req.RequestID, TraceParent: o.req.TraceParent,
		Request: evidence.Request{Path: op.Path, Method: op.Method, Program: op.Tool, Args: len(op.Args), Bytes: max(int64(len(op.Data)), op.Bytes)},
	}
	if o.guard != nil {
		p := o.guard.Profile()
		b.ProfileHash, b.PolicyVersion = p.Hash, p.PolicyVersion
	}
	if o.vetted.Capability == "" { // refused: the spelling is the caller's
		if u, err := url.Parse(op.URL); err == nil && op.URL != "" {
			b.Request.Scheme, b.Request.Host = u.Scheme, u.Hostname()
			b.Request.Port, _ = strconv.Atoi(u.Port())
		}
		return b
	}
	b.Request.Path, b.Request.Method = o.vetted.Path, o.vetted.Method
	if u, err := url.Parse(o.vetted.URL); err == nil && o.vetted.URL != "" {
		b.Request.Scheme, b.Request.Host, b.Request.Port = u.Scheme, o.vetted.Host.String(), int(o.vetted.Port)
	}
	if file, ok := strings.CutPrefix(o.vetted.URL, "workspace:"); ok {
		b.Request.Path = path.Join(sandbox.WorkspaceDir, file)
	}
	if needsSandbox(o.vetted.Domain) {
		b.Sandbox = o.steps.ruling.sandbox
	}
	return b
}

// ending is what is on record of the end of an order.
func (o *order) ending(done metered, err error) evidence.End {
	return evidence.End{
		Time: o.m.now(), Status: statusOf(err, done.begun), Code: grant.Audit(err).Code, Rule: grant.Audit(err).Rule,
		Detail: grant.Audit(err).Message, Resource: grant.Audit(err).Resource,
		Outputs: done.Output.Digest, Effects: done.effects, More: done.more, Used: done.Used, Duration: done.Duration,
	}
}

// statusOf returns how an operation ended. An operation that any check refused
// before it began is denied; one that failed is an error.
func statusOf(err error, begun bool) evidence.Status {
	if err == nil {
		return evidence.OK
	}
	switch sandbox.CodeOf(err) {
	case sandbox.CodePermissionDeny, sandbox.CodeCapabilityBlocked, sandbox.CodeDenyTool, sandbox.CodeBudgetExceeded, sandbox.CodeValidation:
		if !begun {
			return evidence.Denied
		}
	}
	return evidence.Failed
}

// measured is an order as metrics report it.
func (o *order) measured(done metered, err error) operation.Ended {
	e := operation.Ended{
		Tenant: o.req.Grant.Tenant, Tool: o.req.Grant.Tool, Domain: o.vetted.Domain, Resource: operation.ResourceOf(o.vetted.Kind), Effects: o.vetted.Effects, Denied: statusOf(err, done.begun) == evidence.Denied,
		Code: done.Code, Retryable: done.Retryable, Used: done.Used, Duration: done.Duration,
	}
	if o.guard != nil {
		e.Safety = o.guard.Profile().Safety
	}
	return e
}

// inputs is the digest of all that the operation was asked with. What differs
// has another one, also where JSON cannot tell it: in bytes that are no UTF-8.
func inputs(op grant.Operation) evidence.Digest {
	h := evidence.NewHash()
	data := op.Data
	op.Data = nil
	if b, err := json.Marshal(op); err == nil {
		if bytes.Contains(b, []byte(`\ufffd`)) {
			b = fmt.Appendf(b, "%q", []any{op.Kind, op.Path, op.Method, op.URL, op.Header, op.Selector, op.Text, op.Tool, op.Args})
		}
		_, _ = h.Write(append(b, '\n'))
	}
	_, _ = h.Write(data)
	return h.Digest()
}
