//go:build !sandbox_front && !sandbox_engine

package main

import (
	"context"
	"os"

	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// The exporters read the environment themselves, which [telemetryFrom] has checked.
// Those over gRPC add 0.4 MB to the program: the ones over HTTP link the messages
// of the same services already.

func spanExporter(ctx context.Context) (sdktrace.SpanExporter, error) {
	env := telemetryEnv(os.Getenv)
	at := env.endpointOf(signalTraces)
	if env.protocolOf(signalTraces) == protocolGRPC {
		var o []otlptracegrpc.Option
		if at != "" {
			o = append(o, otlptracegrpc.WithEndpointURL(at))
		}
		return otlptracegrpc.New(ctx, o...)
	}
	var o []otlptracehttp.Option
	if at != "" {
		o = append(o, otlptracehttp.WithEndpointURL(at))
	}
	return otlptracehttp.New(ctx, o...)
}

func metricExporter(ctx context.Context) (sdkmetric.Exporter, error) {
	env := telemetryEnv(os.Getenv)
	at := env.endpointOf(signalMetrics)
	if env.protocolOf(signalMetrics) == protocolGRPC {
		var o []otlpmetricgrpc.Option
		if at != "" {
			o = append(o, otlpmetricgrpc.WithEndpointURL(at))
		}
		return otlpmetricgrpc.New(ctx, o...)
	}
	var o []otlpmetrichttp.Option
	if at != "" {
		o = append(o, otlpmetrichttp.WithEndpointURL(at))
	}
	return otlpmetrichttp.New(ctx, o...)
}

func logExporter(ctx context.Context) (sdklog.Exporter, error) {
	env := telemetryEnv(os.Getenv)
	at := env.endpointOf(signalLogs)
	if env.protocolOf(signalLogs) == protocolGRPC {
		var o []otlploggrpc.Option
		if at != "" {
			o = append(o, otlploggrpc.WithEndpointURL(at))
		}
		return otlploggrpc.New(ctx, o...)
	}
	var o []otlploghttp.Option
	if at != "" {
		o = append(o, otlploghttp.WithEndpointURL(at))
	}
	return otlploghttp.New(ctx, o...)
}
