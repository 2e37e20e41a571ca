//go:build !sandbox_front && !sandbox_engine

package main

import (
	"encoding/pem"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/sirupsen/logrus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	servers "github.com/bulkhead-dev/sandbox/server"
)

// An exporting has the telemetry of a daemon without its sandboxes.
type exporting struct {
	*telemetry
	t       *testing.T
	figures *prometheus.Registry
	log     *reportedLines
	logger  *logrus.Logger
}

// export sets the telemetry up by variables, with a queue of 64 spans in batches of
// 16 that are sent at once.
func export(t *testing.T, env ...string) *exporting {
	t.Helper()
	for _, one := range append([]string{
		"OTEL_BSP_SCHEDULE_DELAY=10", "OTEL_BSP_MAX_QUEUE_SIZE=64", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=16", "OTEL_METRICS_EXPORTER=none", "OTEL_LOGS_EXPORTER=none",
		"OTEL_TRACES_SAMPLER=always_on",
	}, env...) {
		name, value, _ := strings.Cut(one, "=")
		t.Setenv(name, value)
	}
	e := &exporting{t: t, figures: prometheus.NewRegistry(), log: newReportedLines()}
	log := logrus.New()
	log.SetOutput(e.log)
	e.logger = log
	var err error
	if e.telemetry, err = newTelemetry(log, "test", e.figures, e.figures); err != nil {
		t.Fatal(err)
	}
	e.within = 300 * time.Millisecond
	t.Cleanup(func() { e.close(log) })
	return e
}

// spans makes n spans, and fails if one of them has waited for the collector, whose
// timeout is 10 s.
func (e *exporting) spans(n int) {
	e.t.Helper()
	began := time.Now()
	for range n {
		s, _ := e.tracer.Root("test", "", "")
		s.End()
	}
	if took := time.Since(began); took > 5*time.Second {
		e.t.Errorf("%d spans take %v", n, took)
	}
}

// count returns one of the counters of spans.
func (e *exporting) count(name, reason string) float64 {
	e.t.Helper()
	all, err := e.figures.Gather()
	if err != nil {
		e.t.Fatal(err)
	}
	for _, f := range all {
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if f.GetName() == name && labels["signal"] == "traces" && labels["reason"] == reason {
				return m.GetCounter().GetValue()
			}
		}
	}
	return -1
}

// settled waits until every one of n spans is counted as exported or dropped.
func (e *exporting) settled(n float64) (exported, queue, failed float64) {
	e.t.Helper()
	testenv.Until(e.t, "spans are not counted", func() bool {
		exported = e.count("sandbox_telemetry_exported_total", "")
		queue, failed = e.count("sandbox_telemetry_dropped_total", reasonQueue), e.count("sandbox_telemetry_dropped_total", reasonExport)
		return exported+queue+failed >= n
	})
	if exported+queue+failed != n {
		e.t.Errorf("of %v spans %v are exported, %v found the queue full and %v were not taken", n, exported, queue, failed)
	}
	return exported, queue, failed
}

// warnings returns how often the log has the text.
func (e *exporting) warnings(text string) int {
	e.t.Helper()
	testenv.Until(e.t, "there is no warning of "+text, func() bool { return strings.Contains(e.log.all(), text) })
	return strings.Count(e.log.all(), text)
}

// TestCollector holds that a collector which does not do its part costs calls no
// time, that every span is counted as exported or lost, and that each kind of loss is
// said once.
func TestCollector(t *testing.T) {
	const full, refused = "because its queue is full", "cannot be exported"
	t.Run("hangs", func(t *testing.T) {
		c := newCollector(t)
		release := make(chan struct{})
		c.answer = func(http.ResponseWriter) bool { <-release; return true }
		c.Start()
		e := export(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+c.URL)
		e.spans(500)
		e.spans(500)
		if n := e.warnings(full); n != 1 {
			t.Errorf("%d warnings", n)
		}
		if dropped := e.count("sandbox_telemetry_dropped_total", reasonQueue); dropped != 1000-64 {
			t.Errorf("%v spans found no place beside 64", dropped)
		}
		began := time.Now()
		e.close(logrus.New())
		if took := time.Since(began); took > e.within+5*time.Second {
			t.Errorf("the end takes %v", took)
		}
		close(release)
	})
	t.Run("fails", func(t *testing.T) {
		c := newCollector(t)
		c.answer = func(w http.ResponseWriter) bool { w.WriteHeader(http.StatusInternalServerError); return true }
		c.Start()
		e := export(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+c.URL)
		for range 10 {
			e.spans(10)
		}
		if exported, _, failed := e.settled(100); exported != 0 || failed == 0 {
			t.Errorf("%v are exported, %v not", exported, failed)
		}
		if n := e.warnings(refused); n != 1 {
			t.Errorf("%d warnings", n)
		}
	})
	t.Run("asks for patience", func(t *testing.T) {
		c := newCollector(t)
		var asked atomic.Int32
		c.answer = func(w http.ResponseWriter) bool {
			if asked.Add(1) > 1 {
				return false
			}
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			return true
		}
		c.Start()
		began := time.Now()
		e := export(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+c.URL)
		e.spans(10)
		if exported, _, _ := e.settled(10); exported != 10 || time.Since(began) < time.Second {
			t.Errorf("%v of 10 are exported after %v", exported, time.Since(began))
		}
	})
	t.Run("disappears", func(t *testing.T) {
		c := newCollector(t)
		c.Start()
		e := export(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+c.URL, "OTEL_EXPORTER_OTLP_TIMEOUT=200", "OTEL_BSP_EXPORT_TIMEOUT=200")
		e.spans(10)
		e.settled(10)
		c.Close()
		e.spans(10)
		if exported, _, failed := e.settled(20); exported != 10 || failed != 10 {
			t.Errorf("%v are exported, %v not", exported, failed)
		}
	})
	t.Run("TLS", func(t *testing.T) {
		c := newCollector(t)
		c.StartTLS()
		ca := filepath.Join(t.TempDir(), "ca.pem")
		if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate().Raw}), 0o600); err != nil {
			t.Fatal(err)
		}
		e := export(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+c.URL, "OTEL_EXPORTER_OTLP_TIMEOUT=500", "OTEL_BSP_EXPORT_TIMEOUT=500")
		e.spans(1)
		if exported, _, failed := e.settled(1); exported != 0 || failed != 1 {
			t.Errorf("a certificate that no authority has signed is taken")
		}
		e = export(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+c.URL, "OTEL_EXPORTER_OTLP_CERTIFICATE="+ca)
		e.spans(1)
		if exported, _, _ := e.settled(1); exported != 1 {
			t.Errorf("the authority of OTEL_EXPORTER_OTLP_CERTIFICATE is not heeded")
		}
	})
}

