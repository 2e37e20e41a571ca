package resource

import (
	"errors"
	"iter"

	"github.com/bulkhead-dev/sandbox/audit/journal"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// streamDoc is the documentation of every list that can be streamed.
const streamDoc = "With Accept: text/event-stream each record is an event, as many as there are, or as limit says; " +
	"a stream that ends without an event end or error was cut off."

// recordEvents returns the events of a stream of records.
func recordEvents(record any) []Event {
	return []Event{
		{Name: api.EventRecord, Data: record, Doc: "One record"},
		{Name: api.EventDamaged, Data: api.DamagedPlace{}, Doc: "A place of the records that cannot be read"},
		{Name: api.EventEnd, Data: api.EndOfRecords{}, Doc: "There is no more of what was asked for; the last event"},
		{Name: api.EventError, Data: api.Problem{}, Doc: "Why the rest cannot be sent; the last event"},
	}
}

// oneMore returns the limit of a query that has to show whether there are more
// than limit records.
func oneMore(limit int) int {
	if limit == 0 {
		return 0
	}
	return limit + 1
}

// streamList answers with the first limit records of all, one event each; 0 is
// all of them. An error before the first event is returned, and answered as for
// every route.
func streamList[T, S any](c *Call, all iter.Seq2[T, error], limit int, shown func(T) S) (any, error) {
	var e *Events
	tell := func(name string, data any) error {
		if e == nil {
			e = c.Events()
		}
		return e.Send(name, data)
	}
	defer func() {
		if e != nil {
			e.Close()
		}
	}()
	n, end := 0, api.EndOfRecords{}
	for r, err := range all {
		var damage *journal.Damage
		switch {
		case errors.As(err, &damage):
			err = tell(api.EventDamaged, api.DamagedPlace{Kind: damage.Kind})
		case err != nil && e == nil:
			return nil, err
		case err != nil:
			_ = tell(api.EventError, c.Problem(c.Why(err))) // or the caller has gone
			return Sent{}, nil
		case limit > 0 && n == limit:
			end.More = true
		default:
			n++
			err = tell(api.EventRecord, shown(r))
		}
		if err != nil {
			return Sent{}, nil // the client has gone
		}
		if end.More {
			break
		}
	}
	_ = tell(api.EventEnd, end) // as above
	return Sent{}, nil
}
