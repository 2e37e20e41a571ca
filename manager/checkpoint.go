package manager

import (
	"context"
	"io"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/policy/gate"
	"github.com/bulkhead-dev/sandbox/workspace/checkpoint"
)

// CheckpointOptions say what [Manager.Checkpoint] makes.
type CheckpointOptions struct {
	// Name of the checkpoint; empty leaves it without one. No two checkpoints of
	// a tenant have the same name.
	Name string
	// Auto says that no caller asked for the checkpoint. Of those, checkpoint.keep
	// are kept for each sandbox.
	Auto bool
	// Progress, if it is not nil, is called with how many entries and bytes were
	// copied since the call before. Calls overlap, and the copying waits for them.
	Progress func(entries, bytes int64)
}

// A CheckpointFilter selects checkpoints. Empty fields select all, except
// Tenant, which selects those of no tenant.
type CheckpointFilter struct {
	Tenant, Agent, Session string
	Sandbox                string // name
}

func (f CheckpointFilter) keeps(r checkpoint.Record) bool {
	return r.Tenant == f.Tenant && (f.Agent == "" || r.Agent == f.Agent) && (f.Session == "" || r.Session == f.Session) &&
		(f.Sandbox == "" || r.Sandbox == f.Sandbox)
}

// A RolledBack is the result of [Manager.Rollback].
type RolledBack struct {
	Checkpoint checkpoint.Record `json:"checkpoint"`
	// Ended lists the programs that ran and were ended.
	Ended []sandbox.RunningCommand `json:"ended,omitempty"`
	// Recreated says that the sandbox was removed and made again: programs ran in
	// it, or its provider cannot exchange the file system of a sandbox that runs.
	Recreated bool `json:"recreated,omitempty"`
}

// ForkOptions say what [Manager.Fork] makes.
type ForkOptions struct {
	// From is the id or name of the checkpoint; empty makes one of the session's
	// sandbox first.
	From string
	// Sessions are the sessions that the forks belong to, each of which has no
	// sandbox yet. They are sessions of the agent of the request.
	Sessions []string
}

// A Forked is one fork.
type Forked struct {
	Session    string `json:"session"`
	Name       string `json:"name,omitempty"` // of the sandbox
	Checkpoint string `json:"checkpoint"`     // id
	Err        error  `json:"-"`              // why there is no fork; the others are made in any case
}

// Checkpoint keeps the state of the session's sandbox, which must exist: its
// workspace, its home, and the folders of checkpoint.folders. What runs goes on
// and is named in the record. While something runs, the files that changed since
// the last checkpoint are copied one after another, so that they may be of
// different moments; the record says so in Busy.
func (m *Manager) Checkpoint(ctx context.Context, req Request, o CheckpointOptions) (rec checkpoint.Record, err error) {
	if err := onlySession(req); err != nil {
		return rec, err
	}
	if req, err = m.checkpoints.asMade(ctx, req); err != nil {
		return rec, err
	}
	req.bare, req.MustExist = true, true
	err = m.pipeline(req, gate.Call{Tool: req.Tool}).run(ctx, func(l *acquired) error {
		rec, err = m.checkpoints.create(ctx, l, checkpoint.CreateOptions{Name: o.Name, Auto: o.Auto, Progress: o.Progress})
		return err
	})
	if err == nil && o.Name != "" { // pool.from may name it
		m.pool.due()
	}
	return rec, err
}

// Checkpoints returns the checkpoints that f selects, the oldest first.
func (m *Manager) Checkpoints(ctx context.Context, f CheckpointFilter) (list []checkpoint.Record, err error) {
	err = m.checkpoints.each(func(s *checkpoint.Store) error {
		some, err := s.List(ctx, f.keeps)
		list = append(list, some...)
		return err
	})
	sortCheckpoints(list)
	return list, err
}

// FindCheckpoint returns the checkpoint of the tenant with that id or name.
func (m *Manager) FindCheckpoint(ctx context.Context, tenant, ref string) (checkpoint.Record, error) {
	rec, _, err := m.checkpoints.find(ctx, tenant, ref)
	return rec, err
}

