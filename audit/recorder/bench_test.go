package recorder

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// BenchmarkOperation measures a begin and an end, on disk when they return and
// without fsync, as one program at a time has them.
func BenchmarkOperation(b *testing.B) {
	for _, bm := range []struct {
		name    string
		require bool
	}{{"required", true}, {"not required", false}} {
		b.Run(bm.name, func(b *testing.B) {
			w := benchRecorder(b)
			begin, how := write("acme"), wrote()
			ctx := context.Background()
			var took []time.Duration
			b.ReportAllocs()
			for b.Loop() {
				began := time.Now()
				e, err := w.Begin(ctx, begin, bm.require)
				if err != nil {
					b.Fatal(err)
				}
				if err := e.End(ctx, how); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2])/1e3, "p50-µs")
			b.ReportMetric(float64(took[len(took)*95/100])/1e3, "p95-µs")
		})
	}
}

// BenchmarkParallel measures 64 goroutines: those that wait at the same time
// share a write.
func BenchmarkParallel(b *testing.B) {
	w := benchRecorder(b)
	begin, how := write("acme"), wrote()
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			e, err := w.Begin(context.Background(), begin, true)
			if err != nil {
				b.Error(err)
				return
			}
			if err := e.End(context.Background(), how); err != nil {
				b.Error(err)
			}
		}
	})
}

// BenchmarkNothingToRecover measures what every start costs.
func BenchmarkNothingToRecover(b *testing.B) {
	w := benchRecorder(b)
	e, err := w.Begin(context.Background(), write("acme"), true)
	if err != nil {
		b.Fatal(err)
	}
	defer e.End(context.Background(), wrote())
	for b.Loop() {
		if n, err := w.Recover(context.Background()); n != 0 || err != nil {
			b.Fatal(n, err)
		}
	}
}

func benchRecorder(b *testing.B) *Recorder {
	b.Helper()
	dir := b.TempDir()
	w, err := Open(Options{
		Sinks: []Sink{NewFile("file", openStore(b, dir))}, Writers: filepath.Join(dir, "writers"), Log: (&logBook{}).logger(),
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := w.Close(); err != nil {
			b.Error(err)
		}
	})
	return w
}
