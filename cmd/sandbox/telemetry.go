//go:build !sandbox_front && !sandbox_engine

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
	promotel "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/bulkhead-dev/sandbox"
	servers "github.com/bulkhead-dev/sandbox/server"
)

// flushWithin bounds how long the end of the program waits for a collector.
const flushWithin = 5 * time.Second

// A telemetry exports traces, metrics and logs over OTLP. Its zero value exports
// nothing.
type telemetry struct {
	tracer *servers.Tracer // nil where no traces are exported
	ends   []func(context.Context) error
	hook   *logHook
	within time.Duration // bounds close
}

// newTelemetry sets up what the environment asks for, and counts in figures what
// is exported and what is lost. It connects to nothing: a collector that cannot be
// reached is reported once in the log when something was to be sent.
func newTelemetry(log logrus.FieldLogger, version string, figures prometheus.Registerer, gather prometheus.Gatherer) (_ *telemetry, err error) {
	t := &telemetry{within: flushWithin}
	set, err := telemetryFrom(os.Getenv)
	if err != nil || !set.any() {
		return t, err
	}
	defer func() {
		if err != nil {
			t.close(log)
		}
	}()
	counts, err := newExportCounts(log, figures)
	if err != nil {
		return t, err
	}
	// The SDK reports here what no exporter returns. Its text may quote an answer of
	// the collector, so it is no more than a warning.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { counts.warn("sdk", "telemetry is not exported as it should be", err) }))
	ctx := context.Background()
	about, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithHost(), resource.WithAttributes(
		attribute.String("service.name", "sandbox"), attribute.String("service.version", version), attribute.String("service.instance.id", rand.Text()),
	), resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return t, badTelemetry("OTEL_RESOURCE_ATTRIBUTES", "the attributes cannot be taken: "+err.Error(), "write name=value, separated by commas")
	}
	if set.traces {
		if err := t.exportTraces(ctx, set, about, counts); err != nil {
			return t, err
		}
	}
	if set.metrics {
		if err := t.exportMetrics(ctx, about, counts, gather); err != nil {
			return t, err
		}
	}
	if logger, ok := log.(*logrus.Logger); ok && set.logs {
		if err := t.exportLogs(ctx, set, about, counts, logger); err != nil {
			return t, err
		}
	}
	return t, nil
}

func cannotExport(s signal, err error) error {
	return &sandbox.Error{Code: sandbox.CodeValidation, Op: "set up telemetry", Field: "OTEL_EXPORTER_OTLP_" + string(s) + "_ENDPOINT", Message: "the exporter cannot be made", Err: err}
}

func (t *telemetry) exportTraces(ctx context.Context, set telemetrySettings, about *resource.Resource, counts *exportCounts) error {
	exporter, err := spanExporter(ctx)
	if err != nil {
		return cannotExport(signalTraces, err)
	}
	q := counts.queue("traces", set.spanQueue)
	o := []sdktrace.TracerProviderOption{
		sdktrace.WithResource(about),
		sdktrace.WithSpanProcessor(&spanQueue{sdktrace.NewBatchSpanProcessor(&countedSpans{exporter, q}), q}),
	}
	if os.Getenv("OTEL_TRACES_SAMPLER") == "" {
		o = append(o, sdktrace.WithSampler(sdktrace.ParentBased(newRateSampler(tracesPerSecond, time.Now))))
	}
	p := sdktrace.NewTracerProvider(o...)
	t.ends = append(t.ends, p.Shutdown)
	t.tracer = servers.NewTracer(p)
	return nil
}

func (t *telemetry) exportMetrics(ctx context.Context, about *resource.Resource, counts *exportCounts, gather prometheus.Gatherer) error {
	exporter, err := metricExporter(ctx)
	if err != nil {
		return cannotExport(signalMetrics, err)
	}
	reader := sdkmetric.NewPeriodicReader(&countedMetrics{exporter, counts}, sdkmetric.WithProducer(promotel.NewMetricProducer(promotel.WithGatherer(gather))))
	p := sdkmetric.NewMeterProvider(sdkmetric.WithResource(about), sdkmetric.WithReader(reader))
	t.ends = append(t.ends, p.Shutdown)
	return nil
}

func (t *telemetry) exportLogs(ctx context.Context, set telemetrySettings, about *resource.Resource, counts *exportCounts, log *logrus.Logger) error {
	exporter, err := logExporter(ctx)
	if err != nil {
		return cannotExport(signalLogs, err)
	}
	q := counts.queue("logs", set.logQueue)
	p := sdklog.NewLoggerProvider(sdklog.WithResource(about), sdklog.WithProcessor(&logQueue{sdklog.NewBatchProcessor(&countedLogs{exporter, q}), q}))
	t.ends = append(t.ends, p.Shutdown)
	t.hook = &logHook{logger: p.Logger("github.com/bulkhead-dev/sandbox")}
	log.AddHook(t.hook)
	return nil
}

// close sends what waits, and returns within t.within whatever the collector does.
func (t *telemetry) close(log logrus.FieldLogger) {
	ctx, done := context.WithTimeout(context.Background(), t.within)
	defer done()
	if t.hook != nil {
		t.hook.over.Store(true) // what is logged from here on has no exporter
	}
	ended := make(chan error, len(t.ends))
	for _, end := range t.ends {
		go func() { ended <- end(ctx) }()
	}
	for range t.ends {
		select {
		case err := <-ended:
			if err != nil {
				log.WithError(err).Warn("not all telemetry could be sent before the end")
			}
		case <-ctx.Done():
			log.Warn("not all telemetry could be sent before the end: the collector did not answer in time")
			return
		}
	}
}
