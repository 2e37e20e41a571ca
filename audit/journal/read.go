package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/statedir"
)

// A Record is what was appended.
type Record struct {
	Seq  uint64    // counts up through the journal; headers and the like count too
	Time time.Time // of the append, by the clock of the process; clocks can go backwards
	Hash string    // of its line, as hex digits
	Prev string    // hash of the line before, whatever that holds
	File string    // name of the file that it is in
	Data json.RawMessage
}

// A Range says which records to read, and in which order.
type Range struct {
	Backward bool   // the newest first
	First    uint64 // least Seq; 0 has no bound
	Last     uint64 // greatest Seq; 0 has no bound
}

// Records returns the records of the journal as it is when the iteration
// begins. It yields a damaged place as an error of type *[Damage] and continues
// with the records after it; any other error ends the iteration. The data of a
// record is valid until the next one. In backward order, files that are newer
// than Last are skipped together with any damage in them. Memory use does not
// grow with the journal. Records does not detect missing or moved lines;
// [Journal.Verify] does.
func (j *Journal) Records(ctx context.Context, r Range) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		s, err := j.snapshot(ctx)
		if err != nil {
			yield(Record{}, err)
			return
		}
		defer s.close()
		parts := s.parts
		if r.Backward {
			slices.Reverse(parts)
		}
		for _, p := range parts {
			if r.Backward && p.behind(r.Last) {
				continue
			}
			if !p.records(ctx, r, yield) {
				return
			}
		}
	}
}

// behind reports whether the whole file is newer than the record last, so that
// a caller that continues backwards reads at most one file again.
func (p part) behind(last uint64) bool {
	if p.f == nil || last == 0 {
		return false
	}
	for l, err := range lines(p.f, 0, min(p.size, maxLine)) {
		if err != nil {
			return false
		}
		line, _, ok := asHeader(l, p.number)
		return ok && line.seq > last
	}
	return false
}

// records yields the records of one file and reports whether to continue. It
// delays a damage until the next line, which may be a seal that explains it.
func (p part) records(ctx context.Context, r Range, yield func(Record, error) bool) bool {
	if p.f == nil {
		return yield(Record{}, &Damage{Kind: DamageMissing, File: p.name, Detail: p.problem})
	}
	all := lines(p.f, 0, p.size)
	if r.Backward {
		all = linesBack(p.f, p.size)
	}
	var waiting *Damage
	var sealed seal // the last one, backwards
	settle := func() bool {
		d := waiting
		waiting = nil
		return d == nil || yield(Record{}, d)
	}
	for l, err := range all {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			yield(Record{}, statedir.Unavailable("read journal", p.f.Name(), err))
			return false
		}
		e, err := parseLine(l.text)
		if err != nil {
			if !settle() {
				return false
			}
			waiting = p.damage(DamageEdit, l, "%v", err)
			if sealed.Why == sealTorn && sealed.covers(waiting) || p.torn && l.offset >= p.stray {
				waiting.Kind = DamageTorn
			}
			continue
		}
		if s, ok := asSeal(e); ok {
			if sealed = s; waiting != nil && s.Why == sealTorn && s.covers(waiting) {
				waiting.Kind = DamageTorn
			}
		}
		if !settle() || r.takes(e) && !yield(p.record(e), nil) {
			return false
		}
	}
	return settle()
}

// record returns the record that e is.
func (p part) record(e entry) Record {
	return Record{Seq: e.seq, Time: e.at, Hash: e.hash.String(), Prev: e.prev.String(), File: p.name, Data: e.data}
}

func (r Range) takes(e entry) bool {
	return e.kind == kindRecord && e.seq >= r.First && (r.Last == 0 || e.seq <= r.Last)
}

// A snapshot is the journal at one moment: what is appended, rotated or
// cleared later does not change it.
type snapshot struct {
	end
	parts     []part
	strangers []string
}

// A part is one file of a snapshot.
type part struct {
	number  uint64
	name    string
	f       *os.File // nil: it is not there, or no file
	size    int64    // up to the end of the journal
	torn    bool     // a write did not come to its end: what is behind stray
	stray   int64
	problem string // why f is nil
}

func (p part) damage(kind string, l raw, format string, args ...any) *Damage {
	return &Damage{Kind: kind, File: p.name, Line: l.number, Offset: l.offset, Detail: fmt.Sprintf(format, args...)}
}

// snapshot opens all files while no writer is active.
func (j *Journal) snapshot(ctx context.Context) (*snapshot, error) {
	var s *snapshot
	err := j.reading(ctx, "read journal", func() (err error) {
		s, err = j.look()
		return err
	})
	return s, err
}

// look makes a snapshot. The caller holds the lock.
func (j *Journal) look() (*snapshot, error) {
	e, err := locate(j.dir)
	if err != nil {
		return nil, err
	}
	numbers, strangers, err := list(j.dir)
	if err != nil {
		return nil, err
	}
	s := &snapshot{end: e, strangers: strangers}
	for _, n := range numbers {
		if n < e.oldest {
			continue // dropped, and only not gone yet
		}
		if n > e.file {
			s.strangers = append(s.strangers, fileName(n))
			continue
		}
		p, err := openPart(j.dir, n)
		if err != nil {
			s.close()
			return nil, err
		}
		if n == e.file {
			p.torn, p.stray = e.why == sealTorn, e.stray
		}
		s.parts = append(s.parts, p)
	}
	return s, nil
}

func openPart(dir string, number uint64) (part, error) {
	p := part{number: number, name: fileName(number)}
	f, err := openRegular(filepath.Join(dir, p.name), os.O_RDONLY)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		p.problem = "the file is missing"
		return p, nil
	case errors.Is(err, errNotRegular):
		p.problem = "there is something that is not a regular file"
		return p, nil
	case err != nil:
		return p, err
	}
	fi, err := f.Stat()
	if err != nil {
		f.Close()
		return p, err
	}
	p.f, p.size = f, fi.Size()
	return p, nil
}

func (s *snapshot) close() {
	for _, p := range s.parts {
		if p.f != nil {
			p.f.Close()
		}
	}
	s.parts = nil
}
