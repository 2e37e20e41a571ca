//go:build !sandbox_front && !sandbox_engine

package main

import (
	"sync"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// tracesPerSecond is how many traces a second the daemon begins where the environment
// names no sampler. It bounds what tracing costs a busy daemon; a busy daemon's traces
// are much alike.
const tracesPerSecond = 100

// A rateSampler samples as many traces a second, and as many at once. It is safe for
// concurrent use.
type rateSampler struct {
	rate float64
	now  func() time.Time

	mu   sync.Mutex
	room float64 // traces that may begin
	last time.Time
}

func newRateSampler(rate float64, now func() time.Time) *rateSampler {
	return &rateSampler{rate: rate, now: now, room: rate, last: now()}
}

// ShouldSample implements [sdktrace.Sampler].
func (s *rateSampler) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	r := sdktrace.SamplingResult{Decision: sdktrace.Drop, Tracestate: trace.SpanContextFromContext(p.ParentContext).TraceState()}
	if s.take() {
		r.Decision = sdktrace.RecordAndSample
	}
	return r
}

func (s *rateSampler) take() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	s.room = min(s.rate, s.room+max(0, now.Sub(s.last).Seconds())*s.rate)
	s.last = now
	if s.room < 1 {
		return false
	}
	s.room--
	return true
}

// Description implements [sdktrace.Sampler].
func (s *rateSampler) Description() string { return "traces a second" }
