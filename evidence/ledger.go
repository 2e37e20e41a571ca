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

// A tally counts the records of one second, and those that were not kept and
// of which nothing was written yet.
type tally struct {
	since time.Time // when the second began
	kept  int

	like    Record // one of those that were not kept
	omitted int64
	first   time.Time
	last    time.Time
}

// A ledger decides which records are kept one by one. Time is given to it.
type ledger struct {
	most    int // in a second
	tallies map[counted]*tally
}

// take returns what is to be written when rs come in at now: what is kept one
// by one, and the counts of seconds that are over. The counts among them are
// returned once more, for giveBack.
func (l *ledger) take(now time.Time, rs []Record) (out, counts []Record) {
	if l.tallies == nil {
		l.tallies = map[counted]*tally{}
	}
	for k, t := range l.tallies {
		if age := now.Sub(t.since); age >= time.Second || age < -time.Second { // clocks can be set back
			counts = append(counts, t.sum()...)
			delete(l.tallies, k)
		}
	}
	sortByTime(counts)
	out = append(out, counts...)
	for _, r := range rs {
		if r.Share == Exact || r.Omitted > 0 {
			out = append(out, r)
			continue
		}
		t, sums := l.tally(now, r)
		out, counts = append(out, sums...), append(counts, sums...)
		switch {
		case t.kept < l.most:
			t.kept++
			out = append(out, r)
		case t.kept == l.most: // at once, should we not come to write the count
			t.kept++
			first := r.Omit(1, Omission{Reason: OmittedFlood, Since: r.Time, Until: r.Time})
			out, counts = append(out, first), append(counts, first)
		default:
			t.omit(r, 1, r.Time, r.Time)
		}
	}
	return out, counts
}

// tally returns the count that r belongs to, and what has to be written to
// make room for it.
func (l *ledger) tally(now time.Time, r Record) (*tally, []Record) {
	k := keyOf(r)
	if t := l.tallies[k]; t != nil {
		return t, nil
	}
	var sums []Record
	if len(l.tallies) >= maxCounted {
		var oldest counted
		for k, t := range l.tallies {
			if o := l.tallies[oldest]; o == nil || t.since.Before(o.since) {
				oldest = k
			}
		}
		sums = l.tallies[oldest].sum()
		delete(l.tallies, oldest)
	}
	t := &tally{since: now}
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
	// Who else it may have been is not kept.
	if t.like.Agent != r.Agent {
		t.like.Agent = ""
	}
	if t.like.Session != r.Session {
		t.like.Session = ""
	}
}

// sum returns the record of what was only counted, if anything was, and
// forgets the count.
func (t *tally) sum() []Record {
	if t.omitted == 0 {
		return nil
	}
	r := t.like.Omit(t.omitted, Omission{Reason: OmittedFlood, Since: t.first, Until: t.last})
	t.omitted, t.like = 0, Record{}
	return []Record{r}
}

// settle returns what was only counted, the oldest first.
func (l *ledger) settle() []Record {
	var out []Record
	for _, t := range l.tallies {
		out = append(out, t.sum()...)
	}
	sortByTime(out)
	return out
}

// giveBack takes counts that could not be written: they are counted again.
func (l *ledger) giveBack(counts []Record) {
	for _, r := range counts {
		t := l.tallies[keyOf(r)]
		if t == nil { // its second is over; the next one tells
			t = &tally{since: r.Time}
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
