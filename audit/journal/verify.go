package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/statedir"
)

// maxDamage bounds the damage that a Report lists one by one.
const maxDamage = 1000

// A Report says whether the journal is as it was written.
type Report struct {
	Files   int    `json:"files"`
	Records int64  `json:"records"` // that are as they were written
	First   Place  `json:"first"`   // where the journal begins
	Last    Place  `json:"last"`    // where it ends
	Dropped uint64 `json:"dropped"` // files before the first, which rotation or a clearing took away

	Clearings []Clearing `json:"clearings"` // recorded in the files that are kept
	Damage    []Damage   `json:"damage"`    // at most 1000, in order of files and lines
	Omitted   int        `json:"omitted"`   // how many more there are
}

// A Place is a line in the chain.
type Place struct {
	File string `json:"file"`
	Seq  uint64 `json:"seq"`
	Hash string `json:"hash"`
}

// A Clearing is what Clear has left in the journal about itself.
type Clearing struct {
	Time    time.Time `json:"time"`
	By      string    `json:"by"`
	Reason  string    `json:"reason"`
	Removed int64     `json:"removed"` // records
	Kept    int64     `json:"kept"`    // records
	Damaged int64     `json:"damaged"` // damaged places whose records are gone
	Noted   int64     `json:"noted"`   // lines of the journal itself about earlier losses and clearings, which are gone too
}

// OK reports whether nothing was changed. Writes that did not come to their
// end are no change.
func (r Report) OK() bool { return r.damaged() == 0 }

// damaged counts the places that were changed.
func (r Report) damaged() int64 {
	n := int64(r.Omitted)
	for _, d := range r.Damage {
		if d.Kind != DamageTorn {
			n++
		}
	}
	return n
}

// Verify reads the whole journal and checks every link of the chain. The error
// is about reading; damage is in the report. Memory does not grow with the
// journal.
func (j *Journal) Verify(ctx context.Context) (Report, error) { return j.VerifyEach(ctx, nil) }

// VerifyEach is Verify, and calls check for every unchanged record, in order. A
// non-nil result of check is damage of that record's line; check sets Kind and
// Detail only. The data of a record is valid until the next one.
func (j *Journal) VerifyEach(ctx context.Context, check func(Record) *Damage) (Report, error) {
	s, err := j.snapshot(ctx)
	if err != nil {
		return Report{}, err
	}
	defer s.close()
	return s.verify(ctx, check)
}

func (s *snapshot) verify(ctx context.Context, check func(Record) *Damage) (Report, error) {
	v := &verifier{Report: Report{Clearings: []Clearing{}, Damage: []Damage{}}, check: check}
	v.files(s)
	if s.why == sealHead {
		v.found(Damage{Kind: DamageMissing, File: headName, Detail: "nothing says where the journal ends; what is missing there does not show"})
	}
	for _, p := range s.parts {
		if p.f == nil {
			v.found(Damage{Kind: DamageMissing, File: p.name, Detail: p.problem})
			continue
		}
		if err := v.file(ctx, p); err != nil {
			return v.Report, err
		}
	}
	v.ending(s)
	return v.Report, nil
}

// A verifier follows the chain. Behind damage it goes on from the next line
// that is whole.
type verifier struct {
	Report
	began bool   // a line was seen
	part  uint64 // number of the file it was in
	seq   uint64 // of the last line in its place
	hash  digest // of the last line in its place
	blind uint64 // damaged lines behind that one

	stray *Damage // the last line is damaged, and a seal may follow
	check func(Record) *Damage
}

func (v *verifier) found(d Damage) {
	if len(v.Damage) == maxDamage {
		v.Omitted++
		return
	}
	if len(v.Damage) > 0 {
		d.Claim = nil
	}
	v.Damage = append(v.Damage, d)
}

// files compares the files that are there with those that should be.
func (v *verifier) files(s *snapshot) {
	if s.file == 0 {
		return
	}
	v.Dropped = s.oldest - min(s.oldest, 1)
	want := max(s.oldest, 1)
	for _, p := range s.parts {
		v.absent(want, p.number)
		want = p.number + 1
	}
	v.absent(want, s.file+1)
	for _, name := range s.strangers {
		v.found(Damage{Kind: DamageStranger, File: name, Detail: "it does not belong to the journal"})
	}
}

// absent notes that the files from..before are not there.
func (v *verifier) absent(from, before uint64) {
	switch {
	case from >= before:
	case from+1 == before:
		v.found(Damage{Kind: DamageMissing, File: fileName(from), Detail: "the file is missing"})
	default:
		v.found(Damage{Kind: DamageMissing, File: fileName(from), Detail: fmt.Sprintf("this file and all up to %s are missing", fileName(before-1))})
	}
}

