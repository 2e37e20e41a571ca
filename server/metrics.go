// Metrics: this part of the package has Prometheus collectors for the outcomes and costs of
// operations.
//
// The number of series is bounded whatever callers call themselves: so many
// tenants and tools have a name of their own, the first ones that did
// something, and all others together are "other". An operation that was refused
// before it began has no name, so that a caller cannot use names up with
// refused requests.

package server

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant/operation"
)

// Options bound the sets of labels.
type MetricsOptions struct {
	MaxTenants int // with a name of their own; 0 is 200
	MaxTools   int // with a name of their own; 0 is 200
	MaxSeries  int // of sandbox_exec_total, before new ones are of "other" tenants and tools; 0 is 10000
}

// Metrics are the collectors. They are safe for concurrent use, and telling
// them something takes no longer than counting.
type metrics struct {
	execs   *execs
	denied  *prometheus.CounterVec
	errors  *prometheus.CounterVec
	bytesIn prometheus.Counter
	bytesUp prometheus.Counter
	cpu     prometheus.Counter
	gpu     prometheus.Counter
	latency *prometheus.HistogramVec
	build   prometheus.Histogram
	guard   prometheus.Histogram
	pool    *poolFigures
}

var _ operation.Observer = (*metrics)(nil)

// New makes the collectors and registers them. Where one of them cannot be
// registered none is, and the error is [sandbox.CodeInternal].
func NewMetrics(reg prometheus.Registerer, o MetricsOptions) (*metrics, error) {
	bytes := prometheus.NewCounterVec(counter("sandbox_budget_used_bytes", "Bytes that operations have used of their budgets, by direction."), []string{"direction"})
	m := &metrics{
		execs:   newExecs(o),
		pool:    newPoolFigures(),
		denied:  prometheus.NewCounterVec(counter("sandbox_denied_total", "Operations that were refused before anything was done."), []string{"code", "retryable"}),
		errors:  prometheus.NewCounterVec(counter("sandbox_errors_total", "Operations that were begun and not carried out, or stopped."), []string{"code", "retryable"}),
		bytesIn: bytes.WithLabelValues("in"), bytesUp: bytes.WithLabelValues("out"),
		cpu:     prometheus.NewCounter(counter("sandbox_cpu_ms", "Processor time that operations have used, in milliseconds.")),
		gpu:     prometheus.NewCounter(counter("sandbox_gpu_ms", "Time of GPUs that operations have used, in milliseconds.")),
		latency: prometheus.NewHistogramVec(histogram("sandbox_latency_ms", "How long operations took that were begun, in milliseconds.", longTimes()), []string{"domain"}),
		build:   prometheus.NewHistogram(histogram("sandbox_profile_build_ms", "How long building a profile took, in milliseconds.", shortTimes())),
		guard:   prometheus.NewHistogram(histogram("sandbox_guard_validate_ms", "How long judging an operation took, in milliseconds.", shortTimes())),
	}
	all := []prometheus.Collector{m.execs.vec, m.denied, m.errors, bytes, m.cpu, m.gpu, m.latency, m.build, m.guard}
	all = append(all, m.pool.all()...)
	for i, c := range all {
		if err := reg.Register(c); err != nil {
			for _, before := range all[:i] {
				reg.Unregister(before)
			}
			return nil, &sandbox.Error{Code: sandbox.CodeInternal, Op: "register metrics", Message: "the registry does not take them", Err: err}
		}
	}
	return m, nil
}

func counter(name, help string) prometheus.CounterOpts {
	return prometheus.CounterOpts{Name: name, Help: help}
}

func histogram(name, help string, buckets []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}
}

// longTimes are bounds from half a millisecond to ten minutes.
func longTimes() []float64 {
	return []float64{0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 300_000, 600_000}
}

// shortTimes are bounds from a microsecond to ten milliseconds, close to each
// other around the 20 µs and 100 µs that are promised.
func shortTimes() []float64 {
	return []float64{0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.5, 1, 2, 5, 10}
}

// Built implements [operation.Observer].
func (m *metrics) Built(d time.Duration) { m.build.Observe(milliseconds(d)) }

// Validated implements [operation.Observer].
func (m *metrics) Validated(d time.Duration) { m.guard.Observe(milliseconds(d)) }

// Ended implements [operation.Observer].
func (m *metrics) Ended(e operation.Ended) {
	code, retryable := codeLabel(e.Code), strconv.FormatBool(e.Retryable)
	if e.Denied {
		m.denied.WithLabelValues(code, retryable).Inc()
		return
	}
	if e.Code != "" {
		m.errors.WithLabelValues(code, retryable).Inc()
	}
	domain := domainLabel(e.Domain)
	m.execs.count(series{
		domain: domain, resource: resourceLabel(e.Resource), safety: safetyLabel(e.Safety), effect: effectLabel(e.Effects), tenant: e.Tenant, tool: e.Tool,
	})
	m.latency.WithLabelValues(domain).Observe(milliseconds(e.Duration))
	add(m.bytesIn, e.Used.BytesIn)
	add(m.bytesUp, e.Used.BytesOut)
	add(m.cpu, e.Used.CPUMs)
	add(m.gpu, e.Used.GPUMs)
}

// add counts n, which is none where it is below 0: counters panic at that.
func add(c prometheus.Counter, n int64) {
	if n > 0 {
		c.Add(float64(n))
	}
}

// milliseconds are those of d, 0 for a time below 0.
func milliseconds(d time.Duration) float64 {
	return max(0, float64(d)/float64(time.Millisecond))
}
