//go:build !sandbox_front && !sandbox_engine

package main

import (
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	colmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	"go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// A collector receives OTLP over HTTP and keeps what it gets.
type collector struct {
	*httptest.Server
	t testing.TB

	mu       sync.Mutex
	spans    []*v1.Span
	logs     []*logs.LogRecord
	metrics  map[string]bool
	resource map[string]string
	raw      strings.Builder // every body, decompressed
	headers  []http.Header
	answer   func(http.ResponseWriter) bool // answers in place of the collector; nil never does
}

func newCollector(t testing.TB) *collector {
	c := &collector{t: t, metrics: map[string]bool{}, resource: map[string]string{}}
	c.Server = httptest.NewUnstartedServer(c)
	c.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(func() {
		c.CloseClientConnections()
		c.Close()
	})
	return c
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	answer := c.answer
	c.mu.Unlock()
	if answer != nil && answer(w) {
		return
	}
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			c.t.Error(err)
			return
		}
		body = z
	}
	data, err := io.ReadAll(body)
	if err != nil {
		return
	}
	switch r.URL.Path {
	case "/v1/traces":
		var m coltrace.ExportTraceServiceRequest
		c.decode(data, &m)
		c.take(data, r.Header, &m)
	case "/v1/metrics":
		var m colmetrics.ExportMetricsServiceRequest
		c.decode(data, &m)
		c.take(data, r.Header, &m)
	case "/v1/logs":
		var m collogs.ExportLogsServiceRequest
		c.decode(data, &m)
		c.take(data, r.Header, &m)
	default:
		c.t.Errorf("a request for %s", r.URL.Path)
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// take keeps a message of one of the three services, its encoded form and the headers
// that it has come with.
func (c *collector) take(data []byte, h http.Header, m proto.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw.Write(data)
	c.headers = append(c.headers, h)
	switch m := m.(type) {
	case *coltrace.ExportTraceServiceRequest:
		for _, rs := range m.ResourceSpans {
			c.about(rs.Resource.GetAttributes())
			for _, ss := range rs.ScopeSpans {
				c.spans = append(c.spans, ss.Spans...)
			}
		}
	case *colmetrics.ExportMetricsServiceRequest:
		for _, rm := range m.ResourceMetrics {
			for _, sm := range rm.ScopeMetrics {
				for _, one := range sm.Metrics {
					c.metrics[one.Name] = true
				}
			}
		}
	case *collogs.ExportLogsServiceRequest:
		for _, rl := range m.ResourceLogs {
			for _, sl := range rl.ScopeLogs {
				c.logs = append(c.logs, sl.LogRecords...)
			}
		}
	}
}

func (c *collector) decode(data []byte, m proto.Message) {
	if err := proto.Unmarshal(data, m); err != nil {
		c.t.Error(err)
	}
}

func (c *collector) about(list []*common.KeyValue) {
	for _, kv := range list {
		c.resource[kv.Key] = kv.Value.GetStringValue()
	}
}

// A traced is a span as the tests look at it.
type traced struct {
	*v1.Span
	attrs map[string]string
}

// trace returns the spans of a trace by their ids.
func (c *collector) trace(id string) map[string]traced {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]traced{}
	for _, s := range c.spans {
		if hex.EncodeToString(s.TraceId) != id {
			continue
		}
		one := traced{s, map[string]string{}}
		for _, kv := range s.Attributes {
			switch v := kv.Value.Value.(type) {
			case *common.AnyValue_StringValue:
				one.attrs[kv.Key] = v.StringValue
			case *common.AnyValue_IntValue:
				one.attrs[kv.Key] = fmt.Sprint(v.IntValue)
			case *common.AnyValue_BoolValue:
				one.attrs[kv.Key] = fmt.Sprint(v.BoolValue)
			}
		}
		out[hex.EncodeToString(s.SpanId)] = one
	}
	return out
}

// tree writes a trace as lines of names, the parents before the children, and fails
// where a span lies below none of the trace or the caller's, or its times are not
// within those of its parent.
func tree(t *testing.T, spans map[string]traced, caller string) []string {
	t.Helper()
	children := map[string][]string{}
	for id, s := range spans {
		parent := hex.EncodeToString(s.ParentSpanId)
		children[parent] = append(children[parent], id)
		p, known := spans[parent]
		switch {
		case s.EndTimeUnixNano < s.StartTimeUnixNano:
			t.Errorf("%s ends before it begins", s.Name)
		case parent == caller:
		case !known:
			t.Errorf("%s lies below the span %q, which there is not", s.Name, parent)
		case s.StartTimeUnixNano < p.StartTimeUnixNano || s.EndTimeUnixNano > p.EndTimeUnixNano:
			t.Errorf("%s (%d to %d) is not within %s (%d to %d)", s.Name, s.StartTimeUnixNano, s.EndTimeUnixNano, p.Name, p.StartTimeUnixNano, p.EndTimeUnixNano)
		}
	}
	var lines []string
	var walk func(id string, path string)
	walk = func(id string, path string) {
		for _, child := range children[id] {
			at := strings.TrimPrefix(path+" > "+spans[child].Name, " > ")
			lines = append(lines, at)
			walk(child, at)
		}
	}
	walk(caller, "")
	slices.Sort(lines)
	if len(lines) != len(spans) {
		t.Errorf("%d spans of %d are below the caller's", len(lines), len(spans))
	}
	return slices.Compact(lines)
}
