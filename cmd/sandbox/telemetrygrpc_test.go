//go:build !sandbox_front && !sandbox_engine

package main

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	collogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	colmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	rpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	_ "google.golang.org/grpc/encoding/gzip" // which exporters compress with
	"google.golang.org/grpc/metadata"
	rpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// A grpcCollector receives OTLP over gRPC and keeps what it gets in a collector.
type grpcCollector struct {
	coltrace.UnimplementedTraceServiceServer
	*collector
	url    string
	refuse atomic.Int32 // so many messages are answered with UNAVAILABLE
}

type (
	grpcMetrics struct {
		colmetrics.UnimplementedMetricsServiceServer
		*grpcCollector
	}
	grpcLogs struct {
		collogs.UnimplementedLogsServiceServer
		*grpcCollector
	}
)

func newGRPCCollector(t testing.TB, o ...grpc.ServerOption) *grpcCollector {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &grpcCollector{collector: &collector{t: t, metrics: map[string]bool{}, resource: map[string]string{}}, url: "http://" + l.Addr().String()}
	server := grpc.NewServer(o...)
	coltrace.RegisterTraceServiceServer(server, c)
	colmetrics.RegisterMetricsServiceServer(server, grpcMetrics{grpcCollector: c})
	collogs.RegisterLogsServiceServer(server, grpcLogs{grpcCollector: c})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := server.Serve(l); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() {
		server.Stop()
		<-ended
	})
	return c
}

// received keeps a message, unless it is one that is refused.
func (c *grpcCollector) received(ctx context.Context, m proto.Message) error {
	if c.refuse.Add(-1) >= 0 {
		return rpcstatus.Error(rpccodes.Unavailable, "later")
	}
	h := http.Header{}
	md, _ := metadata.FromIncomingContext(ctx)
	for name, values := range md {
		h[http.CanonicalHeaderKey(name)] = values
	}
	data, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	c.take(data, h, m)
	return nil
}

func (c *grpcCollector) Export(ctx context.Context, m *coltrace.ExportTraceServiceRequest) (*coltrace.ExportTraceServiceResponse, error) {
	return &coltrace.ExportTraceServiceResponse{}, c.received(ctx, m)
}

func (c grpcMetrics) Export(ctx context.Context, m *colmetrics.ExportMetricsServiceRequest) (*colmetrics.ExportMetricsServiceResponse, error) {
	return &colmetrics.ExportMetricsServiceResponse{}, c.received(ctx, m)
}

func (c grpcLogs) Export(ctx context.Context, m *collogs.ExportLogsServiceRequest) (*collogs.ExportLogsServiceResponse, error) {
	return &collogs.ExportLogsServiceResponse{}, c.received(ctx, m)
}

// TestCollectorOverGRPC holds that the three signals arrive at a collector over gRPC
// with the headers that the environment has, also compressed and over TLS, that a
// collector which is not available for a moment gets them later, and that one that
// cannot be trusted gets nothing.
func TestCollectorOverGRPC(t *testing.T) {
	const protocol = "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"
	t.Run("three signals", func(t *testing.T) {
		for _, compression := range []string{"none", "gzip"} {
			t.Run(compression, func(t *testing.T) {
				c := newGRPCCollector(t)
				e := export(t, protocol, "OTEL_EXPORTER_OTLP_ENDPOINT="+c.url, "OTEL_EXPORTER_OTLP_COMPRESSION="+compression, "OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20to-collector",
					"OTEL_METRICS_EXPORTER=", "OTEL_LOGS_EXPORTER=", "OTEL_METRIC_EXPORT_INTERVAL=50", "OTEL_BLRP_SCHEDULE_DELAY=10", "OTEL_SERVICE_NAME=over-grpc")
				root, _ := e.tracer.Root("POST", traceparent, "")
				child := root.Child("sandbox.exec", 0)
				child.String("sandbox.session", "trace me")
				child.End()
				root.End()
				e.logger.WithField("sandbox", "box").Warn("a line of the log")
				testenv.Until(t, "not all signals arrive", func() bool {
					c.mu.Lock()
					defer c.mu.Unlock()
					return len(c.spans) == 2 && (c.metrics["sandbox_telemetry_exported_total"] || c.metrics["sandbox_telemetry_exported"]) && len(c.logs) > 0
				})
				if got := tree(t, c.trace(traceOfTest), spanOfTest); !slices.Equal(got, []string{"POST", "POST > sandbox.exec"}) {
					t.Errorf("the trace is %q", got)
				}
				c.mu.Lock()
				defer c.mu.Unlock()
				if c.resource["service.name"] != "over-grpc" {
					t.Errorf("the resource is %v", c.resource)
				}
				if body := c.logs[0].GetBody().GetStringValue(); body != "a line of the log" {
					t.Errorf("the record has the text %q", body)
				}
				for _, h := range c.headers {
					if h.Get("Authorization") != "Bearer to-collector" {
						t.Errorf("a message has the headers %v", h)
					}
				}
			})
		}
	})
	t.Run("not available at first", func(t *testing.T) {
		c := newGRPCCollector(t)
		c.refuse.Store(1)
		e := export(t, protocol, "OTEL_EXPORTER_OTLP_ENDPOINT="+c.url)
		e.spans(10)
		if exported, _, _ := e.settled(10); exported != 10 {
			t.Errorf("%v of 10 are exported", exported)
		}
		if c.refuse.Load() >= 0 {
			t.Error("no message was refused")
		}
	})
	t.Run("disappears", func(t *testing.T) {
		c := newGRPCCollector(t)
		c.refuse.Store(1 << 30)
		e := export(t, protocol, "OTEL_EXPORTER_OTLP_ENDPOINT="+c.url, "OTEL_EXPORTER_OTLP_TIMEOUT=300", "OTEL_BSP_EXPORT_TIMEOUT=300")
		e.spans(10)
		if exported, _, failed := e.settled(10); exported != 0 || failed != 10 {
			t.Errorf("%v are exported, %v not", exported, failed)
		}
		if n := e.warnings("cannot be exported"); n != 1 {
			t.Errorf("%d warnings", n)
		}
	})
	t.Run("TLS", func(t *testing.T) {
		with := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
		defer with.Close()
		c := newGRPCCollector(t, grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: with.TLS.Certificates, MinVersion: tls.VersionTLS12})))
		at := "OTEL_EXPORTER_OTLP_ENDPOINT=" + strings.Replace(c.url, "http:", "https:", 1)
		ca := filepath.Join(t.TempDir(), "ca.pem")
		if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: with.Certificate().Raw}), 0o600); err != nil {
			t.Fatal(err)
		}
		e := export(t, protocol, at, "OTEL_EXPORTER_OTLP_TIMEOUT=500", "OTEL_BSP_EXPORT_TIMEOUT=500")
		e.spans(1)
		if exported, _, failed := e.settled(1); exported != 0 || failed != 1 {
			t.Errorf("a certificate that no authority has signed is taken")
		}
		e = export(t, protocol, at, "OTEL_EXPORTER_OTLP_CERTIFICATE="+ca)
		e.spans(1)
		if exported, _, _ := e.settled(1); exported != 1 || len(c.trace(traceOfTest)) != 0 {
			t.Errorf("the authority of OTEL_EXPORTER_OTLP_CERTIFICATE is not heeded")
		}
	})
}

