package manager_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/provider/fake"
	"github.com/bulkhead-dev/sandbox/registry"
	"github.com/bulkhead-dev/sandbox/workspace"
)

// A behind provider lists what there was before the last sandboxes were made.
type behind struct{ sandbox.Provider }

func (behind) List(context.Context, sandbox.Filter) ([]sandbox.Info, error) { return nil, nil }

// TestPruneLooksAgain holds that a sandbox that is made between the list of records
// and that of sandboxes is not taken for one that is gone: it keeps its record and
// what it has on the host, and its next command runs.
func TestPruneLooksAgain(t *testing.T) {
	t.Parallel()
	c := newMachine(t)
	there := c.local
	c.local = behind{there}
	m := c.manager(local, "")
	c.run(m, "made", nil)
	out, err := m.Prune(t.Context(), manager.PruneOptions{})
	if err != nil || len(out.Removed)+len(out.Failed) != 0 || out.Kept != 1 {
		t.Errorf("prune: %+v, %v", out, err)
	}
	c.run(m, "made", nil)
	name, err := m.Name(who("made"), nil)
	must(t, err)
	if _, err := m.Recorded(t.Context(), "", name, ""); err != nil {
		t.Error(err)
	}
	must(t, there.Remove(t.Context(), name)) // then it is gone
	if out, err = m.Prune(t.Context(), manager.PruneOptions{}); err != nil || len(out.Removed) != 1 {
		t.Errorf("prune of one that is gone: %+v, %v", out, err)
	}
}

// TestPruneKeepsStopped holds that a container that was stopped, as by a restart of
// the machine, is kept as long as the settings say, by every kind of sweep, and starts
// again.
func TestPruneKeepsStopped(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.manager("")
	mustRun(t, m, "s", "true")
	id := row(t, m, "s").ID
	must(t, r.engine.Kill(t.Context(), id))
	comesTo(t, func() bool { return row(t, m, "s").Status == sandbox.StatusStopped })
	r.clock.advance(2 * time.Minute)
	for _, o := range []manager.PruneOptions{{DryRun: true}, {}, {Workspaces: true}} {
		if out, err := m.Prune(t.Context(), o); err != nil || len(out.Removed)+len(out.Failed) != 0 {
			t.Errorf("%+v: %+v, %v", o, out, err)
		}
	}
	if _, o := mustRun(t, m, "s", "true"); o.Created || row(t, m, "s").ID != id {
		t.Errorf("created %t: another container has its place", o.Created)
	}
}

// TestRemoveWhileCreated holds that what a sandbox is created with outlasts the removal
// of an earlier sandbox of the same name that goes on meanwhile: without it the new one
// would be less confined than its creator asked for.
func TestRemoveWhileCreated(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(*manager.Manager, manager.Row) error{
		"remove": func(m *manager.Manager, row manager.Row) error {
			return m.Remove(context.Background(), row, manager.RemoveOptions{Force: true})
		},
		"prune": func(m *manager.Manager, _ manager.Row) error {
			out, err := m.Prune(context.Background(), manager.PruneOptions{MaxAge: new(time.Nanosecond)})
			if err == nil && len(out.Removed) != 1 {
				err = errors.New("nothing was removed")
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newMachine(t)
			m := c.manager(`{"agents": {"defaults": {"sandbox": {"provider": "local"}}}, "daemon": {"create": {"env": ["*"]}}}`, "")
			for _, creating := range []bool{true, false} {
				p, err := create(m, "s", config.Creation{Env: map[string]string{"A": "1"}})
				must(t, err)
				release := func() {}
				if creating {
					release, err = manager.HoldLock(m, manager.CreationLock(p.Name))
					must(t, err)
				}
				must(t, remove(m, row(t, m, "s")))
				if kept, err := manager.CreatedWith(m, p.Name); err != nil || kept != creating {
					t.Errorf("while it is created %v: kept %v, %v", creating, kept, err)
				}
				release()
			}
		})
	}
}

