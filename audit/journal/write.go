package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"unicode/utf8"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
)

// besides is what a file needs for its header and a seal, in bytes.
const besides = 2 << 10

// Append appends records, in this order and next to each other, or none of
// them. Each is encoded as JSON ([json.RawMessage] as it is, compacted, unless
// it is an [Encoded]) and must not be larger than [MaxRecord]; all together
// must fit into one file. A [Made] is called for its record, and counts as one
// of the largest size. Waiting for other writers ends with ctx. After a disk
// error the records may have been kept when the process was killed or a file
// could not be synced; otherwise they were not.
func (j *Journal) Append(ctx context.Context, records ...any) error {
	if len(records) == 0 {
		return nil
	}
	pieces := make([]piece, len(records))
	var total int64
	for i, r := range records {
		var err error
		if pieces[i], err = pieceOf(r); err != nil {
			return err
		}
		total += pieces[i].room()
	}
	if total > j.maxFile-besides {
		return sandbox.Errorf(sandbox.CodeValidation, "append to journal", "%d records of together %d bytes do not fit into one file", len(pieces), total)
	}
	return j.locked(ctx, "append to journal", func(k *kept) error {
		e, err := j.ready(k)
		if err != nil {
			return err
		}
		if e.size+total > j.maxFile {
			if err := j.rotate(k, &e.tail, e.oldest); err != nil {
				return err
			}
			e = end{tail: e.tail, usable: true, length: e.size}
		}
		return j.write(k, &e, kindRecord, pieces...)
	})
}

// An Encoded is a record in the encoding of the journal, so that it is encoded
// only once although its size has to be known before it is appended. [Encode]
// makes it.
type Encoded struct{ data json.RawMessage }

// Encode encodes a record, or says why it cannot be appended.
func Encode(record any) (Encoded, error) {
	data, err := encodeData(record)
	return Encoded{data}, err
}

// valid refuses what Encode has not made.
func (e Encoded) valid() error {
	if e.data == nil {
		return sandbox.Errorf(sandbox.CodeValidation, "append to journal", "a record was not encoded")
	}
	return nil
}

// encodeData returns r as compact JSON that is valid UTF-8.
func encodeData(r any) (json.RawMessage, error) {
	const op = "append to journal"
	data, err := json.Marshal(r)
	if err != nil {
		return nil, sandbox.Errorf(sandbox.CodeValidation, op, "a record cannot be encoded: %w", err)
	}
	if len(data) > MaxRecord {
		return nil, sandbox.Errorf(sandbox.CodeValidation, op, "a record of %d bytes is larger than %d", len(data), MaxRecord)
	}
	if !utf8.Valid(data) || bytes.ContainsAny(data, "\n\r") {
		return nil, sandbox.Errorf(sandbox.CodeValidation, op, "a record is not valid UTF-8")
	}
	return data, nil
}

// Rotate begins a new file, unless the newest one contains no record.
func (j *Journal) Rotate(ctx context.Context) error {
	return j.locked(ctx, "rotate journal", func(k *kept) error {
		e, err := j.ready(k)
		if err != nil {
			return err
		}
		if line, _, ok, err := readHeader(j.dir, e.file); err != nil || ok && line.seq == e.seq {
			return err
		}
		return j.rotate(k, &e.tail, e.oldest)
	})
}

// ready finds the end of the journal and prepares it for an append: it creates
// the first file of a new journal, and seals the bytes after the last record.
func (j *Journal) ready(k *kept) (end, error) {
	e, ok := k.known()
	if !ok {
		var err error
		if e, err = locate(j.dir); err != nil {
			return end{}, err
		}
	}
	if e.seq >= math.MaxUint64-1<<32 || e.file >= math.MaxUint64-1<<32 {
		return end{}, sandbox.Errorf(sandbox.CodeUnavailable, "append to journal", "the records in %s count higher than any journal does", j.dir)
	}
	if !e.usable {
		if e.file == 0 { // the head first, or its absence would look like a loss
			if err := k.writeHead(j.dir, e.tail); err != nil {
				return end{}, err
			}
		}
		if err := j.rotate(k, &e.tail, max(e.oldest, 1)); err != nil {
			return end{}, err
		}
		return end{tail: e.tail, usable: true, length: e.size}, nil
	}
	if e.why == "" {
		return e, nil
	}
	s := seal{Why: e.why, Offset: e.stray, Stray: e.length - e.stray}
	if e.why == sealTruncated {
		s.LostSeq, s.LostHash = e.lost.seq, e.lost.hash.String()
		e.seq = max(e.seq, e.lost.seq)
	}
	data, err := json.Marshal(s)
	if err != nil {
		return end{}, err
	}
	return e, j.write(k, &e, kindSeal, piece{data: data})
}

