package evidence

import (
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/journal"
)

// MaxData is the largest Data of a record in bytes of compact JSON.
const MaxData = 8 << 10

// A Type is the kind of a record and determines the content of Data. The values
// are stable; programs may depend on them.
type Type string

// The types.
const (
	// TypeEgress is a decision of the egress proxy, or the end of what it
	// allowed; its Data are those of an Event of package egress.
	TypeEgress Type = "egress"
	// TypeBegin is the begin of an operation, written before that does
	// anything; its Data are a Begin of package proof, its Command the
	// operation's id.
	TypeBegin Type = "begin"
	// TypeEnd is how an operation ended; its Data are an End of package proof,
	// its Command the operation's id.
	TypeEnd Type = "end"
	// TypeCheckpoint is a signature over the chain before it; a Store writes
	// these itself.
	TypeCheckpoint Type = "checkpoint"
)

// Types returns the types that there are.
func Types() []Type { return []Type{TypeEgress, TypeBegin, TypeEnd, TypeCheckpoint} }

// A Share says what happens to records of one sandbox that come faster than
// [Options].Burst and Rate allow.
type Share int

// The shares. Each is counted apart, so that a flood of one hides no other.
const (
	Ordinary Share = iota // too many are counted
	Minor                 // too many are counted: what was refused and did not happen
	Exact                 // always kept one by one
)

// A Record is one thing that was done. Whose it was is kept as it is up to 256
// bytes.
type Record struct {
	Time    time.Time       `json:"time"` // of what was done; zero: of the append
	Tenant  string          `json:"tenant"`
	Agent   string          `json:"agent"`
	Session string          `json:"session"`
	Sandbox string          `json:"sandbox"` // its name
	Command string          `json:"command"` // id of the run; empty when it is not known
	Type    Type            `json:"type"`
	Data    json.RawMessage `json:"data"` // an object, at most MaxData bytes
	// Omitted is set in a record that stands for others of its type: so many
	// were not kept one by one. Its Data are an [Omission].
	Omitted int64 `json:"omitted,omitempty"`

	Share Share `json:"-"`
}

// An Omission says why records were not kept one by one.
type Omission struct {
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"` // when the first of them came
	Until  time.Time `json:"until"` // when the last of them came
}

// Reasons of an Omission.
const (
	OmittedFlood = "flood" // they came too fast
	OmittedLost  = "lost"  // they could not be written
)

// Omit returns r as a record that stands for n others like it.
func (r Record) Omit(n int64, o Omission) Record {
	o.Since, o.Until = o.Since.UTC(), o.Until.UTC()
	r.Time, r.Omitted, r.Command = o.Until, n, ""
	r.Data, _ = json.Marshal(o) // of two times and a text; it cannot fail in the years that there are
	return r
}

// bounded returns r as it is kept, or why it cannot be.
func (r Record) bounded(now time.Time) (Record, error) {
	const op = "record evidence"
	if !validType(r.Type) {
		return r, sandbox.Errorf(sandbox.CodeValidation, op, "%q is no type of record", journal.Text(string(r.Type), 64))
	}
	if r.Type == TypeCheckpoint {
		return r, sandbox.Errorf(sandbox.CodeValidation, op, "checkpoints are not recorded from outside")
	}
	if r.Share < Ordinary || r.Share > Exact {
		return r, sandbox.Errorf(sandbox.CodeValidation, op, "there is no share %d", r.Share)
	}
	if r.Omitted < 0 {
		return r, sandbox.Errorf(sandbox.CodeValidation, op, "a record stands for %d others", r.Omitted)
	}
	if r.Time.IsZero() {
		r.Time = now
	}
	if y := r.Time.UTC().Year(); y < 1 || y > 9999 {
		return r, sandbox.Errorf(sandbox.CodeValidation, op, "there is no year %d in a record", y)
	}
	r.Time = r.Time.UTC()
	r.Tenant, r.Agent, r.Session = journal.Name(r.Tenant), journal.Name(r.Agent), journal.Name(r.Session)
	r.Sandbox, r.Command = journal.Name(r.Sandbox), journal.Name(r.Command)
	return r, r.boundData()
}

// boundData makes Data compact, or says why they cannot be kept.
func (r *Record) boundData() error {
	const op = "record evidence"
	if len(r.Data) > 4*MaxData { // blanks may go
		return sandbox.Errorf(sandbox.CodeValidation, op, "the data of a record are %d bytes; %d are kept", len(r.Data), MaxData)
	}
	data, err := json.Marshal(r.Data)
	if err != nil || !utf8.Valid(data) || data[0] != '{' {
		return sandbox.Errorf(sandbox.CodeValidation, op, "the data of a record are no JSON object")
	}
	if len(data) > MaxData {
		return sandbox.Errorf(sandbox.CodeValidation, op, "the data of a record are %d bytes; %d are kept", len(data), MaxData)
	}
	r.Data = data
	return nil
}

// validType reports whether t is a word of small letters and underscores.
func validType(t Type) bool {
	return t != "" && len(t) <= 32 && strings.Trim(string(t), "abcdefghijklmnopqrstuvwxyz_") == ""
}
