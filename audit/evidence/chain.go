package evidence

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"sync/atomic"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/journal"
)

// mostBatch bounds the records that are written at once, and with that how
// many a chain can have that a killed writer has left without a signature.
const mostBatch = 256

// A chain contains the records of one tenant. Its lines are records, and
// checkpoints that sign the lines before them: the first record of every file
// is one, and another follows after a fixed number of records.
type chain struct {
	tenant  string
	journal *journal.Journal
	key     ed25519.PrivateKey
	every   uint64
	sync    Sync
	now     func() time.Time

	open atomic.Bool // this process has written what it has not signed

	// The lock of the journal guards the remaining fields.
	at       string // hash of the last line that is counted; empty: nothing is known
	fresh    bool   // at's file holds no record
	base     uint64 // number of the line before the batch that is being written
	records  uint64 // in the chain, checkpoints not counted
	unsigned uint64 // of these, those behind the last checkpoint
	promised uint64 // the last checkpoint's Every; 0: there is none
}

// append writes records, with the checkpoints that are due.
func (c *chain) append(ctx context.Context, records []journal.Encoded) error {
	before := func(t journal.Tail) (any, bool, error) { return c.before(ctx, t) }
	c.open.Store(true)
	return c.journal.AppendAround(ctx, before, records, mostBatch, c.after)
}

// finish writes a checkpoint when there are records without one.
func (c *chain) finish(ctx context.Context) error {
	was := c.open.Swap(false) // a concurrent append sets it again
	err := c.journal.Append(ctx, func(t journal.Tail) (any, bool, error) {
		if err := c.catchUp(ctx, t); err != nil || c.unsigned == 0 {
			return nil, false, err
		}
		return c.checkpoint(t)
	})
	if err != nil && was {
		c.open.Store(true)
	}
	return err
}

// before makes the checkpoint that a batch begins with, if it needs one.
func (c *chain) before(ctx context.Context, t journal.Tail) (any, bool, error) {
	if err := c.catchUp(ctx, t); err != nil {
		return nil, false, err
	}
	if c.base = t.Seq; !c.fresh && c.promised > 0 && c.unsigned < c.due() {
		return nil, false, nil
	}
	c.base++
	return c.checkpoint(t)
}

// after makes the checkpoint that a batch ends with, if it is due.
func (c *chain) after(t journal.Tail) (any, bool, error) {
	n := t.Seq - c.base
	c.records, c.unsigned, c.at, c.fresh = c.records+n, c.unsigned+n, t.Hash, false
	if c.unsigned < c.due() {
		return nil, false, nil
	}
	return c.checkpoint(t)
}

// due is how many records may be without a signature: the number that the last
// checkpoint promised, or less.
func (c *chain) due() uint64 { return min(c.every, c.promised) }

// checkpoint signs everything up to t. Later records are counted anew, because
// the line of the checkpoint is not known here.
func (c *chain) checkpoint(t journal.Tail) (any, bool, error) {
	now := c.now().UTC()
	signed := signCheckpoint(checkpoint{
		Tenant: c.tenant, Seq: t.Seq, Hash: t.Hash, Records: c.records, Every: c.every, Time: now,
	}, c.key)
	data, err := json.Marshal(signed)
	if err != nil {
		return nil, false, sandbox.Errorf(sandbox.CodeInternal, "sign evidence", "cannot encode a checkpoint: %w", err)
	}
	c.unsigned, c.promised, c.at = 0, c.every, ""
	return Record{Time: now, Tenant: c.tenant, Type: TypeCheckpoint, Data: data}, c.sync == SyncCheckpoint, nil
}

// catchUp counts the records that other processes have written since, back to
// the last line that this process knows, or to the last checkpoint.
func (c *chain) catchUp(ctx context.Context, t journal.Tail) error {
	known := c.at
	if known != "" && known == t.Hash {
		return nil
	}
	c.at, c.fresh = "", true
	var n uint64
	for raw, err := range t.Back(ctx) {
		var d *journal.Damage
		if errors.As(err, &d) {
			continue // Verify reports it
		}
		if err != nil {
			return err
		}
		c.fresh = c.fresh && raw.File != t.File
		if known != "" && raw.Hash == known {
			c.records, c.unsigned, c.at = c.records+n, c.unsigned+n, t.Hash
			return nil
		}
		if last, ok := asCheckpoint(raw); ok {
			c.records, c.unsigned, c.promised, c.at = last.Records+n, n, last.Every, t.Hash
			return nil
		}
		n++
	}
	c.records, c.unsigned, c.promised, c.at = n, n, 0, t.Hash
	return nil
}

// asCheckpoint returns the checkpoint that a record claims to be.
func asCheckpoint(raw journal.Record) (checkpoint, bool) {
	var r Record
	var c checkpoint
	if !bytes.Contains(raw.Data, []byte(TypeCheckpoint)) || json.Unmarshal(raw.Data, &r) != nil || r.Type != TypeCheckpoint {
		return c, false
	}
	return c, json.Unmarshal(r.Data, &c) == nil
}