// write appends one line for each of the pieces in one write(2) and moves e
// past them. When that fails none of them stays.
func (j *Journal) write(k *kept, e *end, kind string, pieces ...piece) error {
	text, t, sync, err := j.compose(e, kind, pieces)
	if err != nil || len(text) == 0 {
		return err
	}
	f, err := k.file(j.dir, e.file)
	if err != nil {
		return err
	}
	if _, err := f.Write(text); err != nil {
		// Only this process writes now: the bytes after the old end are its
		// own.
		return errors.Join(err, f.Truncate(e.length))
	}
	if sync || j.sync {
		if err := f.Sync(); err != nil {
			return err
		}
	}
	if sync && !j.sync { // which syncs the folder when a file begins
		if err := statedir.SyncDir(j.dir); err != nil {
			return err
		}
	}
	e.length += int64(len(text))
	t.size = e.length
	*e = end{tail: t, usable: true, length: e.length}
	k.note(j.dir, t)
	return nil
}

// roomFor is about how many bytes the lines of pieces take.
func roomFor(pieces []piece) int {
	n := 0
	for _, p := range pieces {
		n += len(p.data) + aroundData
	}
	return n
}

// compose returns the lines of the pieces after e, the new end without its
// size, and whether the lines must be on the disk at once.
func (j *Journal) compose(e *end, kind string, pieces []piece) (text []byte, t tail, sync bool, err error) {
	t = e.tail
	for _, p := range pieces {
		data, now, err := p.resolve(j, e.tail, t)
		if err != nil {
			return nil, t, false, err
		}
		if sync = sync || now; data == nil {
			continue
		}
		if text == nil {
			text = make([]byte, 0, roomFor(pieces))
			if e.open {
				text = append(text, '\n')
			}
		}
		line := entry{seq: t.seq + 1, prev: t.hash, at: j.now(), kind: kind, data: data}
		text = appendLine(text, &line)
		t.seq, t.hash = line.seq, line.hash
	}
	return text, t, sync, nil
}

// rotate begins the file after t, drops the surplus files and moves t past the
// new header.
func (j *Journal) rotate(k *kept, t *tail, oldest uint64) error {
	if j.syncFull && t.file > 0 {
		if err := syncFile(filepath.Join(j.dir, fileName(t.file))); err != nil {
			return err
		}
	}
	f, err := createNext(j.dir)
	if err != nil {
		return err
	}
	next, err := j.begin(f, *t, oldest)
	if err == nil && j.sync {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return j.adopt(k, t, next, j.sync)
}

// adopt makes the file that was prepared as next part of the journal.
func (j *Journal) adopt(k *kept, t *tail, next tail, sync bool) error {
	if err := publish(j.dir, next.file); err != nil {
		return err
	}
	if sync {
		if err := statedir.SyncDir(j.dir); err != nil {
			return err
		}
	}
	*t = next
	k.last.close()
	k.note(j.dir, next)
	_ = dropOlder(j.dir, next.oldest) // tried again at the next rotation
	return nil
}

// begin writes the header of the file that follows t to f.
func (j *Journal) begin(f *os.File, t tail, oldest uint64) (tail, error) {
	number := t.file + 1
	kept, err := j.kept(oldest, number)
	if err != nil {
		return tail{}, err
	}
	data, err := json.Marshal(header{
		Format: format, File: number, Oldest: kept,
		Previous: previous{File: t.file, Seq: t.seq, Hash: t.hash.String()},
	})
	if err != nil {
		return tail{}, err
	}
	line := entry{seq: t.seq + 1, prev: t.hash, at: j.now(), kind: kindHeader, data: data}
	text := appendLine(nil, &line)
	_, err = f.Write(text)
	return tail{file: number, size: int64(len(text)), seq: line.seq, hash: line.hash, oldest: kept}, err
}

// kept returns the oldest file, oldest or a later one, that can stay when the
// file with that number begins and may become full.
func (j *Journal) kept(oldest, number uint64) (uint64, error) {
	if oldest >= number {
		return number, nil
	}
	numbers, _, err := list(j.dir)
	if err != nil {
		return 0, err
	}
	room, keep := j.maxTotal-j.maxFile, j.maxTotal/j.maxFile-1
	for i := len(numbers) - 1; i >= 0; i-- {
		n := numbers[i]
		if n >= number || n < oldest {
			continue
		}
		fi, err := os.Lstat(filepath.Join(j.dir, fileName(n)))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, err
		}
		if err == nil {
			room -= fi.Size()
		}
		if keep--; keep < 0 || room < 0 {
			return n + 1, nil
		}
	}
	return oldest, nil
}
