package stream

import (
	"context"
	"sync"
	"testing"
)

// TestReaderThatGoesOn holds that a peer is not taken for dead in the moment in
// which the program reads the input that its reader has waited with.
func TestReaderThatGoesOn(t *testing.T) {
	for range 50_000 {
		var l link
		l.behind.Store(true)
		var going sync.WaitGroup
		going.Go(func() { // as input does
			l.heard.Store(true)
			l.behind.Store(false)
		})
		if l.dead(context.DeadlineExceeded) {
			t.Fatal("it is taken for dead")
		}
		going.Wait()
	}
}
