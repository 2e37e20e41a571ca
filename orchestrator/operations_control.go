// Control: this part of the package makes what operations under grants need, on a state folder:
// revocations, keys of decisions, accounts, and a recorder that writes evidence.

package orchestrator

import (
	"context"
	"errors"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox/audit/evidence"
	auditrecorder "github.com/bulkhead-dev/sandbox/audit/recorder"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/grant/ledger"
	"github.com/bulkhead-dev/sandbox/grant/operation"
	"github.com/bulkhead-dev/sandbox/grant/store"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/manager"
)

// Options say what a Control is made of. State and Sinks are needed.
type OperationsOptions struct {
	State *statedir.Dir
	Sinks []auditrecorder.Sink // where evidence goes; requireEvidence waits for those that are an [auditrecorder.Keeper]
	Wait  time.Duration        // how long an operation waits for evidence, see [auditrecorder.Options]; 0 takes [auditrecorder.DefaultWait]
	Queue int                  // records that may wait for one sink; 0 takes [auditrecorder.DefaultQueue]
	Sync  bool                 // what was used survives a loss of power, see [ledger.Options]
	Log   logrus.FieldLogger
	Now   func() time.Time

	Fetch   manager.Fetch      // nil reaches no hosts
	Browse  manager.Browse     // nil drives no browser
	Observe operation.Observer // receives every operation, for metrics; nil: no observer
}

// A Control is a [manager.Control] with the folders that it lies in.
type Control struct {
	manager.Control
	Revoked  *store.Folder
	Ledger   *ledger.Ledger
	Keys     *store.Keys
	Recorder *auditrecorder.Recorder

	now func() time.Time
}

// OpenOperations makes a Control. What programs that were killed have left without an
// end is put on record as aborted.
func OpenOperations(o OperationsOptions) (*Control, error) {
	c := &Control{now: o.Now}
	if c.now == nil {
		c.now = time.Now
	}
	var err error
	if c.Revoked, err = store.Open(o.State.Revoked()); err != nil {
		return nil, err
	}
	if c.Ledger, err = ledger.Open(o.State.Budget(), ledger.Options{Sync: o.Sync, Now: o.Now}); err != nil {
		return nil, err
	}
	if c.Keys, err = store.OpenDecision(o.State.Decisions()); err != nil {
		return nil, err
	}
	if c.Recorder, err = auditrecorder.Open(auditrecorder.Options{Sinks: o.Sinks, Writers: o.State.Writers(), Log: o.Log, Wait: o.Wait, Queue: o.Queue, Now: o.Now}); err != nil {
		return nil, err
	}
	c.Control = manager.Control{
		Revocations: c.Revoked, Keys: c.Keys, Accounts: c.Ledger, Recorder: operationsRecorder{c.Recorder},
		Fetch: o.Fetch, Browse: o.Browse, Observe: o.Observe,
	}
	c.Control.Sweep = c.Sweep
	return c, nil
}

// Derive makes a grant of less than g, as [grant.Grant.Derive] does, and notes
// where it comes from before anybody has it: from then on it falls with g. A
// grant that has ended has none derived from it.
func (c *Control) Derive(g grant.Grant, w grant.Wish) (grant.Grant, error) {
	now := c.now()
	if err := store.Check(c.Revoked, g, now); err != nil {
		return grant.Grant{}, err
	}
	child, err := g.Derive(w, now)
	if err != nil {
		return grant.Grant{}, err
	}
	if err := store.Note(c.Revoked, child, g); err != nil {
		return grant.Grant{}, err
	}
	return child, nil
}

// Revoke takes a grant back, and with it all that were or will be derived from
// it: what runs under them ends within [revocation.Delay], in every program
// with this state folder. It is remembered for as long as the grant would last.
func (c *Control) Revoke(g grant.Grant) error {
	return c.Revoked.Revoke(store.Name(g.Tenant, g.ID), g.Expires)
}

// RevokeOf is Revoke for who may speak for one agent alone: it ends the grant where
// it is that agent's, with all that were derived from it, and no other of that id.
func (c *Control) RevokeOf(agent string, g grant.Grant) error {
	return c.Revoked.Revoke(store.Scoped(g.Tenant, agent, g.ID), g.Expires)
}

// Sweep forgets what is about grants that have expired.
func (c *Control) Sweep(ctx context.Context) error {
	_, accounts := c.Ledger.Sweep(ctx)
	_, revoked := c.Revoked.Sweep()
	_, keys := c.Keys.Sweep()
	return errors.Join(accounts, revoked, keys)
}

// Close writes what is not on record yet.
func (c *Control) Close() error { return c.Recorder.Close() }

// An operationsRecorder is a recorder as a manager uses it.
type operationsRecorder struct{ w *auditrecorder.Recorder }

// Begin implements [manager.Recorder].
func (r operationsRecorder) Begin(ctx context.Context, b evidence.Begin, require bool) (manager.Entry, error) {
	e, err := r.w.Begin(ctx, b, require)
	if err != nil {
		return nil, err
	}
	return e, nil
}

// Refused implements [manager.Recorder].
func (r operationsRecorder) Refused(ctx context.Context, b evidence.Begin, end evidence.End, require bool) error {
	return r.w.Refused(ctx, b, end, require)
}
