package server_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/resource"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// A stepping is a resource with a route that makes a span.
func stepping() resource.Resource {
	return table{{
		ID: "step", Method: "GET", Path: "/v1/steps/{name}", Tag: "test", Summary: "Step", Response: api.Health{}, Role: token.Session,
		Do: func(c *resource.Call) (any, error) {
			_, s := sandbox.StartSpan(c.Context(), "step")
			s.End()
			return api.Health{}, nil
		},
	}}
}

// A translating is a translator: it makes two requests of this server.
type translating struct{}

func (translating) Claims(r *http.Request) bool { return r.URL.Path == "/door" }
func (translating) Translate(w http.ResponseWriter, r *http.Request, v1 http.Handler) {
	for range 2 {
		inner, err := http.NewRequestWithContext(r.Context(), "GET", "/v1/steps/x", nil)
		if err != nil {
			panic(err)
		}
		inner.Host, inner.RemoteAddr = r.Host, r.RemoteAddr
		inner.Header.Set("Traceparent", r.Header.Get("Traceparent"))
		v1.ServeHTTP(discarding{w, http.Header{}}, inner)
	}
}

// A discarding discards an answer.
type discarding struct {
	http.ResponseWriter
	head http.Header
}

func (q discarding) Header() http.Header         { return q.head }
func (q discarding) WriteHeader(int)             {}
func (q discarding) Write(p []byte) (int, error) { return len(p), nil }

// TestRequestSpans holds the spans of requests whatever headers they have: one for
// each request, below the caller's where that is valid, and the steps of a request,
// also through a translator, below its own.
func TestRequestSpans(t *testing.T) {
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for _, tt := range []struct {
		name, method, path string
		header             []string
		spans              string // names in the order of their ends
		joins              bool   // the caller's trace
		state              string
	}{
		{"alone", "GET", "/v1/steps/x", nil, "step, GET /v1/steps/{name}", false, ""},
		{"joined", "GET", "/v1/steps/x", []string{"traceparent", parent, "tracestate", "a=1,b=2"}, "step, GET /v1/steps/{name}", true, "a=1,b=2"},
		{"through a door", "GET", "/door", []string{"traceparent", parent}, "step, GET /v1/steps/{name}, step, GET /v1/steps/{name}, GET", true, ""},
		{"not sampled", "GET", "/v1/steps/x", []string{"traceparent", strings.TrimSuffix(parent, "1") + "0"}, "", false, ""},
		{"not sampled, through a door", "GET", "/door", []string{"traceparent", strings.TrimSuffix(parent, "1") + "0"}, "", false, ""},
		{"two parents", "GET", "/v1/steps/x", []string{"traceparent", parent, "traceparent", parent}, "step, GET /v1/steps/{name}", false, ""},
		{"malformed state", "GET", "/v1/steps/x", []string{"traceparent", parent, "tracestate", "=,;"}, "step, GET /v1/steps/{name}", true, ""},
		{"long state", "GET", "/v1/steps/x", []string{"traceparent", parent, "tracestate", "a=" + strings.Repeat("x", 8000)}, "step, GET /v1/steps/{name}", true, ""},
		{"state without parent", "GET", "/v1/steps/x", []string{"tracestate", "a=1"}, "step, GET /v1/steps/{name}", false, ""},
		{"long parent", "GET", "/v1/steps/x", []string{"traceparent", parent + strings.Repeat("-x", 4000)}, "step, GET /v1/steps/{name}", false, ""},
		{"no such path", "GET", "/v1/" + strings.Repeat("secret", 50), nil, "GET", false, ""},
		{"no such method", "SECRET", "/v1/steps/x", nil, "_OTHER /v1/steps/{name}", false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			kept := tracetest.NewInMemoryExporter()
			p := sdktrace.NewTracerProvider(sdktrace.WithSyncer(kept))
			defer p.Shutdown(context.WithoutCancel(t.Context()))
			srv := serve(t, server.Options{Resources: []resource.Resource{stepping()}, Translators: []server.Translator{translating{}}, Tracer: server.NewTracer(p)})
			res, _ := ask(t, srv, tt.method, tt.path, "", tt.header...)
			srv.Close() // the last span ends behind the answer
			spans := kept.GetSpans().Snapshots()
			var names []string
			for _, s := range spans {
				names = append(names, s.Name())
				if joined := s.SpanContext().TraceID().String() == parent[3:35]; joined != tt.joins {
					t.Errorf("%s joins the trace of the caller: %v", s.Name(), joined)
				}
				if got := s.SpanContext().TraceState().String(); got != tt.state {
					t.Errorf("%s has the state %q, want %q", s.Name(), got, tt.state)
				}
				for _, kv := range s.Attributes() {
					if strings.Contains(strings.ToLower(kv.Value.String()), "secret") {
						t.Errorf("%s has %s=%s", s.Name(), kv.Key, kv.Value.String())
					}
				}
			}
			if got := strings.Join(names, ", "); got != tt.spans {
				t.Errorf("the spans are %s, want %s", got, tt.spans)
			}
			if n := len(spans); n > 0 {
				root := spans[n-1]
				if root.SpanKind() != trace.SpanKindServer || root.Parent().IsValid() != tt.joins || !strings.Contains(res.Header.Get("Traceparent"), root.SpanContext().SpanID().String()) {
					t.Errorf("%v below %v, answered with %q", root.SpanContext(), root.Parent(), res.Header.Get("Traceparent"))
				}
			}
		})
	}
}