// TestExpireOfOneMadeAnew holds that a program which ends a sandbox whose time is over
// leaves one that another program has made anew since.
func TestExpireOfOneMadeAnew(t *testing.T) {
	t.Parallel()
	c := newMachine(t)
	m := c.manager(local, "")
	p, err := create(m, "s", config.Creation{Timeout: 1})
	must(t, err)
	release, err := manager.HoldLock(m, p.Name) // as the other program, which ends it
	must(t, err)
	records := manager.Records(m).Of("local")
	must(t, records.Update(sandbox.KindSandbox, p.Name, func(r *registry.Record) error {
		r.ExpiresAt = time.Now().Add(-time.Minute)
		return nil
	}))
	ended := make(chan []string, 1)
	go func() {
		names, _, _ := m.Expire(context.Background())
		ended <- names
	}()
	comesTo(t, func() bool {
		r, err := records.Look(sandbox.KindSandbox, p.Name)
		return err == nil && r.Ending
	})
	must(t, records.Update(sandbox.KindSandbox, p.Name, func(r *registry.Record) error { // as one that is made anew
		r.Ending, r.ExpiresAt, r.OnTimeout = false, time.Time{}, ""
		return nil
	}))
	release()
	if names := <-ended; len(names) != 0 {
		t.Errorf("it ended %v", names)
	}
	if got := row(t, m, "s"); got.Status != sandbox.StatusRunning {
		t.Errorf("%+v", got)
	}
}

// TestPruneCachesLooksAgain holds that a cache that was prepared for a sandbox since it
// was listed is not removed, although no record names it yet.
func TestPruneCachesLooksAgain(t *testing.T) {
	t.Parallel()
	testenv.Require(t, "root")
	c := newMachine(t)
	m := c.manager(local, "")
	at := c.state.Caches()
	must(t, os.MkdirAll(at, 0o700))
	store, err := workspace.Open(at)
	must(t, err)
	_, err = store.Ensure(t.Context(), "one", workspace.Owner{UID: 1000, GID: 1000}, 0)
	must(t, err)
	listed, err := m.Caches(t.Context(), "")
	must(t, err)
	comesTo(t, func() bool { // the clock of files goes in steps
		must(t, store.Annotate("one", map[string]string{"tenant": time.Now().String()}))
		now, err := m.Caches(t.Context(), "")
		must(t, err)
		return now[0].UsedAt.After(listed[0].UsedAt)
	})
	if removed, err := manager.RemoveCache(t.Context(), m, listed[0]); err != nil || removed {
		t.Errorf("removed %v, %v", removed, err)
	}
	if listed, err = m.Caches(t.Context(), ""); err != nil || len(listed) != 1 {
		t.Fatalf("%v, %v", listed, err)
	}
	if removed, err := manager.RemoveCache(t.Context(), m, listed[0]); err != nil || !removed {
		t.Errorf("control: removed %v, %v", removed, err)
	}
}

// A host runs several commands of a session, as the provider host does.
type host struct{ sandbox.Provider }

func (h host) Open(ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
	if _, err := h.Inspect(ctx, s.Name); sandbox.IsNotFound(err) {
		if _, err := h.Create(ctx, s); err != nil {
			return nil, err
		}
	}
	return h.Provider.Open(ctx, s)
}

// TestLastRemovesTheWorkspace holds that a command outside of sandboxes that is to
// remove its workspace leaves it to another one that runs in it.
func TestLastRemovesTheWorkspace(t *testing.T) {
	t.Parallel()
	c := newMachine(t)
	in, done := make(chan bool), make(chan bool)
	c.more = []sandbox.Provider{host{fake.New(fake.Options{Name: "host", Programs: map[string]fake.Program{
		"stay": func(*fake.Proc) int { in <- true; <-done; return 0 },
	}})}}
	m := c.manager(`{"agents": {"defaults": {"sandbox": {"provider": "local", "mode": "off", "commands": {"allowUnsandboxed": true}}}}}`, "")
	name, err := m.Name(who("s"), nil)
	must(t, err)
	there := func() bool {
		_, err := os.Stat(filepath.Join(c.state.Workspaces(), name))
		return err == nil
	}
	command := func(program string) error {
		_, err := m.Run(context.Background(), manager.Request{Who: who("s"), Remove: true, Command: sandbox.Command{Args: []string{program}}})
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- command("stay") }()
	<-in
	must(t, command("true"))
	if !there() {
		t.Error("the workspace of a command that runs was removed")
	}
	close(done)
	must(t, <-ended)
	if there() {
		t.Error("the last one has left the workspace")
	}
}
