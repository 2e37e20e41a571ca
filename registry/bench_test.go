package registry

import (
	"fmt"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// fill makes n records.
func fill(b testing.TB, n int) *Store {
	b.Helper()
	s := open(b)
	for i := range n {
		r := record(fmt.Sprintf("sbx-%05d", i))
		r.Session = fmt.Sprint("chat-", i)
		put(b, s, r)
	}
	return s
}

func BenchmarkTouch(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		b.Run(fmt.Sprint("records=", n), func(b *testing.B) {
			s := fill(b, n)
			now := epoch
			for b.Loop() {
				now = now.Add(time.Hour)
				if err := s.Touch(sandbox.KindSandbox, "sbx-00005", now); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkList1000(b *testing.B) {
	s := fill(b, 1000)
	for b.Loop() {
		records, problems, err := s.List("")
		if err != nil || len(records) != 1000 || len(problems) != 0 {
			b.Fatal(len(records), problems, err)
		}
	}
}
