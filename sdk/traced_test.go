package sdk_test

import (
	"context"
	"slices"
	"testing"

	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/sdk"
)

// TestTracedProgram holds that a program's own provider gets the spans of its
// sandboxes, below the span of the context, also where it sets the provider after it
// has opened the client.
func TestTracedProgram(t *testing.T) {
	testenv.Require(t, "local")
	c, err := sdk.Open(t.Context(), sdk.StateDir(t.TempDir()), sdk.Settings(config.NewBuilder().Provider("local")))
	if err != nil {
		t.Fatal(err)
	}
	kept := tracetest.NewInMemoryExporter()
	p := sdktrace.NewTracerProvider(sdktrace.WithSyncer(kept))
	otel.SetTracerProvider(p)
	ctx, span := p.Tracer("program").Start(t.Context(), "program")
	sb, err := c.Sandbox(ctx, "traced")
	if err != nil {
		t.Fatal(err)
	}
	if res, err := sb.Run(ctx, "true"); err != nil || res.ExitCode != 0 {
		t.Fatal(res, err)
	}
	span.End()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	var names []string
	for _, s := range kept.GetSpans() {
		if s.SpanContext.TraceID() == span.SpanContext().TraceID() {
			names = append(names, s.Name)
		}
	}
	for _, want := range []string{"program", "POST /v1/sandboxes", "sandbox.ensure", "sandbox.create", "sandbox.exec", "sandbox.process"} {
		if !slices.Contains(names, want) {
			t.Errorf("the trace of the program has no %s: %q", want, names)
		}
	}
	if err := p.Shutdown(context.WithoutCancel(t.Context())); err != nil { // the clients of other tests record nothing from here on
		t.Error(err)
	}
}
