package journal

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"unicode/utf8"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
)

// maxWords bounds, in bytes, each of the texts by and reason that Clear
// records.
const maxWords = 512

// Clear removes the records for which drop returns true, or all records when
// drop is nil, and returns the number of records removed. The arguments by and
// reason name who requested the removal and why. The journal keeps up to 512
// bytes of each, together with the time and the numbers of records removed and
// kept (see [Clearing]).
//
// The chain is not broken: Clear rewrites the kept records as one file whose
// header follows the last line of the old journal. That file replaces all older
// files in one step; a crash leaves either the old journal or the new one. The
// kept records get new numbers and hashes. Damaged lines are dropped, and the
// number of places that Verify would have reported is recorded. Other writers
// wait until Clear returns, and the disk needs room for the kept records.
// Rotation later drops the new file as a whole, however large it is. When there
// is nothing to remove, Clear writes nothing.
func (j *Journal) Clear(ctx context.Context, by, reason string, drop func(Record) bool) (removed int64, err error) {
	if !utf8.ValidString(by) || !utf8.ValidString(reason) || len(by) > maxWords || len(reason) > maxWords {
		return 0, sandbox.Errorf(sandbox.CodeValidation, "clear journal", "by and reason must be valid UTF-8 of at most %d bytes", maxWords)
	}
	err = j.locked(ctx, "clear journal", func(k *kept) error {
		k.forget()
		removed, err = j.rewrite(ctx, k, Clearing{By: by, Reason: reason}, drop)
		return err
	})
	return removed, err
}

// rewrite is called under the lock.
func (j *Journal) rewrite(ctx context.Context, k *kept, c Clearing, drop func(Record) bool) (int64, error) {
	s, err := j.look()
	if err != nil {
		return 0, err
	}
	defer s.close()
	if s.file == 0 {
		return 0, nil
	}
	if s.seq >= math.MaxUint64-1<<48 || s.file >= math.MaxUint64-1<<32 {
		return 0, sandbox.Errorf(sandbox.CodeUnavailable, "clear journal", "the records in %s count higher than any journal does", j.dir)
	}
	report, err := s.verify(ctx, nil)
	if err != nil {
		return 0, err
	}
	c.Damaged = report.damaged()
	s.seq = max(s.seq, s.lost.seq)
	f, err := createNext(j.dir)
	if err != nil {
		return 0, err
	}
	next, err := j.begin(f, s.tail, s.file+1)
	if err == nil {
		next, err = j.copyKept(ctx, f, s, next, &c, drop)
	}
	if err == nil { // whatever Options say: what it replaces goes
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err != nil || c.Removed == 0 {
		return 0, errors.Join(err, os.Remove(f.Name()))
	}
	return c.Removed, j.adopt(k, &s.tail, next, true)
}

// copyKept writes the kept records and the line that describes the clearing
// after next, and adds their counts to c.
func (j *Journal) copyKept(ctx context.Context, f *os.File, s *snapshot, next tail, c *Clearing, drop func(Record) bool) (tail, error) {
	w := bufio.NewWriterSize(f, 64<<10)
	put := func(e entry) error {
		e.seq, e.prev = next.seq+1, next.hash
		text := appendLine(nil, &e)
		next.seq, next.hash, next.size = e.seq, e.hash, next.size+int64(len(text))
		_, err := w.Write(text)
		return err
	}
	for _, p := range s.parts {
		if err := p.copyKept(ctx, c, drop, put); err != nil {
			return next, err
		}
	}
	data, err := json.Marshal(c)
	if err != nil {
		return next, err
	}
	err = put(entry{at: j.now(), kind: kindCleared, data: data})
	return next, errors.Join(err, w.Flush())
}

// copyKept hands what stays of one file to put.
func (p part) copyKept(ctx context.Context, c *Clearing, drop func(Record) bool, put func(entry) error) error {
	if p.f == nil {
		return nil
	}
	for l, err := range lines(p.f, 0, p.size) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return statedir.Unavailable("clear journal", p.f.Name(), err)
		}
		e, err := parseLine(l.text)
		switch {
		case err != nil, e.kind == kindHeader:
		case e.kind != kindRecord:
			c.Noted++
		case drop == nil || drop(p.record(e)):
			c.Removed++
		default:
			c.Kept++
			if err := put(e); err != nil {
				return err
			}
		}
	}
	return nil
}
