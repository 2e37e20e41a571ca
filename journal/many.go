package journal

import (
	"context"
	"encoding/json"
	"iter"
)

// AppendMany is Append for as many records as there are: in batches that leave
// a file room for others. What was appended before an error stays.
func (j *Journal) AppendMany(ctx context.Context, records []json.RawMessage) error {
	for batch := range j.batches(records) {
		if err := j.Append(ctx, batch...); err != nil {
			return err
		}
	}
	return nil
}

// batches splits records. A batch is valid until the next one.
func (j *Journal) batches(records []json.RawMessage) iter.Seq[[]any] {
	const mostBatch = 1 << 20 // bytes
	most := min(mostBatch, j.maxFile/4)
	return func(yield func([]any) bool) {
		var batch []any
		var size int64
		for i, r := range records {
			batch = append(batch, r)
			if size += int64(len(r)) + maxLine - MaxRecord; i < len(records)-1 && size < most {
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
