package journal

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
)

// A Made makes a record of an append once the preceding line is known: its own
// line is the next one, whatever other processes write. It is called while all
// other writers wait, so it must be quick, and must not use the journal except
// through t. A nil record writes no line. With sync the append is on the disk
// when it returns, as with [Options].Sync. After an error the whole append is
// discarded.
type Made func(t Tail) (record any, sync bool, err error)

// A Tail is where a journal ends: the line that the next one is chained to.
type Tail struct {
	Place
	before part // up to where the journal ended when the append began
	oldest uint64
	dir    string
}

// Back returns the records before the append, the newest first, as
// [Journal.Records] does. It keeps one file open at a time.
func (t Tail) Back(ctx context.Context) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for n := t.before.number; n >= max(t.oldest, 1); n-- {
			p, err := openPart(t.dir, n)
			if err != nil {
				yield(Record{}, err)
				return
			}
			if n == t.before.number {
				p.size = min(p.size, t.before.size)
			}
			more := p.records(ctx, Range{Backward: true}, yield)
			if p.f != nil {
				p.f.Close()
			}
			if !more {
				return
			}
		}
	}
}

// A piece is a record of an append: its data, or the function that makes it.
type piece struct {
	data json.RawMessage
	made Made
}

// room is how many bytes its line may take.
func (p piece) room() int64 {
	if p.made != nil {
		return maxLine
	}
	return int64(len(p.data)) + maxLine - MaxRecord
}

func pieceOf(record any) (piece, error) {
	switch m := record.(type) {
	case Made:
		return piece{made: m}, nil
	case func(Tail) (any, bool, error):
		return piece{made: m}, nil
	case Encoded:
		return piece{data: m.data}, m.valid()
	}
	e, err := Encode(record)
	return piece{data: e.data}, err
}

// resolve returns the data of p after the line t. No data means no line.
func (p piece) resolve(j *Journal, before, t tail) (data json.RawMessage, sync bool, err error) {
	if p.made == nil {
		return p.data, false, nil
	}
	record, sync, err := p.made(Tail{
		Place:  Place{fileName(t.file), t.seq, t.hash.String()},
		before: part{number: before.file, size: before.size}, oldest: before.oldest, dir: j.dir,
	})
	if err != nil || record == nil {
		return nil, sync, err
	}
	data, err = encodeData(record)
	return data, sync, err
}

// AppendAround is [Journal.AppendMany] with batches of at most most records and
// about an eighth of a file, where before and after make the first and the last
// line of each batch.
func (j *Journal) AppendAround(ctx context.Context, before Made, records []Encoded, most int, after Made) error {
	if len(records) == 0 {
		return j.Append(ctx, before, after)
	}
	for chunk := range slices.Chunk(records, most) {
		for batch := range batches(chunk, min(mostBatch, j.maxFile/8)) { // room for before and after
			batch = slices.Concat([]any{before}, batch, []any{after})
			if err := j.Append(ctx, batch...); err != nil {
				return err
			}
		}
	}
	return nil
}
