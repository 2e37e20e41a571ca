package ledger

import (
	"fmt"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/grant/budget"
)

// chainOf is what a call of a tool draws from.
func chainOf(grant string) []Limit {
	return []Limit{
		{ID: "grant:" + grant, Bound: budget.NoBound(), Expires: time.Now().Add(time.Hour)},
		calls("session:s", budget.Unlimited), calls("agent:a", budget.Unlimited), calls("tenant:t", budget.Unlimited),
	}
}

// BenchmarkDraw is one reservation and its settlement, from a chain of four.
func BenchmarkDraw(b *testing.B) {
	for _, bm := range []struct {
		name string
		o    Options
	}{{"", Options{}}, {"sync", Options{Sync: true}}} {
		b.Run("reserve"+bm.name, func(b *testing.B) {
			a := account(b, open(b, b.TempDir(), bm.o), chainOf("g")...)
			for b.Loop() {
				reserve(b, a, 1)
			}
		})
	}
	b.Run("reserve and settle", func(b *testing.B) {
		a := account(b, open(b, b.TempDir(), Options{}), chainOf("g")...)
		for b.Loop() {
			if err := reserve(b, a, 2).Settle(bg(), call(1)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("contended", func(b *testing.B) {
		l := open(b, b.TempDir(), Options{})
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			a := account(b, l, chainOf("g")...)
			for pb.Next() {
				reserve(b, a, 1)
			}
		})
	})
}

// BenchmarkAccount opens a chain whose grant is new.
func BenchmarkAccount(b *testing.B) {
	l := open(b, b.TempDir(), Options{MaxAccounts: 1 << 20})
	n := 0
	for b.Loop() {
		n++
		account(b, l, chainOf(fmt.Sprint(n))...)
	}
}
