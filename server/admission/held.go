package admission

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/tenant"
)

// held is what a sandbox holds, from before it is made.
type held struct {
	manager.Footprint
	since uint64 // when it began to, or was last seen to change
	made  bool   // the goroutine that makes it has done so
	rest  func() // gives back all but the disk; nil when that is done
	disk  func() // releases the disk; nil where none is held
}

// endless is the size that an unbounded workspace counts for: more than any
// tenant's limit, and small enough for sums of many.
const endless = 64 << 40

// Hold implements [manager.Accounting]: a sandbox counts from before it is made,
// for the tenant and for the caller of ctx. It replaces what was counted under
// the same name before.
func (a *Admission) Hold(ctx context.Context, f manager.Footprint) (settle func(stands bool), err error) {
	accounts, err := a.accounts(callerOf(ctx), f.Tenant)
	if err != nil {
		return nil, err
	}
	if err := boundedDisk(f, accounts); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if had := a.held[f.Name]; had != nil {
		a.drop(had) // a new sandbox of that name implies that the old one is gone
		a.gone[f.Name] = a.tick()
	}
	a.forgetFolders(f.Tenant)
	h := &held{Footprint: f, since: a.tick()}
	if err := h.take(a.keeper.Acquire, accounts); err != nil {
		a.refused.Store(true) // what fills the quota may be gone; the next round finds out
		return nil, err
	}
	if err := a.marks.put(f.Name, accounts); err != nil {
		a.drop(h)
		return nil, err
	}
	a.held[f.Name] = h
	delete(a.gone, f.Name)
	return func(stands bool) { a.settle(h, stands) }, nil
}

// settle records whether the sandbox was made.
func (a *Admission) settle(h *held, stands bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.held[h.Name] != h || h.made {
		return
	}
	h.since, h.made = a.tick(), true
	if !stands {
		a.gone[h.Name] = h.since
		a.leave(h)
	}
}

// Gone implements [manager.Accounting].
func (a *Admission) Gone(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gone[name] = a.tick()
	if h := a.held[name]; h != nil {
		a.leave(h)
	}
}

// boundedDisk refuses a workspace without a disk limit where one of the accounts
// bounds the disk: what is left of that bound could not be computed.
func boundedDisk(f manager.Footprint, accounts []tenant.Account) error {
	if f.Disk != manager.NoBound {
		return nil
	}
	for _, account := range accounts {
		if account.Limits.Disk != tenant.Unlimited {
			return &sandbox.Error{
				Code: sandbox.CodeBudgetExceeded, Op: op, Field: "quota." + tenant.Disk.String(), Resource: f.Name,
				Message: "the disk is bounded, and nothing bounds the workspace of this sandbox",
				Hint:    "have workspaceQuota set in the settings of its agent",
			}
		}
	}
	return nil
}

// take calls take with what h holds, all or nothing.
func (h *held) take(take func(tenant.Want, ...tenant.Account) (func(), error), accounts []tenant.Account) error {
	var err error
	h.rest, err = take(tenant.Want{Sandboxes: 1, Memory: max(h.Memory, 0), NanoCPUs: max(h.NanoCPUs, 0)}, accounts...)
	if err != nil {
		return err
	}
	disk := h.Disk
	if disk == manager.NoBound {
		disk = endless
	}
	if disk == 0 {
		return nil
	}
	if h.disk, err = take(tenant.Want{Disk: disk}, accounts...); err != nil {
		h.rest()
	}
	return err
}

// leave releases what a removed sandbox has held. The disk stays held while its
// workspace exists. The mutex is held.
func (a *Admission) leave(h *held) {
	if h.rest != nil {
		h.rest()
		h.rest = nil
	}
	if h.disk == nil || !there(h.Workspace) {
		a.drop(h)
	}
}

// drop releases everything that h holds. The mutex is held.
func (a *Admission) drop(h *held) {
	for _, giveBack := range []func(){h.rest, h.disk} {
		if giveBack != nil {
			giveBack()
		}
	}
	h.rest, h.disk = nil, nil
	delete(a.held, h.Name)
	if err := a.marks.drop(h.Name); err != nil {
		a.log.WithError(err).WithField("sandbox", h.Name).Warn("it cannot be forgotten for whom it counted")
	}
}

// forgetFolders releases the disk of workspaces that no longer exist, of one
// tenant or, where it is empty, of all. The mutex is held.
func (a *Admission) forgetFolders(tenant string) {
	for _, h := range a.held {
		if h.rest == nil && (tenant == "" || h.Tenant == tenant) && !there(h.Workspace) {
			a.drop(h)
		}
	}
}

// there reports whether the workspace exists, and true where that cannot be
// found out.
func there(workspace string) bool {
	if workspace == "" {
		return false
	}
	_, err := os.Lstat(workspace)
	return !errors.Is(err, fs.ErrNotExist)
}

// tick returns the number of the next event. The mutex is held.
func (a *Admission) tick() uint64 {
	a.now++
	return a.now
}