func (v *verifier) file(ctx context.Context, p part) error {
	v.Files++
	for l, err := range lines(p.f, 0, p.size) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return statedir.Unavailable("verify journal", p.f.Name(), err)
		}
		v.line(p, l)
	}
	v.settle()
	return nil
}

// settle reports the damaged line that nothing explains.
func (v *verifier) settle() {
	if v.stray != nil {
		v.found(*v.stray)
		v.stray = nil
	}
}

func (v *verifier) line(p part, l raw) {
	e, err := parseLine(l.text)
	if err != nil {
		v.settle()
		v.blind++
		v.stray = p.damage(DamageEdit, l, "%v", err).claimed(e)
		if !l.ended {
			v.stray.Kind, v.stray.Detail = DamageTruncated, "its end is missing"
		}
		return
	}
	if e.kind == kindSeal {
		v.seal(p, l, e)
	}
	v.settle()
	if _, _, ok := asHeader(l, p.number); !ok && l.number == 1 {
		v.found(*p.damage(DamageReorder, l, "the file does not begin with its header").claimed(e))
	}
	if !v.follows(p, l, e) {
		return
	}
	v.seq, v.hash, v.blind, v.part = e.seq, e.hash, 0, p.number
	v.Last = Place{p.name, e.seq, e.hash.String()}
	if !v.began {
		v.began, v.First = true, v.Last
	}
	switch e.kind {
	case kindRecord:
		v.Records++
		v.checked(p, l, e)
	case kindCleared:
		var c Clearing
		if json.Unmarshal(e.data, &c) == nil && len(v.Clearings) < maxDamage {
			c.Time = e.at
			v.Clearings = append(v.Clearings, c)
		}
	}
}

// checked asks check about a record.
func (v *verifier) checked(p part, l raw, e entry) {
	if v.check == nil {
		return
	}
	if d := v.check(p.record(e)); d != nil {
		v.found(*p.damage(d.Kind, l, "%s", d.Detail).claimed(e))
	}
}

// follows reports whether e is in its place, or at least after it, and notes
// any error in its position.
func (v *verifier) follows(p part, l raw, e entry) bool {
	missing := e.seq - v.seq - 1 // when e is behind
	first := l.number == 1
	switch {
	case !v.began:
	case e.seq <= v.seq:
		v.found(*p.damage(DamageReorder, l, "record %d stands behind record %d", e.seq, v.seq).claimed(e))
		return false
	case e.prev == v.hash:
	case first && v.part != p.number-1: // the file between is missing, which was reported
	case missing > v.blind && first:
		v.found(Damage{Kind: DamageTruncated, File: fileName(v.part), Detail: fmt.Sprintf("%d lines are missing at its end", missing-v.blind)})
	case missing > v.blind:
		v.found(*p.damage(DamageGap, l, "%d lines are missing before it", missing-v.blind).claimed(e))
	case v.blind == 0:
		v.found(*p.damage(DamageEdit, l, "it is chained to another record %d than the one before it", v.seq).claimed(e))
	}
	return true
}

// seal removes the damage that a seal explains and notes what the seal says.
func (v *verifier) seal(p part, l raw, e entry) {
	s, ok := asSeal(e)
	if !ok {
		return
	}
	d := Damage{File: p.name, Line: l.number, Offset: s.Offset}
	if v.stray != nil && s.covers(v.stray) {
		d.Line, v.stray = v.stray.Line, nil
	}
	d.Kind, d.Detail = s.tells()
	v.found(d)
}

// ending compares the end of the journal with the head.
func (v *verifier) ending(s *snapshot) {
	if s.why != sealTruncated && s.why != sealTorn {
		return
	}
	d := Damage{File: fileName(s.file), Offset: s.stray}
	if s.why == sealTruncated {
		d.Kind, d.Detail = DamageTruncated, fmt.Sprintf("records up to %d had been written and are gone", s.lost.seq)
	} else {
		d.Kind, d.Detail = DamageTorn, "its end is no record: a write did not come to its end"
	}
	// The end of the file itself may have been found before.
	if n := len(v.Damage) - 1; n >= 0 && v.Damage[n].Kind == DamageTruncated && v.Damage[n].File == d.File && v.Damage[n].Offset >= s.stray {
		d.Line, v.Damage = v.Damage[n].Line, v.Damage[:n]
	}
	v.found(d)
}
