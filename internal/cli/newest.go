package cli

import (
	"errors"
	"iter"

	"github.com/bulkhead-dev/sandbox/audit/journal"
)

// A newestOf is what a list shows of records that are asked for with one more
// than its limit.
type newestOf[T any] struct {
	records []T
	more    bool // there are older ones than the limit shows
	damaged int  // places of the records that cannot be read
}

// gather takes what is to be shown. Damage does not end it.
func gather[T any](all iter.Seq2[T, error], limit int) (newestOf[T], error) {
	n := newestOf[T]{records: []T{}}
	for r, err := range all {
		var d *journal.Damage
		switch {
		case errors.As(err, &d):
			n.damaged++
		case err != nil:
			return n, err
		case limit > 0 && len(n.records) == limit:
			n.more = true
		default:
			n.records = append(n.records, r)
		}
	}
	return n, nil
}

// A shownOf counts what a list shows of records that come one by one.
type shownOf struct {
	limit   int // 0 has no bound
	shown   int
	more    bool // there are older ones than the limit shows
	damaged int  // places of the records that cannot be read
}

// count reports whether the record that came with err is to be shown. Damage
// does not end a list; an error that is returned does.
func (n *shownOf) count(err error) (show bool, _ error) {
	var d *journal.Damage
	switch {
	case errors.As(err, &d):
		n.damaged++
	case err != nil:
		return false, err
	case n.limit > 0 && n.shown == n.limit:
		n.more = true
	default:
		n.shown++
		return true, nil
	}
	return false, nil
}

// oneMore is the limit to ask with, to see whether there are more.
func oneMore(limit int) int {
	if limit > 0 {
		return limit + 1
	}
	return limit
}

// sayMissing says what a list does not show; of damage seeAlso tells where
// there is more about it.
func (a *app) sayMissing(more bool, limit, damaged int, seeAlso string) error {
	if more && !a.globals.json() {
		a.say("only the newest %d are shown; --limit 0 shows all", limit)
	}
	if damaged > 0 {
		a.say("the records are damaged in %s; what was there is not shown%s", count(damaged, "place", "places"), seeAlso)
		return silentStatus(statusFailed)
	}
	return nil
}
