package server

import (
	"context"
	"net/http"
	"strconv"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// scope is the name of the instrumentation in exported spans.
const scope = "github.com/bulkhead-dev/sandbox"

// A Tracer makes the spans of requests with a provider of OpenTelemetry. A nil
// Tracer makes none.
//
// The spans are not current in the contexts of OpenTelemetry, so that libraries
// which trace by themselves, such as the client of the Docker engine with the
// queries of its URLs, export nothing through the provider.
type Tracer struct{ tracer trace.Tracer }

// NewTracer returns a Tracer over p.
func NewTracer(p trace.TracerProvider) *Tracer {
	return &Tracer{p.Tracer(scope)}
}

// Root begins the span of a call from outside: below the caller's span where
// traceparent is valid, and otherwise of a new trace. The second result is the
// header traceparent with the span, also when the span is nil because the trace is
// not sampled. On a nil Tracer, and where the program has set no provider, it returns
// nil and "".
func (t *Tracer) Root(name string, traceparent, tracestate string) (*sandbox.Span, string) {
	if t == nil {
		return nil, ""
	}
	ctx := context.Background()
	parent, ok := remoteParent(traceparent, tracestate)
	if ok {
		ctx = trace.ContextWithRemoteSpanContext(ctx, parent)
	}
	_, s := t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer))
	r := &recorded{tracer: t.tracer, span: s}
	if !s.IsRecording() {
		if s.SpanContext().SpanID() == parent.SpanID() { // the provider does nothing
			return nil, ""
		}
		return nil, r.TraceParent()
	}
	return sandbox.NewSpan(r), r.TraceParent()
}

// remoteParent parses the headers of W3C Trace Context. A tracestate that is not
// valid is dropped alone.
func remoteParent(traceparent, tracestate string) (trace.SpanContext, bool) {
	if _, _, ok := parseTrace(traceparent); !ok {
		return trace.SpanContext{}, false
	}
	c := trace.SpanContextConfig{Remote: true}
	var err error
	if c.TraceID, err = trace.TraceIDFromHex(traceparent[3:35]); err != nil {
		return trace.SpanContext{}, false
	}
	if c.SpanID, err = trace.SpanIDFromHex(traceparent[36:52]); err != nil {
		return trace.SpanContext{}, false
	}
	flags, err := strconv.ParseUint(traceparent[53:55], 16, 8)
	if err != nil {
		return trace.SpanContext{}, false
	}
	c.TraceFlags = trace.TraceFlags(flags) & trace.FlagsSampled
	if len(tracestate) <= maxTraceState {
		if state, err := trace.ParseTraceState(tracestate); err == nil {
			c.TraceState = state
		}
	}
	return trace.NewSpanContext(c), true
}

// maxTraceState is the longest tracestate that is passed on, in bytes, which is
// what the specification has programs accept at least.
const maxTraceState = 512

// TraceContext returns a context with the current span of ctx for the API of
// OpenTelemetry, or context.Background.
func TraceContext(ctx context.Context) context.Context {
	if r, ok := sandbox.SpanOf(ctx).Recorder().(*recorded); ok {
		return trace.ContextWithSpanContext(context.Background(), r.span.SpanContext())
	}
	return context.Background()
}

// A recorded records a span with OpenTelemetry.
type recorded struct {
	tracer trace.Tracer
	span   trace.Span

	mu    sync.Mutex
	attrs []attribute.KeyValue // set when the span ends, at once
}

var _ sandbox.SpanRecorder = (*recorded)(nil)

// Start implements [sandbox.SpanRecorder].
func (r *recorded) Start(name string, kind sandbox.SpanKind) sandbox.SpanRecorder {
	ctx := trace.ContextWithSpan(context.Background(), r.span)
	var s trace.Span
	switch kind {
	case sandbox.SpanClient:
		_, s = r.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient))
	case sandbox.SpanServer:
		_, s = r.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer))
	default:
		_, s = r.tracer.Start(ctx, name)
	}
	return &recorded{tracer: r.tracer, span: s}
}

func (r *recorded) set(kv attribute.KeyValue) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.attrs == nil {
		r.attrs = make([]attribute.KeyValue, 0, 5)
	}
	r.attrs = append(r.attrs, kv)
}

// String implements [sandbox.SpanRecorder].
func (r *recorded) String(key, value string) { r.set(attribute.String(key, value)) }

// Int implements [sandbox.SpanRecorder].
func (r *recorded) Int(key string, value int64) { r.set(attribute.Int64(key, value)) }

// Bool implements [sandbox.SpanRecorder].
func (r *recorded) Bool(key string, value bool) { r.set(attribute.Bool(key, value)) }

// Event implements [sandbox.SpanRecorder].
func (r *recorded) Event(name string) { r.span.AddEvent(name) }

// Fail implements [sandbox.SpanRecorder].
func (r *recorded) Fail(code string) {
	r.set(attribute.String("error.type", code))
	r.span.SetStatus(codes.Error, "")
}

// End implements [sandbox.SpanRecorder].
func (r *recorded) End() {
	r.mu.Lock()
	attrs := r.attrs
	r.attrs = nil
	r.mu.Unlock()
	r.span.SetAttributes(attrs...)
	r.span.End()
}

// TraceParent implements [sandbox.SpanRecorder].
func (r *recorded) TraceParent() string {
	c := r.span.SpanContext()
	if !c.IsValid() {
		return ""
	}
	return "00-" + c.TraceID().String() + "-" + c.SpanID().String() + "-" + c.TraceFlags().String()
}

// startSpan begins the span of the request, and returns the header traceparent of
// the answer. A request that a translator of this server makes is a step of the request
// that came to the translator.
func (s *Server) startSpan(r *http.Request) (span *sandbox.Span, traceparent string) {
	if parent := sandbox.SpanOf(r.Context()); parent != nil {
		span = parent.Child(r.Method, sandbox.SpanInternal)
		return span, span.TraceParent()
	}
	span, traceparent = s.o.Tracer.Root(methodName(r.Method), only(r, api.HeaderTraceparent), only(r, headerTracestate))
	if traceparent == "" {
		traceparent = newTraceparent(r)
	}
	return span, traceparent
}

const headerTracestate = "Tracestate"

// only returns the value of a header that is there once, or "".
func only(r *http.Request, name string) string {
	if values := r.Header.Values(name); len(values) == 1 {
		return values[0]
	}
	return ""
}

// methodName is the method as the names and attributes of spans have it.
func methodName(m string) string {
	if m = methodLabel(m); m == other {
		return "_OTHER"
	}
	return m
}

// traced ends the span of the request.
func (q *request) traced() {
	if q.span == nil {
		return
	}
	route, method := q.pattern(), methodName(q.r.Method)
	if r, ok := q.span.Recorder().(*recorded); ok && route != "" {
		r.span.SetName(method + " " + route)
	}
	q.span.String("http.request.method", method)
	q.span.String("http.route", route)
	q.span.String("sandbox.request_id", q.id)
	if q.w.status != 0 {
		q.span.Int("http.response.status_code", int64(q.w.status))
	}
	q.span.End()
}

// traceProblem notes the error that the request is answered with. As the
// conventions for HTTP say, a fault of the caller is no failure of the server.
func (q *request) traceProblem(err error, p api.Problem) {
	q.span.String("sandbox.code", string(p.Code))
	if p.Status >= 500 {
		q.span.Fail(&sandbox.Error{Code: p.Code, Err: err})
	}
}
