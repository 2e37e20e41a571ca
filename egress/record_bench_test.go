package egress

import (
	"testing"

	"github.com/bulkhead-dev/sandbox/audit/evidence"
)

// BenchmarkRecord measures how many events go through the queue onto the disk:
// decisions to allow, recorded one by one, and refusals, most of them counted.
func BenchmarkRecord(b *testing.B) {
	for name, e := range map[string]Event{"allowed": allowed(), "refused": recordRefused()} {
		b.Run(name, func(b *testing.B) {
			g := recordNewRig(b, RecorderOptions{}, evidence.Options{Burst: 1 << 30})
			for b.Loop() {
				g.Record(e)
			}
			g.flush(b)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
			if c := g.Counters(); c.Lost > 0 {
				b.Errorf("%d were lost", c.Lost)
			}
		})
	}
}

// BenchmarkCallback measures how long the proxy waits for the recorder, while
// there is room in the queue.
func BenchmarkCallback(b *testing.B) {
	g, s := newShaky(b, RecorderOptions{Queue: 1 << 14})
	gate := make(chan struct{})
	s.set(nil, gate)
	e := allowed()
	for n := 0; b.Loop(); n++ {
		if n%(1<<13) == 1<<13-1 { // make room
			b.StopTimer()
			s.set(errNoDisk, nil)
			close(gate)
			_ = g.Flush(b.Context())
			gate = make(chan struct{})
			s.set(nil, gate)
			b.StartTimer()
		}
		g.Record(e)
	}
	b.StopTimer()
	s.set(errNoDisk, nil)
	close(gate)
}

// BenchmarkDecideRequired measures the cost of a decision that requires
// evidence.
func BenchmarkDecideRequired(b *testing.B) {
	g := recordNewRig(b, RecorderOptions{Require: true}, evidence.Options{})
	e := allowed()
	for b.Loop() {
		if err := g.Decide(e); err != nil {
			b.Fatal(err)
		}
	}
}
