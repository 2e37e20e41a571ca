package journal

import (
	"context"
	"errors"
	"iter"
)

// Newest returns what decode makes of the records of j, the last one appended
// first: those that match, at most limit of them, 0 for all. A damaged place,
// and a record that decode refuses, comes as an error, and the records behind
// it follow; any other error is the last. A torn line is left out, because
// nothing was lost that Append had taken. Memory does not grow with the journal.
func Newest[T any](ctx context.Context, j *Journal, limit int, decode func(Record) (T, error), match func(T) bool) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		n := 0
		for raw, err := range j.Records(ctx, Range{Backward: true}) {
			var d *Damage
			if errors.As(err, &d) && d.Kind == DamageTorn {
				continue
			}
			var r T
			if err == nil {
				r, err = decode(raw)
			}
			if err == nil && !match(r) {
				continue
			}
			if !yield(r, err) {
				return
			}
			if err == nil {
				if n++; n == limit {
					return
				}
			}
		}
	}
}
