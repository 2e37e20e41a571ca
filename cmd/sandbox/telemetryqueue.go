//go:build !sandbox_front && !sandbox_engine

package main

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/bulkhead-dev/sandbox"
)

// exportCounts counts what is exported and what is lost. It warns of each kind of
// loss once.
type exportCounts struct {
	log      logrus.FieldLogger
	exported *prometheus.CounterVec // by signal
	dropped  *prometheus.CounterVec // by signal and reason
	warned   sync.Map
}

// The values of the label reason.
const (
	reasonQueue  = "queue"  // the queue was full
	reasonExport = "export" // the collector did not take them
)

func newExportCounts(log logrus.FieldLogger, reg prometheus.Registerer) (*exportCounts, error) {
	c := &exportCounts{
		log:      log,
		exported: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sandbox_telemetry_exported_total", Help: "Spans, log records and rounds of metrics that a collector has taken over OTLP."}, []string{"signal"}),
		dropped:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sandbox_telemetry_dropped_total", Help: "Spans, log records and rounds of metrics that were not exported: the queue was full, or the collector did not take them."}, []string{"signal", "reason"}),
	}
	for _, v := range []prometheus.Collector{c.exported, c.dropped} {
		if err := reg.Register(v); err != nil {
			return nil, &sandbox.Error{Code: sandbox.CodeInternal, Op: "register metrics", Message: "the registry does not take them", Err: err}
		}
	}
	for _, s := range []string{"traces", "metrics", "logs"} {
		c.exported.WithLabelValues(s)
		for _, r := range []string{reasonQueue, reasonExport} {
			c.dropped.WithLabelValues(s, r)
		}
	}
	return c, nil
}

// warn logs a loss the first time that what has one. It may be called by an
// exporter of log records, so it does not wait for the log.
func (c *exportCounts) warn(what, message string, err error) {
	if _, again := c.warned.LoadOrStore(what, true); again {
		return
	}
	log := c.log
	if err != nil {
		log = log.WithError(err)
	}
	go log.Warn(message + "; sandbox_telemetry_dropped_total counts what is lost, and this is said once")
}

// lost counts items that were not exported.
func (c *exportCounts) lost(signal, reason string, n int, err error) {
	c.dropped.WithLabelValues(signal, reason).Add(float64(n))
	if reason == reasonQueue {
		c.warn(signal+reason, "telemetry of the kind "+signal+" is dropped because its queue is full", nil)
		return
	}
	c.warn(signal+reason, "telemetry of the kind "+signal+" cannot be exported", err)
}

// An exportQueue bounds the items of one signal that wait or are being sent. The
// processors of the SDK have bounds too, and drop without counting; no item comes
// to theirs, because this one is no larger.
type exportQueue struct {
	counts  *exportCounts
	signal  string
	most    int64
	waiting atomic.Int64
	full    prometheus.Counter
	sent    prometheus.Counter
}

func (c *exportCounts) queue(signal string, most int64) *exportQueue {
	return &exportQueue{counts: c, signal: signal, most: most, full: c.dropped.WithLabelValues(signal, reasonQueue), sent: c.exported.WithLabelValues(signal)}
}

// enter takes a place in the queue, and reports whether there was one.
func (q *exportQueue) enter() bool {
	if q.waiting.Add(1) <= q.most {
		return true
	}
	q.waiting.Add(-1)
	q.counts.lost(q.signal, reasonQueue, 1, nil)
	return false
}

// leave gives back the places of items that were sent, or with an error lost.
func (q *exportQueue) leave(n int, err error) {
	q.waiting.Add(-int64(n))
	if err != nil {
		q.counts.lost(q.signal, reasonExport, n, err)
		return
	}
	q.sent.Add(float64(n))
}

// A spanQueue is a processor of spans with a queue whose losses are counted.
type spanQueue struct {
	sdktrace.SpanProcessor
	q *exportQueue
}

// OnEnd implements [sdktrace.SpanProcessor].
func (p *spanQueue) OnEnd(s sdktrace.ReadOnlySpan) {
	if s.SpanContext().IsSampled() && p.q.enter() {
		p.SpanProcessor.OnEnd(s)
	}
}

// A countedSpans counts what it exports.
type countedSpans struct {
	sdktrace.SpanExporter
	q *exportQueue
}

// ExportSpans implements [sdktrace.SpanExporter]. It returns no error: the SDK
// could only log it.
func (e *countedSpans) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	e.q.leave(len(spans), e.SpanExporter.ExportSpans(ctx, spans))
	return nil
}

// A logQueue is a processor of log records with a queue whose losses are counted.
type logQueue struct {
	sdklog.Processor
	q *exportQueue
}

// OnEmit implements [sdklog.Processor].
func (p *logQueue) OnEmit(ctx context.Context, r *sdklog.Record) error {
	if !p.q.enter() {
		return nil
	}
	return p.Processor.OnEmit(ctx, r)
}

// A countedLogs counts what it exports.
type countedLogs struct {
	sdklog.Exporter
	q *exportQueue
}

// Export implements [sdklog.Exporter].
func (e *countedLogs) Export(ctx context.Context, records []sdklog.Record) error {
	e.q.leave(len(records), e.Exporter.Export(ctx, records))
	return nil
}

// A countedMetrics counts the rounds that it exports.
type countedMetrics struct {
	sdkmetric.Exporter
	counts *exportCounts
}

// Export implements [sdkmetric.Exporter].
func (e *countedMetrics) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	if err := e.Exporter.Export(ctx, m); err != nil {
		e.counts.lost("metrics", reasonExport, 1, err)
		return nil
	}
	e.counts.exported.WithLabelValues("metrics").Inc()
	return nil
}
