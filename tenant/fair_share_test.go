package tenant

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

const slotTime = 10 * time.Millisecond

// flood has n callers of a tenant in line, each of which holds its slot for the
// slot time.
func flood(t *testing.T, q *Queue, tenant string, n int, wg *sync.WaitGroup) {
	for range n {
		wg.Go(func() {
			s, err := q.Acquire(t.Context(), tenant)
			if err != nil {
				t.Error(err)
				return
			}
			time.Sleep(slotTime) // of the bubble's clock
			s.Release()
		})
	}
	synctest.Wait()
}

// TestFloodDelaysByItsShare checks that 10,000 callers of one tenant delay the
// recurring caller of another by one slot time for each tenant and the one that
// is running.
func TestFloodDelaysByItsShare(t *testing.T) {
	for _, others := range []int{0, 1, 5} {
		for _, slots := range []int{1, 4} {
			t.Run(fmt.Sprintf("%d slots, %d more", slots, others), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					q := queue(t, Options{Slots: slots, Waiting: 10000})
					var wg sync.WaitGroup
					flood(t, q, "a", 10000, &wg)
					for n := range others {
						flood(t, q, fmt.Sprint("other ", n), 500, &wg)
					}
					bound := time.Duration(others+2) * slotTime
					var worst time.Duration
					for range 100 {
						began := time.Now()
						s := acquire(t, q, "b")
						worst = max(worst, time.Since(began))
						time.Sleep(slotTime)
						s.Release()
					}
					if worst > bound {
						t.Errorf("b had to wait for %v, and %v is its bound", worst, bound)
					}
					if got := q.Load(); got.Waiting < 1000 {
						t.Errorf("nobody was in the way: %+v", got)
					}
					wg.Wait()
					wantLoad(t, q, Load{})
				})
			})
		}
	}
}

// TestSharesFollowWeights counts the callers served by tenant while all have
// callers waiting.
func TestSharesFollowWeights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		weights := map[string]int{"a": 1, "b": 2, "c": 5}
		q := queue(t, Options{Slots: 1, Waiting: 2000, Weight: func(t string) int { return weights[t] }})
		var served [3]atomic.Int64
		held := acquire(t, q, "z")
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i, name := range []string{"a", "b", "c"} {
			for range 2000 {
				wg.Go(func() {
					if s, err := q.Acquire(ctx, name); err == nil {
						time.Sleep(slotTime)
						served[i].Add(1)
						s.Release()
					}
				})
			}
		}
		synctest.Wait()
		held.Release()
		time.Sleep(800*slotTime + slotTime/2)
		a, b, c := served[0].Load(), served[1].Load(), served[2].Load()
		if a != 100 || b != 200 || c != 500 {
			t.Errorf("served %d, %d and %d of 800, want 100, 200 and 500", a, b, c)
		}
		cancel()
		wg.Wait()
		wantLoad(t, q, Load{})
	})
}

// TestAnyOrder has callers come, hold and give up at random. No tenant is
// passed over by more than the weights of the others, and all slots are there
// in the end.
func TestAnyOrder(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 8))
			tenants, slots := 2+r.IntN(5), 1+r.IntN(3)
			q := queue(t, Options{Slots: slots, Waiting: 1000})
			served := make([]atomic.Int64, tenants)
			var held atomic.Int64
			var wg sync.WaitGroup
			for range 400 {
				who, hold, patience := r.IntN(tenants), time.Duration(r.IntN(5)), time.Duration(r.IntN(60))
				come := time.Duration(r.IntN(300))
				wg.Go(func() {
					time.Sleep(come * time.Millisecond)
					ctx, cancel := context.WithTimeout(t.Context(), patience*time.Millisecond)
					defer cancel()
					s, err := q.Acquire(ctx, fmt.Sprint(who))
					if err != nil {
						return
					}
					if n := held.Add(1); n > int64(slots) {
						t.Errorf("%d slots are held of %d", n, slots)
					}
					served[who].Add(1)
					time.Sleep(hold * time.Millisecond)
					held.Add(-1)
					s.Release()
				})
			}
			wg.Wait()
			wantLoad(t, q, Load{})
			for who := range served {
				if served[who].Load() == 0 {
					t.Errorf("tenant %d was never served", who)
				}
			}
		})
	}
}

func BenchmarkUncontended(b *testing.B) {
	q := queue(b, Options{Slots: 4})
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		s, err := q.Acquire(ctx, "a")
		if err != nil {
			b.Fatal(err)
		}
		s.Release()
	}
}

func BenchmarkContended(b *testing.B) {
	q := queue(b, Options{Slots: 1, Waiting: 1000})
	ctx := context.Background()
	var n atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		name := fmt.Sprint(n.Add(1) % 4)
		for pb.Next() {
			s, err := q.Acquire(ctx, name)
			if err != nil {
				b.Error(err)
				return
			}
			s.Release()
		}
	})
}