// RemoveCheckpoint removes a checkpoint of the tenant. Sandboxes that began from
// it keep their files; those that are kept ready with it are removed.
func (m *Manager) RemoveCheckpoint(ctx context.Context, tenant, ref string) error {
	rec, store, err := m.checkpoints.find(ctx, tenant, ref)
	if err != nil {
		return err
	}
	if err := store.Remove(ctx, rec.ID); err != nil {
		return err
	}
	err = m.pool.removeFilled(ctx, rec.ID)
	m.pool.due()
	return err
}

// ExportCheckpoint writes a checkpoint of the tenant to w: a tar archive,
// compressed with zstd, which [Manager.ImportCheckpoint] reads here or on another
// machine.
func (m *Manager) ExportCheckpoint(ctx context.Context, tenant, ref string, w io.Writer) error {
	rec, store, err := m.checkpoints.find(ctx, tenant, ref)
	if err != nil {
		return err
	}
	report, err := store.Export(ctx, rec.ID, w)
	if n := report.LeftOut.Special; err == nil && n > 0 {
		m.log.Warnf("the exported checkpoint %s is without %d pipes, sockets and devices", rec.ID, n)
	}
	return err
}

// ImportCheckpoint reads what ExportCheckpoint wrote and keeps it as a checkpoint
// of who, called name, which may be empty.
func (m *Manager) ImportCheckpoint(ctx context.Context, who config.Who, name string, r io.Reader) (checkpoint.Record, error) {
	settings, err := m.currentOf(who, nil)
	if err != nil {
		return checkpoint.Record{}, err
	}
	res, err := m.describer.resolved(settings, who, nil)
	if err != nil {
		return checkpoint.Record{}, err
	}
	store, err := m.checkpoints.of(res)
	if err != nil {
		return checkpoint.Record{}, err
	}
	left, err := m.checkpoints.room(ctx, store, res, name)
	if err != nil {
		return checkpoint.Record{}, err
	}
	rec, err := store.Import(ctx, r, checkpoint.ImportOptions{
		Name: name, Tenant: res.Tenant, Agent: res.Agent, Session: res.Session, MaxBytes: left,
	})
	if err == nil {
		m.pool.due()
	}
	return rec, err
}

// Rollback makes the state of the session's sandbox that of the checkpoint,
// which is one of the same tenant. Programs that run in the background are ended.
// What was there before is given up: a caller that may want it makes a
// checkpoint of it. While a call uses the sandbox, Rollback is
// [sandbox.CodeBusy].
func (m *Manager) Rollback(ctx context.Context, req Request, ref string) (done RolledBack, err error) {
	if err := onlySession(req); err != nil {
		return done, err
	}
	if req, err = m.checkpoints.asMade(ctx, req); err != nil {
		return done, err
	}
	req.bare, req.MustExist, req.Changes = true, true, true
	p := m.pipeline(req, gate.Call{Tool: req.Tool})
	err = p.run(ctx, func(l *acquired) error {
		rec, _, err := m.checkpoints.find(ctx, p.res.Tenant, ref)
		if err == nil {
			done, err = m.checkpoints.rollback(ctx, l, rec)
		}
		return err
	})
	if err != nil || !done.Recreated {
		return done, err
	}
	req.MustExist = false
	// The folders beside the workspace are restored before the sandbox is used.
	return done, m.pipeline(req, gate.Call{Tool: req.Tool}).run(ctx, func(*acquired) error { return nil })
}

// Fork makes a sandbox for each session of o that begins with the state of a
// checkpoint. Each has an identity, secrets and tokens of its own. The sandbox of
// req goes on undisturbed.
func (m *Manager) Fork(ctx context.Context, req Request, o ForkOptions) ([]Forked, error) {
	if err := onlySession(req); err != nil {
		return nil, err
	}
	if len(o.Sessions) == 0 {
		return nil, &sandbox.Error{Code: sandbox.CodeValidation, Op: "fork", Field: "sessions", Message: "no session is named for a fork", Hint: "name one or more"}
	}
	if o.From == "" {
		rec, err := m.Checkpoint(ctx, req, CheckpointOptions{Auto: true})
		if err != nil {
			return nil, err
		}
		o.From = rec.ID
	}
	return m.checkpoints.fork(ctx, req, o)
}
