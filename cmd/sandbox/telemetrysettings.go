//go:build !sandbox_front && !sandbox_engine

package main

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/bulkhead-dev/sandbox"
)

// A signal is one of the three kinds of data that are exported.
type signal string

const (
	signalTraces  signal = "TRACES"
	signalMetrics signal = "METRICS"
	signalLogs    signal = "LOGS"
)

// telemetrySettings are what the variables OTEL_… of the environment come to. The
// SDK reads most of them again, and would replace a value that it cannot use by a
// default, so all of them are checked first.
type telemetrySettings struct {
	traces, metrics, logs bool  // are exported
	spanQueue, logQueue   int64 // items that may wait
}

// A telemetryEnv reads variables of the environment. Its methods return errors that
// name the variable and quote no value: it may be a credential.
type telemetryEnv func(string) string

func badTelemetry(name, message, hint string) error {
	return &sandbox.Error{Code: sandbox.CodeValidation, Op: "set up telemetry", Field: name, Message: message, Hint: hint}
}

// telemetryFrom checks the variables. Nothing is exported unless an endpoint is
// set, or an exporter chosen by name: the default of the specification would have
// every daemon look for a collector on this machine.
func telemetryFrom(env telemetryEnv) (telemetrySettings, error) {
	var t telemetrySettings
	disabled, err := env.boolean("OTEL_SDK_DISABLED")
	if err != nil || disabled {
		return t, err
	}
	for _, s := range []struct {
		signal signal
		on     *bool
	}{{signalTraces, &t.traces}, {signalMetrics, &t.metrics}, {signalLogs, &t.logs}} {
		if *s.on, err = env.exporter(s.signal); err != nil {
			return t, err
		}
		if *s.on {
			if err := env.connection(s.signal); err != nil {
				return t, err
			}
		}
	}
	if !t.any() {
		return t, nil
	}
	return t, env.rest(&t)
}

// any reports whether anything is exported.
func (t telemetrySettings) any() bool { return t.traces || t.metrics || t.logs }

