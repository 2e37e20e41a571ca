//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/orchestrator"
)

const (
	// removeWithin bounds the removal of all containers of a state folder,
	// removeAtOnce of them at a time.
	removeWithin = 5 * time.Minute
	removeAtOnce = 4
)

// A site is a state folder of its own with settings beside it.
type site struct {
	state, settings, instance string
	from                      string // the checkpoint that its pool is filled from; or empty
}

// newSite makes one below the rig's folder. Close removes every sandbox of it,
// after what was registered later has ended the programs that use the site. The
// settings keep as many started sandboxes as said, and sweep none away.
func (r *rig) newSite(name string, pool int) (site, error) {
	folder := filepath.Dir(r.state.Path())
	s := site{state: filepath.Join(folder, name), settings: filepath.Join(folder, name+".json")}
	if err := r.writeSettings(s, pool); err != nil {
		return s, err
	}
	state, err := orchestrator.OpenState(s.state)
	if err != nil {
		return s, err
	}
	s.instance = state.Instance()
	r.later(func(context.Context) error {
		err := r.clear(s)
		r.keep = r.keep || err != nil
		return err
	})
	return s, nil
}

// writeSettings writes the settings of a site, with a pool of that size.
func (r *rig) writeSettings(s site, pool int) error {
	type obj = map[string]any
	text, err := json.Marshal(obj{"agents": obj{"defaults": obj{"sandbox": obj{
		"provider": "docker", "prune": obj{"every": "0s"}, "pool": obj{"size": pool, "from": s.from}, "checkpoint": obj{"max": 10_000},
		"docker": obj{"image": r.Spec.Image, "memory": "64m"},
	}}}})
	if err != nil {
		return err
	}
	return os.WriteFile(s.settings, text, 0o600)
}

// clear removes every sandbox of a site that no program uses any more, as
// sandbox(1) does it: with its home, which is mounted below the state folder,
// its record and its place in the pool. It also removes containers and homes
// that no record names, and reports what it could not remove.
func (r *rig) clear(s site) error {
	// With a pool of none every slot is one too many.
	if err := r.writeSettings(s, 0); err != nil {
		return err
	}
	h, err := orchestrator.Open(orchestrator.Options{ConfigFile: s.settings, StateDir: s.state})
	if err != nil {
		return err
	}
	defer h.Close()
	m, err := h.Manager()
	if err != nil {
		return err
	}
	ctx, done := context.WithTimeout(context.Background(), removeWithin)
	defer done()
	err = removeSandboxes(ctx, m)
	pruned, pruneErr := m.Prune(ctx, manager.PruneOptions{Workspaces: true})
	return errors.Join(err, pruneErr, failures(pruned.Failed), r.removeAll(s.instance))
}

// removeSandboxes removes all sandboxes of a manager, several at a time:
// hundreds one after the other take minutes. All is tried, whatever fails.
func removeSandboxes(ctx context.Context, m *manager.Manager) error {
	l, err := m.List(ctx, manager.ListOptions{All: true})
	errs := make([]error, len(l.Containers)+1)
	errs[len(l.Containers)] = err
	var g errgroup.Group
	g.SetLimit(removeAtOnce)
	for i, row := range l.Containers {
		g.Go(func() error {
			errs[i] = failures(m.Recreate(ctx, []manager.Row{row}).Failed)
			return nil
		})
	}
	_ = g.Wait() // each error is in its place
	return errors.Join(errs...)
}

// failures is one error for what could not be removed, or nil.
func failures(failed []manager.Failed) error {
	var errs []error
	for _, f := range failed {
		errs = append(errs, sandbox.Errorf(f.Code, "remove "+f.Name, "%s", f.Error))
	}
	return errors.Join(errs...)
}

// removeAll removes the containers of an instance, several at a time: hundreds
// one after the other take minutes. All is tried, whatever fails.
func (r *rig) removeAll(instance string) error {
	ctx, done := context.WithTimeout(context.Background(), removeWithin)
	defer done()
	infos, err := r.engine.List(ctx, sandbox.Filter{Instance: instance})
	errs := make([]error, len(infos)+1)
	errs[len(infos)] = err
	var g errgroup.Group
	g.SetLimit(removeAtOnce)
	for i, info := range infos {
		g.Go(func() error {
			errs[i] = r.engine.Remove(ctx, info.ID)
			return nil
		})
	}
	_ = g.Wait() // each error is in its place
	return errors.Join(errs...)
}

// openManager opens the manager of a site in this program.
func (r *rig) openManager(s site) (*manager.Manager, error) {
	h, err := orchestrator.Open(orchestrator.Options{ConfigFile: s.settings, StateDir: s.state})
	if err != nil {
		return nil, err
	}
	r.later(func(context.Context) error { h.Close(); return nil })
	return h.Manager()
}

// OpenManager returns a manager in this program, with all that a daemon has
// and with sandboxes of its own, the same one each time.
func (r *rig) OpenManager() (*manager.Manager, error) {
	if r.within != nil {
		return r.within, nil
	}
	s, err := r.newSite("within", 0)
	if err != nil {
		return nil, err
	}
	r.within, err = r.openManager(s)
	return r.within, err
}

// A Pool is a manager in this program that keeps sandboxes ready. Nothing
// fills it again.
type rigPool struct {
	Manager *manager.Manager
}

// OpenPool returns a pool that has been filled with so many, the same one each
// time until it is emptied.
func (r *rig) OpenPool(ctx context.Context, size int) (*rigPool, error) {
	if r.pool != nil {
		return r.pool, nil
	}
	s, err := r.newSite("pooled", size)
	if err != nil {
		return nil, err
	}
	p := &rigPool{}
	if p.Manager, err = r.openManager(s); err != nil {
		return nil, err
	}
	r.log("filling a pool of %d", size)
	if err := fill(ctx, p.Manager); err != nil {
		return nil, err
	}
	r.pool = p
	return p, nil
}

// fill starts sandboxes of the pool of m until none is missing.
func fill(ctx context.Context, m *manager.Manager) error {
	for {
		_, next, err := m.Refill(ctx)
		if err != nil || next > time.Second {
			return err
		}
		if err := wait(ctx, next); err != nil {
			return err
		}
	}
}

// Empty removes every sandbox of the pool, claimed or not.
func (p *rigPool) Empty() error {
	ctx, done := context.WithTimeout(context.Background(), removeWithin)
	defer done()
	return removeSandboxes(ctx, p.Manager)
}

// wait waits so long, or until ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
