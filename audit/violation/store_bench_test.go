package violation

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// BenchmarkAppend is what a command costs that was stopped once.
func BenchmarkAppend(b *testing.B) {
	c := newClock()
	s := open(b, Options{Now: c.Now})
	n := 0
	for b.Loop() {
		n++
		c.now = c.now.Add(time.Second)
		r := Record{Tenant: "acme", Session: fmt.Sprint(n % 20), Type: WallPath, Resource: fmt.Sprint("/some/where/", n), Rule: "filesystem.denyRead: /some"}
		if err := s.Append(context.Background(), r); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAppendFlood is what a command costs that was stopped 10,000 times.
func BenchmarkAppendFlood(b *testing.B) {
	s := open(b, Options{})
	flood := make([]Record, 10000)
	for i := range flood {
		flood[i] = Record{Type: WallPath, Resource: fmt.Sprint("/x/", i)}
	}
	for b.Loop() {
		if err := s.Append(context.Background(), flood...); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkQuery reads 30,000 records.
func BenchmarkQuery(b *testing.B) {
	c := newClock()
	s := open(b, Options{Now: c.Now})
	for n := range 30000 / maxAtOnce {
		c.now = c.now.Add(storeWindow)
		var batch []Record
		for i := range maxAtOnce {
			batch = append(batch, Record{Tenant: "acme", Session: "chat-42", Sandbox: "sbx-chat-42-0123456789abcdef", Type: WallPath, Resource: fmt.Sprint("/some/where/", n, "/", i), Rule: "filesystem.denyRead: /some"})
		}
		if err := s.Append(context.Background(), batch...); err != nil {
			b.Fatal(err)
		}
	}
	for name, f := range map[string]Filter{"all": {Tenant: "acme"}, "newest 100": {Tenant: "acme", Limit: 100}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				for _, err := range s.Query(context.Background(), f) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
