package witness

import (
	"fmt"
	"iter"
	"slices"

	"github.com/bulkhead-dev/sandbox/evidence"
	"github.com/bulkhead-dev/sandbox/evidence/proof"
	"github.com/bulkhead-dev/sandbox/journal"
)

// Bounds of what is remembered while records are paired.
const (
	maxEnds = 64 << 10 // that wait for their begin
	maxSeen = 1024     // operations that were paired lately
)

// An Operation is what the records say of one operation.
type Operation struct {
	Begin  *proof.Begin    // nil: there is only the end, because the begin was lost or is not kept any more
	End    *proof.End      // nil: it has not ended, or nobody has told
	Record evidence.Record // of the begin; of the end, where there is no begin
}

// Pair returns the operations of records that come newest first, as
// [evidence.Store.Query] gives them: each when its begin comes. Records of other
// types, and those that stand for others, are left out; errors are passed on. A
// record that is no begin or end is one of type *[journal.Damage]. Of several
// ends of one operation the one that was written first counts, and of begins
// that come again soon the last one. At the end come ends without begin.
func Pair(records iter.Seq2[evidence.Record, error]) iter.Seq2[Operation, error] {
	return func(yield func(Operation, error) bool) {
		p := pairing{ends: map[string]waiting{}, seen: map[string]bool{}}
		for r, err := range records {
			if err != nil {
				if !yield(Operation{}, err) {
					return
				}
				continue
			}
			o, some, err := p.take(r)
			if (some || err != nil) && !yield(o, err) {
				return
			}
		}
		for {
			o, some := p.oldest()
			if !some || !yield(o, nil) {
				return
			}
		}
	}
}

// A pairing remembers ends until their begins come.
type pairing struct {
	ends  map[string]waiting
	order []string // of ends as they came; some may be gone
	seen  map[string]bool
	ring  [maxSeen]string
	next  int
}

type waiting struct {
	end    proof.End
	record evidence.Record
}

// take returns the operation that r completes, or one that has waited too long.
func (p *pairing) take(r evidence.Record) (o Operation, some bool, err error) {
	if r.Omitted > 0 {
		return o, false, nil
	}
	switch r.Type {
	case evidence.TypeEnd:
		end, err := readData[proof.End](r)
		if err != nil || end.ID == "" {
			return o, false, stranger(r, err)
		}
		if p.seen[end.ID] {
			return o, false, nil
		}
		if _, again := p.ends[end.ID]; !again {
			p.order = append(p.order, end.ID)
		}
		p.ends[end.ID] = waiting{end, r}
		if len(p.ends) > maxEnds {
			o, some = p.oldest()
		}
		return o, some, nil
	case evidence.TypeBegin:
		begin, err := readData[proof.Begin](r)
		if err != nil || begin.ID == "" {
			return o, false, stranger(r, err)
		}
		if p.seen[begin.ID] {
			return o, false, nil
		}
		p.remember(begin.ID)
		o = Operation{Begin: &begin, Record: r}
		if w, ok := p.ends[begin.ID]; ok {
			o.End = &w.end
			delete(p.ends, begin.ID)
			p.tidy()
		}
		return o, true, nil
	}
	return o, false, nil
}

// tidy forgets the order of ends that are gone, now and then.
func (p *pairing) tidy() {
	if len(p.order) < 2*len(p.ends)+64 {
		return
	}
	p.order = slices.DeleteFunc(p.order, func(id string) bool { _, waits := p.ends[id]; return !waits })
}

// remember notes an operation that was told.
func (p *pairing) remember(id string) {
	delete(p.seen, p.ring[p.next])
	p.ring[p.next], p.seen[id] = id, true
	p.next = (p.next + 1) % maxSeen
}

// oldest returns the end that waits for the longest time, as an operation.
func (p *pairing) oldest() (Operation, bool) {
	for len(p.order) > 0 {
		id := p.order[0]
		p.order = p.order[1:]
		if w, ok := p.ends[id]; ok {
			delete(p.ends, id)
			p.remember(id)
			return Operation{End: &w.end, Record: w.record}, true
		}
	}
	return Operation{}, false
}

func stranger(r evidence.Record, err error) error {
	return &journal.Damage{Kind: journal.DamageStranger, File: "journal", Detail: fmt.Sprintf("a record of %s at %s is none: %v", r.Type, r.Time, err)}
}
