package journal

import (
	"context"
	"errors"
	"iter"
)

// Newest decodes the records of j with decode, the last one appended first, and
// yields those for which match returns true, at most limit of them, 0 for all.
// It yields a damaged place, and a record that decode refuses, as an error and
// continues with the records before it; any other error ends the iteration. It
// omits a torn line, because no record that Append had accepted was lost.
// Memory use does not grow with the journal.
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
