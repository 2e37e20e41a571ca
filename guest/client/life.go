package client

import (
	"context"
	"time"
)

// lifeTicks is how many parts signWithin is counted in.
const lifeTicks = 8

// signOfLife reports whether the guest answers in time, be it by what closes
// ended. Only time in which we ran ourselves counts, which ticks tell: one that
// comes late counts once, and is not the last, so that what came meanwhile can
// be read first.
func (c *Client) signOfLife(ended <-chan struct{}) bool {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	sign := make(chan error, 1)
	go func() { sign <- c.Ping(ctx) }()
	const tick = signWithin / lifeTicks
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	before, late := time.Now(), false
	for n := 0; n < lifeTicks || late && n < 2*lifeTicks; n++ {
		select {
		case <-ended:
			return true
		case err := <-sign:
			return err == nil
		case <-ticker.C:
			now := time.Now()
			late = now.Sub(before) > 2*tick
			before = now
		}
	}
	select { // with the last tick
	case <-ended:
		return true
	case err := <-sign:
		return err == nil
	default:
		return false
	}
}

// comesWithin waits until done is closed, at most for d.
func comesWithin(done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
	}
	select { // with the timer
	case <-done:
		return true
	default:
		return false
	}
}
