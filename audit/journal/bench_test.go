package journal

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func BenchmarkAppend(b *testing.B) {
	for _, bm := range []struct {
		name string
		o    Options
		old  int // records that are there already
		held *Held
	}{
		{"new", Options{}, 0, nil},
		{"new, held", Options{}, 0, NewHeld()},
		{"50,000 before", Options{}, 50000, nil},
		{"50,000 before, held", Options{}, 50000, NewHeld()},
		{"sync", Options{Sync: true}, 0, nil},
	} {
		b.Run(bm.name, func(b *testing.B) {
			bm.o.Held = bm.held
			j := openBare(b, b.TempDir(), bm.o)
			fillUp(b, j, bm.old)
			r := note{"somebody", 1, strings.Repeat("x", 400)}
			for b.Loop() {
				if err := j.Append(context.Background(), r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func fillUp(b testing.TB, j *Journal, count int) {
	b.Helper()
	batch := make([]any, 0, 500)
	for n := range count {
		batch = append(batch, note{"somebody", n, strings.Repeat("x", 400)})
		if len(batch) == cap(batch) || n == count-1 {
			if err := j.Append(context.Background(), batch...); err != nil {
				b.Fatal(err)
			}
			batch = batch[:0]
		}
	}
}

func BenchmarkRecords(b *testing.B) {
	j := open(b, b.TempDir(), Options{MaxTotal: 100 << 20})
	fillUp(b, j, 50000)
	for name, r := range map[string]Range{"forward": {}, "backward": {Backward: true}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				for _, err := range j.Records(context.Background(), r) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
	b.Run("verify", func(b *testing.B) {
		for b.Loop() {
			if r := verify(b, j); !r.OK() {
				b.Fatal(r.Damage)
			}
		}
	})
}

// BenchmarkContention has eight journals on one folder append at once, as
// processes do.
func BenchmarkContention(b *testing.B) {
	dir := b.TempDir()
	var done sync.WaitGroup
	var worst atomic.Int64
	share := b.N/8 + 1
	for range 8 {
		j := open(b, dir, Options{})
		done.Go(func() {
			for n := range share {
				began := time.Now()
				if err := j.Append(context.Background(), note{"somebody", n, strings.Repeat("x", 400)}); err != nil {
					b.Error(err)
				}
				took := int64(time.Since(began))
				for {
					old := worst.Load()
					if took <= old || worst.CompareAndSwap(old, took) {
						break
					}
				}
			}
		})
	}
	done.Wait()
	b.ReportMetric(float64(worst.Load())/1e6, "worst-ms")
}
