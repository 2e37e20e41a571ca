package egress

import (
	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy"
)

// The names of spans.
const (
	spanEgress = "sandbox.egress"
	spanSecret = "sandbox.secret"
)

// trace begins the span of the access below that of its command. Paths stay out of
// it: a capability URL has its secret there.
func (v *access) trace(parent *sandbox.Span) {
	v.span = parent.Child(spanEgress, sandbox.SpanClient)
	v.span.String("sandbox.name", v.event.Sandbox)
	v.span.String("sandbox.egress.protocol", string(v.event.Protocol))
	v.span.String("server.address", v.event.Host)
	if v.event.Port != 0 {
		v.span.Int("server.port", int64(v.event.Port))
	}
}

// traceRefused ends the span of a refused access.
func (v *access) traceRefused() {
	if v.span == nil {
		return
	}
	v.span.String("sandbox.verdict", string(policy.Deny))
	v.span.String("sandbox.rule", v.event.Rule)
	v.span.Fail(&sandbox.Error{Code: sandbox.CodeCapabilityBlocked})
	v.span.End()
}

// traceEnded ends the span of an allowed access.
func (v *access) traceEnded(e Event) {
	if v.span == nil {
		return
	}
	v.span.String("sandbox.verdict", string(policy.Allow))
	v.span.String("sandbox.rule", e.Rule)
	if e.Addr.IsValid() {
		v.span.String("network.peer.address", e.Addr.Addr().String())
		v.span.Int("network.peer.port", int64(e.Addr.Port()))
	}
	if e.Status != 0 {
		v.span.Int("http.response.status_code", int64(e.Status))
	}
	v.span.Int("sandbox.egress.bytes_in", e.BytesIn)
	v.span.Int("sandbox.egress.bytes_out", e.BytesOut)
	if e.Error != "" {
		v.span.Fail(&sandbox.Error{Code: sandbox.CodeUnavailable})
	}
	v.span.End()
}
