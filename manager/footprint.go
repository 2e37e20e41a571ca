package manager

import (
	"context"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/grant/budget"
	"github.com/bulkhead-dev/sandbox/internal/keylock"
	"github.com/bulkhead-dev/sandbox/registry"
)

// A Footprint is what a sandbox, or the container of a browser, takes of the machine
// from when it is made until it is removed.
type Footprint struct {
	Name   string
	Kind   sandbox.Kind
	Tenant string

	Memory   int64 // bytes
	NanoCPUs int64 // 1e9 is one processor
	// Disk is how many bytes the workspace may hold, NoBound where nothing bounds
	// it. It is 0 where the workspace is not ours: an agent's own folder.
	Disk      int64
	Workspace string // the folder that Disk is about; empty where that is 0
}

// NoBound is the Disk of a workspace that may grow as it likes.
const NoBound int64 = -1

// Accounting keeps account of the sandboxes that there are, and of the commands
// that run. It is safe for concurrent use. See package daemon/admission.
type Accounting interface {
	// The manager calls Hold before it makes a sandbox; an error ends the
	// call. Otherwise it calls settle, once, with whether the sandbox exists.
	Hold(ctx context.Context, f Footprint) (settle func(stands bool), err error)
	// Gone reports that a sandbox was removed.
	Gone(name string)
	// Begin waits for the tenant's turn to begin a command; its error ends the
	// call. Otherwise the manager calls release, once, when the command ended.
	Begin(ctx context.Context, tenant string) (release func(), err error)
	// Payer returns the account that is charged for what is done with ctx,
	// beside the accounts of grants and settings; the zero Payer charges none.
	// Its error ends the call.
	Payer(ctx context.Context) (Payer, error)
}

// A Payer is the account that a caller's use is charged to. Its answers are
// reported to that caller.
type Payer struct {
	budget.Source               // nil: no account and no bound
	Bound         budget.Amount // the strictest of the accounts
}

// createHeld is create for a sandbox that is accounted for.
func (b *builder) createHeld(ctx context.Context, w *want, held *keylock.Lock) (*acquired, error) {
	if b.m.accounting == nil {
		return b.create(ctx, w, held)
	}
	settle, err := b.m.accounting.Hold(ctx, w.footprint())
	if err != nil {
		return nil, err
	}
	l, err := b.create(ctx, w, held)
	settle(err == nil || !b.vanished(ctx, w))
	return l, err
}

// vanished reports whether it is certain that nothing of the wanted sandbox is
// there, after making it has failed.
func (b *builder) vanished(ctx context.Context, w *want) bool {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer done()
	_, err := w.provider.Inspect(ctx, w.spec.Name)
	return sandbox.IsNotFound(err)
}

// gone tells that a sandbox was removed.
func (ls *lister) gone(name string) {
	if ls.m.accounting != nil {
		ls.m.accounting.Gone(name)
	}
}

// turn waits until a command may begin in a sandbox.
func (x *executor) turn(ctx context.Context, l *acquired) (release func(), err error) {
	if x.m.accounting == nil {
		return func() {}, nil
	}
	return x.m.accounting.Begin(ctx, l.spec.Owner.Tenant)
}

// footprint is what the wanted sandbox will take.
func (w *want) footprint() Footprint {
	return footprintOf(w.spec, w.res)
}

func footprintOf(s sandbox.Spec, res config.Resolved) Footprint {
	p := Footprint{Name: s.Name, Kind: s.Kind, Tenant: s.Owner.Tenant, Memory: s.Resources.Memory, NanoCPUs: s.Resources.NanoCPUs}
	switch {
	case ownScratch(res):
		p.Workspace, p.Disk = workspaceOf(s), int64(res.WorkspaceQuota)
		if p.Disk == 0 {
			p.Disk = NoBound
		}
	case res.Kind != sandbox.KindBrowser && res.Private(): // no quota bounds what is written to a view
		p.Workspace, p.Disk = workspaceOf(s), NoBound
	}
	if home, ok := homeOf(s); ok && p.Disk != NoBound {
		p.Disk += home.Size
	}
	return p
}

// Footprints returns what the sandboxes of this instance take that there are now,
// browsers among them and spares of the pool not. Those of which known is true
// have their name alone, which spares reading what they were made from. With an
// error it may not be all of them.
func (m *Manager) Footprints(ctx context.Context, known func(name string) bool) ([]Footprint, error) {
	records, unread, recordErr := m.lister.readRecords(ctx)
	if recordErr != nil {
		return nil, recordErr
	}
	infos, down, err := m.lister.live(ctx, false, func(provider string) bool { return m.lister.matters(provider, records, unread) })
	var out []Footprint
	for _, row := range m.lister.reconcile(records, infos, down) {
		switch {
		case row.Status == sandbox.StatusMissing, row.Kind != sandbox.KindSandbox && row.Kind != sandbox.KindBrowser:
		case known(row.Name):
			out = append(out, Footprint{Name: row.Name, Kind: row.Kind, Tenant: row.Tenant})
		default:
			out = append(out, m.lister.footprintOfRow(row))
		}
	}
	return out, err
}

// footprintOfRow tells what a sandbox takes by what it was made from, and where that
// is not known by what the settings say now.
func (ls *lister) footprintOfRow(row Row) Footprint {
	p := Footprint{Name: row.Name, Kind: row.Kind, Tenant: row.Tenant}
	who := config.Who{Tenant: row.Tenant, Agent: row.Agent, Session: row.Session}
	settings, err := ls.m.currentOf(who, flagged(row.Provider))
	if err != nil {
		settings = ls.m.current()
	}
	res, err := config.Resolve(settings, who, nil)
	if err != nil {
		ls.m.log.WithError(err).WithField("sandbox", row.Name).Warn("it is not known what it takes")
	}
	res = of(row.Kind, res)
	rec, err := ls.m.records.Of(row.Provider).Get(row.Kind, row.Name)
	if err == nil && rec.Spec != nil {
		return footprintOf(*rec.Spec, res)
	}
	p.Memory, p.NanoCPUs = int64(res.Docker.Memory), int64(res.Docker.CPUs*1e9)
	if ownScratch(res) {
		p.Disk, p.Workspace = int64(res.WorkspaceQuota), workspaceOfRow(row, rec)
		if p.Disk == 0 {
			p.Disk = NoBound
		}
	} else if res.Kind != sandbox.KindBrowser && res.Private() {
		p.Disk, p.Workspace = NoBound, workspaceOfRow(row, rec)
	}
	return p
}

// workspaceOfRow is the folder as far as a row or its record tells.
func workspaceOfRow(row Row, rec registry.Record) string {
	if row.Workspace != "" {
		return row.Workspace
	}
	return rec.Workspace
}
