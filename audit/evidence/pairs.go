// This file pairs the begin and the end of an operation in the evidence.

package evidence

import (
	"container/list"
	"encoding/json"
	"errors"
	"iter"

	"github.com/bulkhead-dev/sandbox/audit/journal"
)

// maxOpen bounds the ends that wait for their begin. In a record of which
// nothing is missing there are as many as operations ran at one time.
const maxOpen = 4096

// An Item is one operation, or a record that is no part of one.
type Item struct {
	// Begin and End belong to one operation. Begin is nil when the record no
	// longer contains it; End is nil while the operation runs, or until a
	// program records its end.
	Begin *Begin
	End   *End

	// Records are what the item was made of, the newest first: one or two.
	Records []Record
}

// Operation reports whether the item is one.
func (i Item) Operation() bool { return i.Begin != nil || i.End != nil }

// First is the record that says when the item was and whose: that of the begin
// where there is one.
func (i Item) First() Record { return i.Records[len(i.Records)-1] }

// A pairsKey identifies an operation: an id is unique only within its tenant.
type pairsKey struct{ tenant, id string }

// Newest pairs records that arrive newest first, as [evidence.Store.Query]
// returns them. It yields operations in the order of their begins; an end
// without a begin comes last, or earlier when too many are pending. It yields a
// record whose data cannot be read as an error of type *[journal.Damage] and
// continues; errors of all pass through. Memory use does not grow with the
// number of records.
func Newest(all iter.Seq2[Record, error]) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		w := waiting{by: map[pairsKey]*list.Element{}}
		for r, err := range all {
			item, some := Item{Records: []Record{r}}, true
			if err == nil {
				item, some, err = w.take(item, r)
			}
			if err != nil {
				item = Item{}
			}
			if some && !yield(item, err) {
				return
			}
		}
		for e := w.order.Front(); e != nil; e = e.Next() {
			if !yield(e.Value.(Item), nil) {
				return
			}
		}
	}
}

// waiting are the ends that wait, in the order in which they came.
type waiting struct {
	by    map[pairsKey]*list.Element
	order list.List
}

// take returns what r makes whole, and whether that is anything yet.
func (w *waiting) take(item Item, r Record) (_ Item, some bool, err error) {
	switch {
	case r.Omitted > 0:
		return item, true, nil
	case r.Type == TypeEnd:
		var e End
		if err := read(r, &e, func() string { return e.ID }); err != nil {
			return item, true, err
		}
		item.End = &e
		out, some := w.put(pairsKey{r.Tenant, e.ID}, item)
		return out, some, nil
	case r.Type == TypeBegin:
		var b Begin
		if err := read(r, &b, func() string { return b.ID }); err != nil {
			return item, true, err
		}
		item.Begin = &b
		if e := w.remove(pairsKey{r.Tenant, b.ID}); e != nil {
			item.End, item.Records = e.End, append(e.Records, r)
		}
	}
	return item, true, nil
}

// put has an end wait. Of two ends of one operation the first one that was
// written counts and the other is passed on by itself; so is the one that has
// waited longest where too many do.
func (w *waiting) put(k pairsKey, end Item) (out Item, some bool) {
	if was := w.remove(k); was != nil {
		out, some = *was, true
	}
	w.by[k] = w.order.PushBack(end)
	if len(w.by) > maxOpen {
		first := w.order.Front().Value.(Item)
		return *w.remove(pairsKey{first.Records[0].Tenant, first.End.ID}), true
	}
	return out, some
}

func (w *waiting) remove(k pairsKey) *Item {
	e, ok := w.by[k]
	if !ok {
		return nil
	}
	delete(w.by, k)
	item := w.order.Remove(e).(Item)
	return &item
}

// read reads the data of a record, which has to name the operation.
func read(r Record, into any, id func() string) error {
	err := json.Unmarshal(r.Data, into)
	if err == nil && (id() == "" || len(id()) > 256) {
		err = errors.New("it does not name its operation")
	}
	if err != nil {
		return &journal.Damage{Kind: journal.DamageStranger, File: "journal", Detail: "a record of type " + string(r.Type) + " is none: " + err.Error()}
	}
	return nil
}
