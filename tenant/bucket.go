package tenant

import (
	"math"
	"time"
)

// longest bounds the times of a bucket: no limits make sums of them overflow.
const longest = time.Duration(math.MaxInt64 / 4)

// A bucket contains requests that may be sent at once and fills at a steady
// rate. Its state is the time at which it is full again: each request moves
// that time by the interval between two requests. The zero value is full.
type bucket struct{ full time.Time }

// take draws n requests from a bucket that fills at the rate of perSecond and
// has the capacity burst. When n is too much it draws nothing and returns how
// long to wait; a negative wait means that it will never be possible.
func (b bucket) take(n, perSecond, burst int64, now time.Time) (after bucket, wait time.Duration) {
	switch {
	case n == 0 || perSecond < 0:
		return b, 0
	case perSecond == 0 || n > burst:
		return b, -1
	}
	each := max(1, time.Duration((int64(time.Second)+perSecond-1)/perSecond)) // rounded up: never more than the rate
	most := now.Add(times(each, burst))
	full := b.full
	switch {
	case full.Before(now):
		full = now
	case full.After(most): // a clock was set back, or the limits were changed
		full = most
	}
	full = full.Add(times(each, n))
	if wait := full.Sub(most); wait > 0 {
		return b, wait
	}
	return bucket{full}, 0
}

func times(d time.Duration, n int64) time.Duration {
	if n > int64(longest/d) {
		return longest
	}
	return d * time.Duration(n)
}
