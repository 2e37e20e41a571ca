package mcp

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/manager"
)

// causedBy returns ctx for a call of a tool with the request that carried the
// call, and the span of the call. Over HTTP the span lies below that of the
// request; otherwise it begins a trace, or goes on with that of the client, which
// names it in _meta.traceparent.
func (x *session) causedBy(ctx context.Context, r *mcp.CallToolRequest) (context.Context, *sandbox.Span) {
	name := "tools/call " + r.Params.Name // the name is that of a tool that there is
	var span *sandbox.Span
	if from, ok := x.requestOf(r); ok {
		if cause, ok := manager.CauseOf(from); ok {
			ctx = manager.WithCause(ctx, cause)
		}
		span = sandbox.SpanOf(from).Child(name, sandbox.SpanInternal)
	} else if x.o.Trace != nil {
		traceparent, _ := r.Params.Meta["traceparent"].(string)
		tracestate, _ := r.Params.Meta["tracestate"].(string)
		span, _ = x.o.Trace(name, traceparent, tracestate)
	}
	span.String("mcp.method.name", "tools/call")
	span.String("gen_ai.tool.name", r.Params.Name)
	span.String("sandbox.tenant", x.bound.Who.Tenant)
	span.String("sandbox.agent", x.bound.Who.Agent)
	span.String("sandbox.session", x.bound.Who.Session)
	return sandbox.WithSpan(ctx, span), span
}

// requestOf returns the context of the HTTP request that carried the call.
func (x *session) requestOf(r *mcp.CallToolRequest) (context.Context, bool) {
	if r.Extra == nil {
		return nil, false
	}
	from, ok := x.requests.Load(r.Extra.Header.Get(requestHeader))
	if !ok {
		return nil, false
	}
	ctx, ok := from.(context.Context)
	return ctx, ok
}