// TestTelemetrySettings holds which variables turn the export on, and that a value
// which cannot be used is an error that names the variable and does not quote it.
func TestTelemetrySettings(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const on = "OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318"
	for _, tt := range []struct {
		env  []string
		want string // the field of the error; or which signals are exported
	}{
		{nil, ""},
		{[]string{"OTEL_SERVICE_NAME=x"}, ""},
		{[]string{on}, "tml"},
		{[]string{on, "OTEL_SDK_DISABLED=TRUE"}, ""},
		{[]string{on, "OTEL_SDK_DISABLED=yes"}, "OTEL_SDK_DISABLED"},
		{[]string{on, "OTEL_TRACES_EXPORTER=none"}, "ml"},
		{[]string{"OTEL_LOGS_EXPORTER=otlp"}, "l"},
		{[]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=https://m.example/v1/metrics"}, "m"},
		{[]string{on, "OTEL_METRICS_EXPORTER=prometheus"}, "OTEL_METRICS_EXPORTER"},
		{[]string{on, "OTEL_TRACES_EXPORTER=console"}, "OTEL_TRACES_EXPORTER"},
		{[]string{on, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"}, "tml"},
		{[]string{on, "OTEL_EXPORTER_OTLP_PROTOCOL=http/json"}, "OTEL_EXPORTER_OTLP_PROTOCOL"},
		{[]string{on, "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL=http"}, "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL"},
		{[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=collector:4318-hush"}, "OTEL_EXPORTER_OTLP_ENDPOINT"},
		{[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=ftp://hush"}, "OTEL_EXPORTER_OTLP_ENDPOINT"},
		{[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://user:hush@collector"}, "OTEL_EXPORTER_OTLP_ENDPOINT"},
		{[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://collector?key=hush"}, "OTEL_EXPORTER_OTLP_ENDPOINT"},
		{[]string{on, "OTEL_EXPORTER_OTLP_HEADERS=hush"}, "OTEL_EXPORTER_OTLP_HEADERS"},
		{[]string{on, "OTEL_EXPORTER_OTLP_HEADERS=a=hush%0d%0aX: y"}, "OTEL_EXPORTER_OTLP_HEADERS"},
		{[]string{on, "OTEL_EXPORTER_OTLP_TRACES_HEADERS=a=%zz"}, "OTEL_EXPORTER_OTLP_TRACES_HEADERS"},
		{[]string{on, "OTEL_EXPORTER_OTLP_HEADERS=a=1,b=two%20words"}, "tml"},
		{[]string{on, "OTEL_EXPORTER_OTLP_TIMEOUT=10s"}, "OTEL_EXPORTER_OTLP_TIMEOUT"},
		{[]string{on, "OTEL_EXPORTER_OTLP_TIMEOUT=-1"}, "OTEL_EXPORTER_OTLP_TIMEOUT"},
		{[]string{on, "OTEL_EXPORTER_OTLP_COMPRESSION=zstd"}, "OTEL_EXPORTER_OTLP_COMPRESSION"},
		{[]string{on, "OTEL_EXPORTER_OTLP_INSECURE=true"}, "OTEL_EXPORTER_OTLP_INSECURE"},
		{[]string{on, "OTEL_EXPORTER_OTLP_CERTIFICATE=/nowhere/hush"}, "OTEL_EXPORTER_OTLP_CERTIFICATE"},
		{[]string{on, "OTEL_EXPORTER_OTLP_CERTIFICATE=" + empty}, "OTEL_EXPORTER_OTLP_CERTIFICATE"},
		{[]string{on, "OTEL_EXPORTER_OTLP_CLIENT_KEY=" + empty}, "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"},
		{[]string{on, "OTEL_EXPORTER_OTLP_CLIENT_KEY=" + empty, "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE=" + empty}, "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"},
		{[]string{on, "OTEL_TRACES_SAMPLER=jaeger_remote"}, "OTEL_TRACES_SAMPLER"},
		{[]string{on, "OTEL_TRACES_SAMPLER=traceidratio", "OTEL_TRACES_SAMPLER_ARG=1.5"}, "OTEL_TRACES_SAMPLER_ARG"},
		{[]string{on, "OTEL_TRACES_SAMPLER=parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG=NaN"}, "OTEL_TRACES_SAMPLER_ARG"},
		{[]string{on, "OTEL_TRACES_SAMPLER=parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG=0.25"}, "tml"},
		{[]string{on, "OTEL_RESOURCE_ATTRIBUTES=hush"}, "OTEL_RESOURCE_ATTRIBUTES"},
		{[]string{on, "OTEL_PROPAGATORS=b3"}, "OTEL_PROPAGATORS"},
		{[]string{on, "OTEL_PROPAGATORS=tracecontext,baggage"}, "tml"},
		{[]string{on, "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE=delta"}, "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE"},
		{[]string{on, "OTEL_BSP_MAX_QUEUE_SIZE=many"}, "OTEL_BSP_MAX_QUEUE_SIZE"},
		{[]string{on, "OTEL_BSP_MAX_QUEUE_SIZE=10", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=11"}, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE"},
		{[]string{on, "OTEL_BSP_MAX_QUEUE_SIZE=10"}, "tml"},
		{[]string{on, "OTEL_BLRP_SCHEDULE_DELAY=0"}, "OTEL_BLRP_SCHEDULE_DELAY"},
		{[]string{on, "OTEL_METRIC_EXPORT_INTERVAL=1m"}, "OTEL_METRIC_EXPORT_INTERVAL"},
	} {
		env := map[string]string{}
		for _, one := range tt.env {
			name, value, _ := strings.Cut(one, "=")
			env[name] = value
		}
		got, err := telemetryFrom(func(name string) string { return env[name] })
		text := ""
		for letter, on := range map[string]bool{"t": got.traces, "m": got.metrics, "l": got.logs} {
			if on {
				text += letter
			}
		}
		var e *sandbox.Error
		if err != nil {
			e, _ = err.(*sandbox.Error)
			text = e.Field
			if e.Code != sandbox.CodeValidation || strings.Contains(err.Error(), "hush") {
				t.Errorf("%v: %v", tt.env, err)
			}
		}
		if len(text) != len(tt.want) || err != nil && text != tt.want || strings.Trim(text, tt.want) != "" {
			t.Errorf("%v: %q, want %q", tt.env, text, tt.want)
		}
	}
}

// TestTelemetryOff holds that a daemon without the variables counts and starts
// nothing for telemetry.
func TestTelemetryOff(t *testing.T) {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER", "OTEL_LOGS_EXPORTER"} {
		t.Setenv(name, "")
	}
	figures, log := prometheus.NewRegistry(), logrus.New()
	log.SetOutput(io.Discard)
	e, err := newTelemetry(log, "test", figures, figures)
	if err != nil || e.tracer != nil || len(e.ends) != 0 || len(log.Hooks) != 0 {
		t.Errorf("%+v, %v", e, err)
	}
	if n, err := testutil.GatherAndCount(figures); err != nil || n != 0 {
		t.Errorf("%d metrics, %v", n, err)
	}
	e.close(log)
}

// TestTelemetryRate holds that a daemon whose environment names no sampler begins so
// many traces a second, and goes on with each that its caller has sampled.
func TestTelemetryRate(t *testing.T) {
	t.Parallel()
	now := time.Unix(1, 0)
	p := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.ParentBased(newRateSampler(100, func() time.Time { return now }))))
	tracer := servers.NewTracer(p)
	count := func(n int, traceparent string) (sampled int) {
		for range n {
			s, at := tracer.Root("test", traceparent, "")
			if s != nil {
				sampled++
			}
			if (s != nil) != strings.HasSuffix(at, "-01") {
				t.Errorf("a span that is there: %v, has the flags of %s", s != nil, at)
			}
			s.End()
		}
		return sampled
	}
	if n := count(1000, ""); n != 100 {
		t.Errorf("%d traces begin at once", n)
	}
	if n := count(1000, traceparent); n != 1000 {
		t.Errorf("%d traces of callers go on", n)
	}
	for _, tt := range []struct {
		pass time.Duration
		want int
	}{{0, 0}, {9 * time.Millisecond, 0}, {2 * time.Millisecond, 1}, {500 * time.Millisecond, 50}, {-time.Hour, 0}, {time.Hour, 100}} {
		now = now.Add(tt.pass)
		if n := count(200, ""); n != tt.want {
			t.Errorf("%v later %d traces begin, want %d", tt.pass, n, tt.want)
		}
	}
}
