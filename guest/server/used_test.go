//go:build linux

package server

import (
	"sync"
	"testing"
	"time"
)

// TestAsks follows questions and answers in all their orders.
func TestAsks(t *testing.T) {
	var a asks
	if _, ok := a.take(); ok {
		t.Error("an answer without a question")
	}
	if !a.put(1) || !a.put(2) {
		t.Error("nobody looks because of a question")
	}
	number, ok := a.take()
	if !ok || number != 2 {
		t.Errorf("the answer is to %d, %v; want that to the latest question", number, ok)
	}
	a.put(3) // while the answer is under way
	if _, ok := a.take(); ok {
		t.Error("two answers at once")
	}
	sent := 0
	if again := a.send(func() { sent++ }); !again || sent != 1 {
		t.Errorf("sent %d, the question that came meanwhile is forgotten: %v", sent, !again)
	}
	if number, ok := a.take(); !ok || number != 3 {
		t.Errorf("%d, %v", number, ok)
	}
	a.close()
	if again := a.send(func() { sent++ }); again || sent != 1 {
		t.Error("an answer after the last one")
	}
	if a.put(4) {
		t.Error("a question after the end is looked at")
	}
}

// TestAsksCloseWaits holds that nothing follows the last answer: an answer that
// is being sent has come out when close returns.
func TestAsksCloseWaits(t *testing.T) {
	for range 200 {
		var a asks
		var last, late bool
		var order sync.Mutex
		a.put(1)
		if _, ok := a.take(); !ok {
			t.Fatal("no question")
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			a.send(func() {
				order.Lock()
				defer order.Unlock()
				late = late || last
			})
		})
		a.close()
		order.Lock()
		last = true
		order.Unlock()
		wg.Wait()
		if late {
			t.Fatal("an answer followed the last one")
		}
	}
}

// TestNote holds that neither time goes back, and that the sum is that of the
// exact clock.
func TestNote(t *testing.T) {
	var a asks
	for _, tt := range []struct{ cpu, system, wantUser, wantSystem time.Duration }{
		{100, 0, 100, 0}, {105, 50, 100, 5}, {104, 60, 100, 5}, {200, 60, 140, 60}, {50, 1000, 140, 60}, {300, 0, 240, 60},
	} {
		a.note(meterUse{CPU: tt.cpu, System: tt.system})
		if a.user != tt.wantUser || a.system != tt.wantSystem {
			t.Errorf("after %v, %v: %v and %v", tt.cpu, tt.system, a.user, a.system)
		}
	}
}

// TestSpent checks that a shim that was used before charges no later command
// for it.
func TestSpent(t *testing.T) {
	before := spent{user: 100, system: 10}
	for _, tt := range []struct{ report, user, system uint64 }{{150, 50, 140}, {100, 0, 90}, {5, 0, 0}} {
		user, system := before.until(shimReport{User: tt.report, System: tt.report})
		if user != tt.user || system != tt.system {
			t.Errorf("%d: %d and %d", tt.report, user, system)
		}
	}
}
