package manager

import (
	"context"
	"errors"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/registry"
)

// freezeWithin bounds one freezing or thawing. While a sandbox is being frozen
// its next user waits. Both take a few milliseconds, and seconds with an engine
// that many ask at once.
const freezeWithin = 20 * time.Second

// Pause freezes a sandbox until its next use or until Resume, and until Resume alone
// where it was created with autoResume false. Shells that are
// open and run nothing freeze with it. One in which something runs is
// [sandbox.CodeBusy]; one whose provider cannot freeze it
// is [sandbox.CodeUnsupported].
func (m *Manager) Pause(ctx context.Context, row Row) error {
	p, err := m.freezer.pauser("pause", row)
	if err != nil {
		return err
	}
	c, _, err := m.creations.read(row.Provider, row.Name)
	if err != nil {
		return err
	}
	return m.freezer.freeze(ctx, p, row.Kind, row.Name, func(r *registry.Record) bool {
		r.Held = c.AutoResume != nil && !*c.AutoResume
		return true
	})
}

// Resume thaws a sandbox that is frozen. A running one is left alone.
func (m *Manager) Resume(ctx context.Context, row Row) error {
	p, err := m.freezer.pauser("resume", row)
	if err != nil {
		return err
	}
	held, err := m.locksOf(row.Provider).Shared(ctx, row.Name)
	if err != nil {
		return err
	}
	defer held.Release()
	if err := p.Unpause(ctx, row.Name); err != nil && row.Status != sandbox.StatusStopped && row.Status != sandbox.StatusMissing {
		return err
	}
	err = m.records.Of(row.Provider).Update(row.Kind, row.Name, func(r *registry.Record) error {
		r.LastUsedAt = m.now()
		r.Thaw(m.now())
		return nil
	})
	if !sandbox.IsNotFound(err) {
		return err
	}
	return nil
}

// pauser returns what freezes the sandbox of row.
func (z *freezer) pauser(op string, row Row) (sandbox.Pauser, error) {
	if row.Instance != "" && !z.m.ours(row.Provider, row.Instance) {
		return nil, &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: op, Resource: row.Name, Message: "the sandbox belongs to another instance"}
	}
	p, err := z.m.providers.Get(row.Provider)
	if err != nil {
		return nil, err
	}
	if pauser, ok := p.(sandbox.Pauser); ok && p.Features().Pause {
		return pauser, nil
	}
	return nil, &sandbox.Error{Code: sandbox.CodeUnsupported, Op: op, Resource: row.Name, Message: "sandboxes of the provider " + p.Name() + " cannot be frozen"}
}

// errNotIdle says that a sandbox was used since it was chosen.
var errNotIdle = errors.New("it was used meanwhile")

// freeze freezes the sandbox name in its turn and alone: a caller that wants to
// use it meanwhile waits for its lease and finds the note, which is written
// before anything is done. still is asked, where there is a record, whether
// to go on.
//
// The engine's answer is waited for whatever becomes of ctx: one that freezes
// when the lease has been given up would freeze a command.
func (z *freezer) freeze(ctx context.Context, p sandbox.Pauser, kind sandbox.Kind, name string, still func(*registry.Record) bool) error {
	turn, err := z.m.leases.TryEnsure(name)
	if err != nil {
		return err
	}
	defer turn.Release()
	held, err := z.m.leases.TryExclusive(name)
	if err != nil {
		return err
	}
	defer held.Release()
	err = z.recordsBehind(p).Update(kind, name, func(r *registry.Record) error {
		if !still(r) {
			return errNotIdle
		}
		r.Frozen = true
		return nil
	})
	if err != nil && !sandbox.IsNotFound(err) {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	pausing, done := context.WithTimeout(ctx, freezeWithin)
	defer done()
	if err = p.Pause(pausing, name); err == nil || sandbox.IsNotFound(err) {
		return err
	}
	undoing, done := context.WithTimeout(ctx, freezeWithin)
	defer done()
	_ = p.Unpause(undoing, name) // it may have been frozen, or be about to be, all the same; the note stays
	return err
}

// recordsBehind are the records of the provider that p is.
func (z *freezer) recordsBehind(p sandbox.Pauser) *registry.Store {
	if p, ok := p.(sandbox.Provider); ok {
		return z.m.records.Of(p.Name())
	}
	return z.m.records
}

// thaw makes a sandbox that is noted as frozen run. The caller has its lease.
func (z *freezer) thaw(ctx context.Context, p sandbox.Provider, kind sandbox.Kind, name string) error {
	if rec, err := z.m.records.Of(p.Name()).Look(kind, name); err == nil && rec.Held {
		return errHeld(name)
	}
	pauser, ok := p.(sandbox.Pauser)
	if !ok {
		return sandbox.Errorf(sandbox.CodeUnsupported, "thaw", "%s is noted as frozen, which the provider %s cannot do", name, p.Name())
	}
	if err := pauser.Unpause(ctx, name); err != nil {
		return err
	}
	return z.m.records.Of(p.Name()).Touch(kind, name, z.m.now())
}
