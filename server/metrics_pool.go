package server

import (
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-dev/sandbox/registry/pool"
)

// poolFigures are the collectors about sandboxes that are kept ready.
type poolFigures struct {
	hits   prometheus.Counter
	claims prometheus.Histogram
	misses *prometheus.CounterVec
	made   *prometheus.HistogramVec
	starts *prometheus.CounterVec
	start  prometheus.Histogram
	slots  *prometheus.GaugeVec
	refill prometheus.Histogram
}

func newPoolFigures() *poolFigures {
	p := &poolFigures{
		hits:   prometheus.NewCounter(counter("sandbox_pool_hits_total", "Sandboxes that were claimed from the pool.")),
		claims: prometheus.NewHistogram(histogram("sandbox_pool_claim_seconds", "How long claims took that found a slot.", poolTimes())),
		misses: prometheus.NewCounterVec(counter("sandbox_pool_misses_total", "Sandboxes that were made although a pool is kept, by why no slot was claimed."), []string{"reason"}),
		made:   prometheus.NewHistogramVec(histogram("sandbox_pool_miss_seconds", "How long making those took.", poolTimes()), []string{"reason"}),
		starts: prometheus.NewCounterVec(counter("sandbox_pool_starts_total", "Slots that were begun to be made, by whether they are there."), []string{"ok"}),
		start:  prometheus.NewHistogram(histogram("sandbox_pool_start_seconds", "How long making a slot took.", poolTimes())),
		slots:  prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "sandbox_pool_slots", Help: "Slots that can be claimed, and slots that are wanted by settings and demand."}, []string{"state"}),
		refill: prometheus.NewHistogram(histogram("sandbox_pool_refill_seconds", "How long the pool was not full after a claim.", poolTimes())),
	}
	for _, r := range pool.Reasons() {
		p.misses.WithLabelValues(string(r)) // so that a rate has a beginning
	}
	for _, there := range []string{"true", "false"} {
		p.starts.WithLabelValues(there)
	}
	return p
}

// poolTimes are bounds in seconds, from a millisecond to two minutes.
func poolTimes() []float64 {
	return []float64{0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120}
}

func (p *poolFigures) all() []prometheus.Collector {
	return []prometheus.Collector{p.hits, p.claims, p.misses, p.made, p.starts, p.start, p.slots, p.refill}
}

// Attempted counts a sandbox that was made while a pool was kept, claimed where
// miss is nil.
func (m *metrics) Attempted(miss *pool.Miss, took time.Duration) {
	if miss == nil {
		m.pool.hits.Inc()
		m.pool.claims.Observe(max(0, took.Seconds()))
		return
	}
	reason := reasonLabel(miss.Reason)
	m.pool.misses.WithLabelValues(reason).Inc()
	m.pool.made.WithLabelValues(reason).Observe(max(0, took.Seconds()))
}

// SlotStarted counts a slot that was made, or not for err.
func (m *metrics) SlotStarted(took time.Duration, err error) {
	m.pool.starts.WithLabelValues(strconv.FormatBool(err == nil)).Inc()
	if err == nil {
		m.pool.start.Observe(max(0, took.Seconds()))
	}
}

// Slots says how many slots there are, and how many are wanted.
func (m *metrics) Slots(ready, wanted int) {
	m.pool.slots.WithLabelValues("ready").Set(float64(ready))
	m.pool.slots.WithLabelValues("wanted").Set(float64(wanted))
}

// Refilled says how long the pool was not full.
func (m *metrics) Refilled(took time.Duration) { m.pool.refill.Observe(max(0, took.Seconds())) }

// reasonLabel is a reason that there is.
func reasonLabel(r pool.Reason) string {
	if slices.Contains(pool.Reasons(), r) {
		return string(r)
	}
	return other
}
