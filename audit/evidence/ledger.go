package evidence

import (
	"cmp"
	"slices"
	"time"
)

// maxCounted bounds the sandboxes whose records are counted at one time.
const maxCounted = 1024

// A counted says which records share a count.
type counted struct {
	tenant, sandbox string
	kind            Type
	share           Share
}

// sumEvery is how often the count of a flood is written while that lasts.
const sumEvery = 10 * time.Second

// A tally says how many records may still be kept, and counts those that were
// not and of which nothing was written yet.
type tally struct {
	room     float64   // records that may be kept at the time at
	at       time.Time // of the last look
	reported time.Time // when a record last reported omissions; zero: none recently

	like    Record // one of those that were not kept
	omitted int64
	first   time.Time
	last    time.Time
}

// A ledger decides which records are kept one by one. Time is given to it.
type ledger struct {
	burst, rate int // see Options
	tallies     map[counted]*tally
}

// take returns the records to write when rs arrive at now: those that are kept
// one by one, and counts that are due. It returns the counts among them once
// more, for giveBack.
func (l *ledger) take(now time.Time, rs []Record) (out, counts []Record) {
	if l.tallies == nil {
		l.tallies = map[counted]*tally{}
	}
	for k, t := range l.tallies {
		l.refill(t, now)
		if since := now.Sub(t.reported); !t.reported.IsZero() && (since >= sumEvery || since < 0) { // clocks can be set back
			counts = append(counts, t.sum(now)...)
		}
		if t.reported.IsZero() && t.room >= float64(l.burst) {
			delete(l.tallies, k)
		}
	}
	if len(counts) > 0 {
		sortByTime(counts)
	}
	out = append(make([]Record, 0, len(counts)+len(rs)), counts...)
	for _, r := range rs {
		if r.Share == Exact || r.Omitted > 0 {
			out = append(out, r)
			continue
		}
		t, sums := l.tally(now, r)
		out, counts = append(out, sums...), append(counts, sums...)
		switch {
		case t.room >= 1:
			t.room--
			out = append(out, r)
		case t.reported.IsZero(): // at once, should we not come to write the count
			t.reported = now
			first := r.Omit(1, Omission{Reason: OmittedFlood, Since: r.Time, Until: r.Time})
			out, counts = append(out, first), append(counts, first)
		default:
			t.omit(r, 1, r.Time, r.Time)
		}
	}
	return out, counts
}

// refill adds the room that came with the time since the last look.
func (l *ledger) refill(t *tally, now time.Time) {
	if passed := now.Sub(t.at); passed > 0 {
		t.room = min(t.room+passed.Seconds()*float64(l.rate), float64(l.burst))
	}
	t.at = now
}

// tally returns the count that r belongs to, and what has to be written to
// make room for it.
func (l *ledger) tally(now time.Time, r Record) (*tally, []Record) {
	k := keyOf(r)
	if t := l.tallies[k]; t != nil {
		return t, nil
	}
	var sums []Record
	if len(l.tallies) >= maxCounted { // that of which the least would be forgotten
		var fullest counted
		for k, t := range l.tallies {
			if o := l.tallies[fullest]; o == nil || t.room > o.room {
				fullest = k
			}
		}
		sums = l.tallies[fullest].sum(now)
		delete(l.tallies, fullest)
	}
	t := &tally{room: float64(l.burst), at: now}
	l.tallies[k] = t
	return t, sums
}

func keyOf(r Record) counted { return counted{r.Tenant, r.Sandbox, r.Type, r.Share} }

// omit counts n records like r.
func (t *tally) omit(r Record, n int64, first, last time.Time) {
	if t.omitted == 0 {
		t.like, t.first, t.last = r, first, last
		t.like.Data = nil
	}
	t.omitted += n
	if first.Before(t.first) {
		t.first = first
	}
	if last.After(t.last) {
		t.last = last
	}
	// Other agents that the records may belong to are not kept.
	if t.like.Agent != r.Agent {
		t.like.Agent = ""
	}
	if t.like.Session != r.Session {
		t.like.Session = ""
	}
}

// sum returns the record of what was only counted, if anything was, and
// forgets the count.
func (t *tally) sum(now time.Time) []Record {
	if t.omitted == 0 {
		t.reported = time.Time{}
		return nil
	}
	r := t.like.Omit(t.omitted, Omission{Reason: OmittedFlood, Since: t.first, Until: t.last})
	t.omitted, t.like, t.reported = 0, Record{}, now
	return []Record{r}
}

// settle returns what was only counted, the oldest first.
func (l *ledger) settle(now time.Time) []Record {
	var out []Record
	for _, t := range l.tallies {
		if t.omitted > 0 {
			out = append(out, t.sum(now)...)
		}
	}
	sortByTime(out)
	return out
}

// giveBack takes counts that could not be written: they are counted again.
func (l *ledger) giveBack(counts []Record) {
	for _, r := range counts {
		t := l.tallies[keyOf(r)]
		if t == nil { // it had to make room
			t = &tally{room: float64(l.burst), at: r.Time, reported: r.Time}
			l.tallies[keyOf(r)] = t
		}
		o, ok := r.omission()
		if !ok {
			o.Since, o.Until = r.Time, r.Time
		}
		t.omit(r, r.Omitted, o.Since, o.Until)
	}
}

func sortByTime(rs []Record) {
	slices.SortStableFunc(rs, func(a, b Record) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Sandbox, b.Sandbox))
	})
}
