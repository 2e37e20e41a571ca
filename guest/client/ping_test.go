package client_test

import (
	"context"
	"sync"
	"testing"

	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// TestPingsGivenUp gives up pings that wait to be sent, beside others: each of
// the others has its answer, which none that was given up has taken.
func TestPingsGivenUp(t *testing.T) {
	c := scripted(t, obliging(func(uint32, *wire.Writer) {}))
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 2000 {
				if err := c.Ping(context.Background()); err != nil {
					t.Error(err)
					return
				}
			}
		})
		all.Go(func() {
			gone, cancel := context.WithCancel(context.Background())
			cancel()
			for range 4000 {
				_ = c.Ping(gone) // sent only when no other goroutine sends
			}
		})
	}
	all.Wait()
	must(t, c.Err())
}