// TestAgentTrace holds that a call of a tool over stdio goes on with the trace that the
// client names in _meta, and that sandbox mcp exports it over each protocol of OTLP.
// A name that is none begins another trace.
func TestAgentTrace(t *testing.T) {
	t.Parallel()
	testenv.Require(t, "local")
	for _, protocol := range []string{"http/protobuf", "grpc"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			var c *collector
			at := ""
			if protocol == "grpc" {
				over := newGRPCCollector(t)
				c, at = over.collector, over.url
			} else {
				c = newCollector(t)
				c.Start()
				at = c.URL
			}
			settings := filepath.Join(t.TempDir(), "settings.json")
			if err := os.WriteFile(settings, []byte(`{"agents": {"defaults": {"sandbox": {"provider": "local"}}}}`), 0o600); err != nil {
				t.Fatal(err)
			}
			s.env = append(s.env, "SANDBOX_CONFIG="+settings, "OTEL_EXPORTER_OTLP_ENDPOINT="+at, "OTEL_EXPORTER_OTLP_PROTOCOL="+protocol)
			a := s.agent(nil, "--session", "traced", "--agent", "coder")
			call := func(meta mcp.Meta) {
				t.Helper()
				ctx, done := context.WithTimeout(t.Context(), 2*time.Minute)
				defer done()
				r, err := a.CallTool(ctx, &mcp.CallToolParams{Meta: meta, Name: "exec", Arguments: map[string]any{"command": "echo hello"}})
				if err != nil || r.IsError || !strings.HasPrefix(said(r), "hello") {
					t.Fatalf("%v, %q", err, said(r))
				}
			}
			call(mcp.Meta{"traceparent": traceparent, "tracestate": "vendor=1"})
			for _, none := range []any{nil, "", 7, traceparent + "-", "00-" + strings.Repeat("0", 32) + "-" + spanOfTest + "-01"} {
				call(mcp.Meta{"traceparent": none})
			}
			if err := a.Close(); err != nil { // it sends what waits
				t.Error(err)
			}
			spans := c.trace(traceOfTest)
			got := tree(t, spans, spanOfTest)
			for _, path := range []string{"tools/call exec", "tools/call exec > sandbox.exec", "tools/call exec > sandbox.exec > sandbox.process"} {
				if !slices.Contains(got, path) {
					t.Errorf("the trace has no %q:\n%s", path, strings.Join(got, "\n"))
				}
			}
			roots := 0
			for _, s := range spans {
				if s.Name != "tools/call exec" {
					continue
				}
				roots++
				if s.Kind.String() != "SPAN_KIND_SERVER" || s.TraceState != "vendor=1" || s.attrs["sandbox.session"] != "traced" || s.attrs["sandbox.agent"] != "coder" || s.attrs["gen_ai.tool.name"] != "exec" || s.attrs["mcp.method.name"] != "tools/call" {
					t.Errorf("the span of the call is %s %q with %v", s.Kind, s.TraceState, s.attrs)
				}
			}
			others := map[string]bool{}
			c.mu.Lock()
			for _, s := range c.spans {
				if s.Name == "tools/call exec" && len(s.ParentSpanId) == 0 {
					others[string(s.TraceId)] = true
				}
			}
			c.mu.Unlock()
			if roots != 1 || len(others) != 5 {
				t.Errorf("%d calls are of the trace of the client, and %d begin one; want 1 and 5", roots, len(others))
			}
		})
	}
}
