package server

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-dev/sandbox"
)

// Requests are the collectors of a server over HTTP. No label names the caller,
// and of paths only patterns are shown, so the number of series is that of the
// routes.
type metricsRequests struct {
	total  *prometheus.CounterVec
	took   *prometheus.HistogramVec
	panics prometheus.Counter
}

// NewRequests makes the collectors and registers them.
func NewRequests(reg prometheus.Registerer) (*metricsRequests, error) {
	labels := []string{"route", "method", "status"}
	r := &metricsRequests{
		total:  prometheus.NewCounterVec(counter("sandbox_http_requests_total", "Requests that were answered."), labels),
		took:   prometheus.NewHistogramVec(histogram("sandbox_http_request_ms", "How long requests took that are no streams, in milliseconds.", longTimes()), []string{"route", "method"}),
		panics: prometheus.NewCounter(counter("sandbox_http_panics_total", "Requests whose handler has panicked. The goal is none.")),
	}
	for _, c := range []prometheus.Collector{r.total, r.took, r.panics} {
		if err := reg.Register(c); err != nil {
			return nil, &sandbox.Error{Code: sandbox.CodeInternal, Op: "register metrics", Message: "the registry does not take them", Err: err}
		}
	}
	return r, nil
}

// Served counts a request that was answered. An empty route is a path that
// there is not.
func (r *metricsRequests) Served(method, route string, status int, took time.Duration) {
	if route == "" {
		route = other
	}
	method = methodLabel(method)
	r.total.WithLabelValues(route, method, statusLabel(status)).Inc()
	r.took.WithLabelValues(route, method).Observe(milliseconds(took))
}

// Panicked counts a handler that has panicked.
func (r *metricsRequests) Panicked() { r.panics.Inc() }

// methodLabel is a method that there is.
func methodLabel(m string) string {
	switch m {
	case "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS":
		return m
	}
	return other
}

// statusLabel is the class of a status.
func statusLabel(s int) string {
	if s < 100 || s > 599 {
		return "none"
	}
	return strconv.Itoa(s/100) + "xx"
}
