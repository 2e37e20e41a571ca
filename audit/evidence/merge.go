package evidence

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/bulkhead-dev/sandbox/audit/journal"
)

// Bounds of what a merge holds of each journal, and of all together.
const (
	mostHeld = 8192 // records
	minPage  = 16   // records
	maxPage  = 1024 // records
)

// merge returns what f means of many journals, the newest first. Of each it
// holds a page of records and no open file, so that there may be thousands.
func merge(ctx context.Context, from []*journal.Journal, f Filter) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		var open []*source
		for _, j := range from {
			open = append(open, &source{journal: j, f: f, size: min(max(mostHeld/len(from), minPage), maxPage)})
		}
		for n := 0; f.Limit == 0 || n < f.Limit; {
			newest := -1
			for i := 0; i < len(open); i++ {
				if err := open[i].fill(ctx); err != nil {
					yield(Record{}, err)
					return
				}
				if len(open[i].page) == 0 {
					open[i] = open[len(open)-1]
					open = open[:len(open)-1]
					i--
					continue
				}
				if newest < 0 || open[i].page[0].before(open[newest].page[0]) {
					newest = i
				}
			}
			if newest < 0 {
				return
			}
			next := open[newest].page[0]
			open[newest].page = open[newest].page[1:]
			if !yield(next.record, next.err) {
				return
			}
			if next.err == nil {
				n++
			}
		}
	}
}

// A found is a record, or a place that is damaged.
type found struct {
	record Record
	err    error
	at     time.Time // of the append
}

// before reports whether f comes before g: damage at once, others when they
// are newer.
func (f found) before(g found) bool {
	return g.err == nil && (f.err != nil || f.at.After(g.at))
}

// A source is read backwards, page by page.
type source struct {
	journal *journal.Journal
	f       Filter
	size    int    // of a page
	next    uint64 // number of the record at which the next page begins; 0: the end
	all     bool   // there is no further page
	page    []found
}

// fill reads a page when there is none, and leaves none when there is nothing
// more.
func (s *source) fill(ctx context.Context) error {
	if len(s.page) > 0 || s.all {
		return nil
	}
	s.page = make([]found, 0, min(s.size, 64))
	resumed := s.next > 0 // damage before the first record was in the page before
	for raw, err := range s.journal.Records(ctx, journal.Range{Backward: true, Last: s.next}) {
		var d *journal.Damage
		switch {
		case errors.As(err, &d):
			if !resumed && d.Kind != journal.DamageTorn {
				s.page = append(s.page, found{err: d})
			}
			continue
		case err != nil:
			return err
		}
		resumed = false
		if len(s.page) >= s.size {
			s.next = raw.Seq
			return nil
		}
		r, err := decode(raw)
		if err != nil || s.f.Match(r) {
			s.page = append(s.page, found{r, err, raw.Time})
		}
	}
	s.all = true
	return nil
}