// exporter reports whether a signal is exported.
func (env telemetryEnv) exporter(s signal) (bool, error) {
	name := "OTEL_" + string(s) + "_EXPORTER"
	switch env(name) {
	case "":
		return env("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || env("OTEL_EXPORTER_OTLP_"+string(s)+"_ENDPOINT") != "", nil
	case "otlp":
		return true, nil
	case "none":
		return false, nil
	}
	hint := "set it to otlp or none"
	if s == signalMetrics {
		hint += "; Prometheus reads the same metrics at /metrics"
	}
	return false, badTelemetry(name, "there is no such exporter", hint)
}

// connection checks how the collector of a signal is reached. A variable of one
// signal takes the place of the general one.
func (env telemetryEnv) connection(s signal) error {
	for _, prefix := range []string{"OTEL_EXPORTER_OTLP_", "OTEL_EXPORTER_OTLP_" + string(s) + "_"} {
		for _, check := range []func(string) error{
			func(p string) error { return env.endpoint(p + "ENDPOINT") },
			func(p string) error { return env.oneOf(p+"PROTOCOL", protocolHTTP, protocolGRPC) },
			func(p string) error { return env.insecure(p + "INSECURE") },
			func(p string) error { return env.pairs(p + "HEADERS") },
			func(p string) error { _, err := env.number(p+"TIMEOUT", 1); return err },
			func(p string) error { return env.oneOf(p+"COMPRESSION", "gzip", "none") },
			func(p string) error { return env.certificates(p + "CERTIFICATE") },
			func(p string) error { return env.keyPair(p+"CLIENT_CERTIFICATE", p+"CLIENT_KEY") },
		} {
			if err := check(prefix); err != nil {
				return err
			}
		}
	}
	return nil
}

// endpointOf returns the URL for a signal for which no variable names an endpoint,
// which is that of the specification, or "": some exporters of the SDK would use TLS
// then.
func (env telemetryEnv) endpointOf(s signal) string {
	switch {
	case env("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || env("OTEL_EXPORTER_OTLP_"+string(s)+"_ENDPOINT") != "":
		return ""
	case env.protocolOf(s) == protocolGRPC:
		return "http://localhost:4317"
	}
	return "http://localhost:4318/v1/" + strings.ToLower(string(s))
}

// rest checks what is the same for all signals.
func (env telemetryEnv) rest(t *telemetrySettings) (err error) {
	if err = env.sampler(); err != nil {
		return err
	}
	if err = env.pairs("OTEL_RESOURCE_ATTRIBUTES"); err != nil {
		return err
	}
	for name := range strings.SplitSeq(env("OTEL_PROPAGATORS"), ",") {
		switch strings.TrimSpace(name) {
		case "", "tracecontext", "baggage", "none":
		default:
			return badTelemetry("OTEL_PROPAGATORS", "there is no such propagator here", "set it to tracecontext: the header traceparent is what requests are joined by")
		}
	}
	if err = env.oneOf("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "cumulative"); err != nil {
		return err
	}
	for _, name := range []string{
		"OTEL_BSP_SCHEDULE_DELAY", "OTEL_BSP_EXPORT_TIMEOUT", "OTEL_BLRP_SCHEDULE_DELAY", "OTEL_BLRP_EXPORT_TIMEOUT",
		"OTEL_METRIC_EXPORT_INTERVAL", "OTEL_METRIC_EXPORT_TIMEOUT",
		"OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_ATTRIBUTE_COUNT_LIMIT", "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT",
		"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "OTEL_SPAN_EVENT_COUNT_LIMIT", "OTEL_SPAN_LINK_COUNT_LIMIT",
		"OTEL_LOGRECORD_ATTRIBUTE_COUNT_LIMIT", "OTEL_LOGRECORD_ATTRIBUTE_VALUE_LENGTH_LIMIT",
	} {
		if _, err = env.number(name, 1); err != nil {
			return err
		}
	}
	if t.spanQueue, err = env.queue("OTEL_BSP_"); err != nil {
		return err
	}
	t.logQueue, err = env.queue("OTEL_BLRP_")
	return err
}

// The defaults of the specification for queues.
const (
	defaultQueue = 2048
	defaultBatch = 512
)

// queue returns how many items may wait.
func (env telemetryEnv) queue(prefix string) (int64, error) {
	most, err := env.number(prefix+"MAX_QUEUE_SIZE", defaultQueue)
	if err != nil {
		return 0, err
	}
	batch, err := env.number(prefix+"MAX_EXPORT_BATCH_SIZE", min(defaultBatch, most))
	if err != nil {
		return 0, err
	}
	if batch > most {
		return 0, badTelemetry(prefix+"MAX_EXPORT_BATCH_SIZE", "a batch is larger than the queue, "+prefix+"MAX_QUEUE_SIZE", "make it smaller, or the queue larger")
	}
	return most, nil
}

func (env telemetryEnv) boolean(name string) (bool, error) {
	switch strings.ToLower(env(name)) {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	}
	return false, badTelemetry(name, "it is neither true nor false", "")
}

// number returns a whole number above 0, or usual where the variable is not set.
func (env telemetryEnv) number(name string, usual int64) (int64, error) {
	v := env(name)
	if v == "" {
		return usual, nil
	}
	n, err := strconv.ParseInt(v, 10, 32)
	if err != nil || n <= 0 {
		return 0, badTelemetry(name, "it is no whole number above 0", "times are in milliseconds")
	}
	return n, nil
}

func (env telemetryEnv) oneOf(name string, values ...string) error {
	v := env(name)
	if v == "" {
		return nil
	}
	for _, one := range values {
		if v == one {
			return nil
		}
	}
	return badTelemetry(name, "there is no such value", "set it to "+strings.Join(values, " or "))
}

// protocolOf returns the protocol for a signal: http/protobuf or grpc.
func (env telemetryEnv) protocolOf(s signal) string {
	return cmp.Or(env("OTEL_EXPORTER_OTLP_"+string(s)+"_PROTOCOL"), env("OTEL_EXPORTER_OTLP_PROTOCOL"), protocolHTTP)
}

// The protocols of OTLP that are linked.
const (
	protocolHTTP = "http/protobuf"
	protocolGRPC = "grpc"
)

// insecure refuses a switch that turns https into http.
func (env telemetryEnv) insecure(name string) error {
	on, err := env.boolean(name)
	if err == nil && on {
		err = badTelemetry(name, "the scheme of the endpoint says whether TLS is used", "leave it out, and write http:// in the endpoint")
	}
	return err
}

func (env telemetryEnv) endpoint(name string) error {
	v := env(name)
	if v == "" {
		return nil
	}
	const hint = "write http://HOST:PORT or https://HOST:PORT"
	u, err := url.Parse(v)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return badTelemetry(name, "it is no URL of http or https", hint)
	case u.User != nil:
		return badTelemetry(name, "it holds credentials", "put them into "+strings.TrimSuffix(name, "ENDPOINT")+"HEADERS")
	case u.RawQuery != "" || u.Fragment != "":
		return badTelemetry(name, "something follows the path of the URL", hint)
	}
	return nil
}

// pairs checks a list of name=value.
func (env telemetryEnv) pairs(name string) error {
	v := env(name)
	if v == "" {
		return nil
	}
	for pair := range strings.SplitSeq(v, ",") {
		key, value, ok := strings.Cut(pair, "=")
		key = strings.TrimSpace(key)
		if !ok || key == "" || strings.ContainsAny(key, " \t\r\n:\"") {
			return badTelemetry(name, "it is no list of name=value", "separate the pairs by commas, and write characters such as a comma with a percent sign: %2C")
		}
		decoded, err := url.PathUnescape(strings.TrimSpace(value))
		if err != nil || strings.ContainsAny(decoded, "\r\n\x00") {
			return badTelemetry(name, "a value is not encoded as in a URL", "write a percent sign as %25")
		}
	}
	return nil
}

func (env telemetryEnv) certificates(name string) error {
	file := env(name)
	if file == "" {
		return nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return badTelemetry(name, "the file cannot be read", "name a file with certificates as PEM")
	}
	if !x509.NewCertPool().AppendCertsFromPEM(data) {
		return badTelemetry(name, "the file holds no certificate as PEM", "name the file of the authority that signed the collector's certificate")
	}
	return nil
}

func (env telemetryEnv) keyPair(certificate, key string) error {
	switch c, k := env(certificate), env(key); {
	case c == "" && k == "":
		return nil
	case c == "":
		return badTelemetry(certificate, "there is a key and no certificate", "set both")
	case k == "":
		return badTelemetry(key, "there is a certificate and no key", "set both")
	default:
		if _, err := tls.LoadX509KeyPair(c, k); err != nil {
			return badTelemetry(certificate, "certificate and key cannot be read, or do not belong together", "name two files as PEM")
		}
	}
	return nil
}

func (env telemetryEnv) sampler() error {
	const name, arg = "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"
	if err := env.oneOf(name, "always_on", "always_off", "traceidratio", "parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio"); err != nil {
		return err
	}
	if v := env(arg); v != "" && strings.HasSuffix(env(name), "traceidratio") {
		ratio, err := strconv.ParseFloat(v, 64)
		if err != nil || !(ratio >= 0 && ratio <= 1) {
			return badTelemetry(arg, "it is no number between 0 and 1", "0.1 records one trace of ten")
		}
	}
	return nil
}
