package journal

import (
	"context"
	"iter"
)

// AppendMany is Append for any number of records: it writes batches that leave
// a file room for other writers. Batches appended before an error stay.
func (j *Journal) AppendMany(ctx context.Context, records []Encoded) error {
	for batch := range batches(records, min(mostBatch, j.maxFile/4)) {
		if err := j.Append(ctx, batch...); err != nil {
			return err
		}
	}
	return nil
}

// mostBatch bounds what is written at once, in bytes.
const mostBatch = 1 << 20

// batches splits records into parts of which none but the last record is
// beyond most bytes. A batch is valid until the next one.
func batches(records []Encoded, most int64) iter.Seq[[]any] {
	return func(yield func([]any) bool) {
		var batch []any
		var size int64
		for i, r := range records {
			batch = append(batch, r)
			if size += int64(len(r.data)) + maxLine - MaxRecord; i < len(records)-1 && size < most {
				continue
			}
			if !yield(batch) {
				return
			}
			clear(batch) // lets go of what was written
			batch, size = batch[:0], 0
		}
	}
}
