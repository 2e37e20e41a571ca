package evidence

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"

	"github.com/bulkhead-dev/sandbox/audit/journal"
)

// The kinds of damage that a chain can have besides those of a journal.
const (
	// DamageSignature: a checkpoint is not as anybody has signed it.
	DamageSignature = "signature"
	// DamageKey: a checkpoint is signed with a key that does not count.
	DamageKey = "key"
	// DamageRewritten: a checkpoint signs another line than the one before it,
	// so what is before it was written anew.
	DamageRewritten = "rewritten"
	// DamageUnsigned: a checkpoint is missing where there always is one.
	DamageUnsigned = "unsigned"
	// DamageTenant: a record of another tenant is in the chain.
	DamageTenant = "tenant"
)

// maxKeys bounds the keys that a report names.
const maxKeys = 16

// An auditor looks at the records of one chain in their order.
type auditor struct {
	folder string
	tenant string
	named  bool // tenant is known; otherwise the first record that fits names it
	keys   map[string]ed25519.PublicKey
	kept   *journal.Place // that must be signed; see Check

	file     string          // of the last record
	all      int64           // checkpoints
	good     int64           // checkpoints that count
	signed   *Place          // the last of these
	promised uint64          // its Every
	unsigned int64           // records behind it
	seen     map[string]bool // ids of keys
	held     bool            // kept was found
}

// check returns what is wrong with a record, or nil.
func (a *auditor) check(raw journal.Record) *journal.Damage {
	begins := raw.File != a.file
	a.file = raw.File
	r, err := decode(raw)
	if err != nil {
		return &journal.Damage{Kind: journal.DamageStranger, Detail: "it is no record of evidence"}
	}
	if !a.named && folderOf(r.Tenant) == a.folder {
		a.tenant, a.named = r.Tenant, true
	}
	if r.Type == TypeCheckpoint {
		a.all++
		return a.checkpoint(raw, r)
	}
	a.unsigned++
	switch {
	case folderOf(r.Tenant) != a.folder:
		return &journal.Damage{Kind: DamageTenant, Detail: "it is a record of another tenant"}
	case begins:
		return &journal.Damage{Kind: DamageUnsigned, Detail: "the records of a file begin with a checkpoint, and these do not"}
	case a.promised > 0 && uint64(a.unsigned) == a.promised+mostBatch:
		return &journal.Damage{Kind: DamageUnsigned, Detail: fmt.Sprintf("%d records before it have no signature, and no writer leaves that many", a.unsigned-1)}
	}
	return nil
}

// checkpoint returns what is wrong with a checkpoint. One that is right signs
// all before it.
func (a *auditor) checkpoint(raw journal.Record, r Record) *journal.Damage {
	var c checkpoint
	if err := json.Unmarshal(r.Data, &c); err != nil {
		return &journal.Damage{Kind: DamageSignature, Detail: "it is no checkpoint"}
	}
	id := journal.Text(c.Key, 64)
	if len(a.seen) < maxKeys {
		a.seen[id] = true
	}
	key, known := a.keys[c.Key]
	switch {
	case !known:
		return &journal.Damage{Kind: DamageKey, Detail: fmt.Sprintf("it is signed with key %q, which does not count here", id)}
	case !c.SignedBy(key):
		return &journal.Damage{Kind: DamageSignature, Detail: "its signature is not over what it says"}
	case folderOf(c.Tenant) != a.folder || c.Tenant != r.Tenant:
		return &journal.Damage{Kind: DamageTenant, Detail: "it signs the chain of another tenant"}
	case c.Seq != raw.Seq-1 || c.Hash != raw.Prev:
		return &journal.Damage{Kind: DamageRewritten, Detail: fmt.Sprintf(
			"it signs line %d with another hash than that of the line before it: what is before it, back to line %d, was written anew or it was moved", c.Seq, a.last())}
	}
	a.good++
	a.held = a.held || a.kept != nil && c.Seq == a.kept.Seq && c.Hash == a.kept.Hash
	a.signed = &Place{Place: journal.Place{File: raw.File, Seq: c.Seq, Hash: c.Hash}, Records: c.Records, Key: c.Key}
	a.promised, a.unsigned = c.Every, 0
	return nil
}

// last is the number of the last line that is signed.
func (a *auditor) last() uint64 {
	if a.signed == nil {
		return 0
	}
	return a.signed.Seq
}
