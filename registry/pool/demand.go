package pool

import (
	"slices"
	"time"
)

// Busiest is the span in which claims are counted for [Demand.Kept].
const Busiest = time.Minute

// A Demand is what settings say about how many slots of a shape to keep.
type Demand struct {
	Size   int           // at least so many
	Max    int           // at most so many; Size where it is below that
	Window time.Duration // for how long a claim counts
	Memory int64         // most bytes of all free slots together; 0 is no bound
	Each   int64         // bytes that one slot may take; 0 is unbounded
	Host   int64         // bytes of the machine, of which slots above Size get half; 0 is not known
}

// Kept returns how many slots to keep ready now, where at are the times of the
// claims that found a slot or would have taken one: as many as were wanted in
// the busiest minute of the window, within the bounds. bound says which bound
// made it fewer than that, in the words of the settings, or is empty.
func (d Demand) Kept(at []time.Time, now time.Time) (n int, bound string) {
	n = d.peak(at, now)
	if n <= d.Size {
		n = d.Size
	} else if most := max(d.Size, d.Max); n > most {
		n, bound = most, "pool.max"
	}
	switch {
	case n == 0:
	case d.Memory > 0 && d.Each <= 0:
		return 0, "pool.memory" // one of them alone may take more
	case d.Memory > 0:
		if fit := d.Memory / d.Each; int64(n) > fit {
			return int(fit), "pool.memory"
		}
	case d.Host > 0 && d.Each > 0 && n > d.Size:
		if fit := max(d.Host/2/d.Each, int64(d.Size)); int64(n) > fit {
			return int(fit), "half of this machine's memory"
		}
	}
	return n, bound
}

// peak is the number of claims in the busiest minute of the window.
func (d Demand) peak(at []time.Time, now time.Time) (most int) {
	var counted []time.Time
	for _, t := range at {
		if age := now.Sub(t); age < d.Window && age > -Busiest { // clocks are set back
			counted = append(counted, t)
		}
	}
	slices.SortFunc(counted, time.Time.Compare)
	first := 0
	for i, t := range counted {
		for t.Sub(counted[first]) >= Busiest {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// Backoff returns how long to wait before the next start of a shape after so
// many that have failed one after the other: a second, doubled with each more, at
// most five minutes. No failure is no wait.
func Backoff(failures int) time.Duration {
	if failures <= 0 {
		return 0
	}
	const most = 5 * time.Minute
	return min(time.Second<<min(failures-1, 10), most)
}
