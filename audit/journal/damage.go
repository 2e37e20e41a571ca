package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// The kinds of damage.
const (
	// DamageEdit: a line is not as it was written.
	DamageEdit = "edit"
	// DamageGap: records are missing before a line.
	DamageGap = "gap"
	// DamageReorder: a line, or a file, stands after a later one.
	DamageReorder = "reorder"
	// DamageTruncated: the end of a file is missing.
	DamageTruncated = "truncated"
	// DamageMissing: a file is missing, or no file.
	DamageMissing = "missing"
	// DamageStranger: the folder contains an entry that the journal did not
	// make.
	DamageStranger = "stranger"
	// DamageTorn: a write did not come to its end, and all records that
	// were written are there.
	DamageTorn = "torn"
)

// Damage is a place in the journal that is not as it was written. As an error
// of [Journal.Records] it does not end the iteration.
type Damage struct {
	Kind   string `json:"kind"`
	File   string `json:"file"`           // name below the folder of the journal
	Line   int    `json:"line,omitempty"` // from 1; 0 when it is not about a line or was found backwards
	Offset int64  `json:"offset"`         // bytes from the begin of the file
	Seq    uint64 `json:"seq,omitempty"`  // that the line claims to have, when that can be read
	Detail string `json:"detail"`         // one sentence without trailing period
	// Claim is the content that the line claims to have, when the line is a
	// record and its content can be read. It may be false. Only the first
	// damage of a Report has it.
	Claim json.RawMessage `json:"-"`
}

// claimed notes what the line e says of itself.
func (d *Damage) claimed(e entry) *Damage {
	d.Seq = e.seq
	if e.kind == kindRecord {
		d.Claim = bytes.Clone(e.data)
	}
	return d
}

// Error implements error.
func (d *Damage) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", d.Kind, d.File)
	if d.Line > 0 {
		fmt.Fprintf(&b, ": line %d", d.Line)
	}
	return b.String() + ": " + d.Detail
}

func asSeal(e entry) (seal, bool) {
	var s seal
	return s, e.kind == kindSeal && json.Unmarshal(e.data, &s) == nil
}

// covers reports whether the damage lies in what the seal says is no line.
func (s seal) covers(d *Damage) bool {
	return s.Offset <= d.Offset && d.Offset-s.Offset < s.Stray
}

// tells returns the seal as the kind and detail of a damage.
func (s seal) tells() (kind, detail string) {
	switch s.Why {
	case sealTorn:
		return DamageTorn, fmt.Sprintf("%d bytes are no record: a write did not come to its end", s.Stray)
	case sealTruncated:
		return DamageTruncated, fmt.Sprintf("records up to %d had been written and were gone at the next append", s.LostSeq)
	case sealHead:
		return DamageMissing, "the note of where the journal ends was gone at an append"
	}
	return DamageEdit, fmt.Sprintf("%d bytes are not from us", s.Stray)
}
