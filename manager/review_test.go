package manager_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/container"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/provider/docker"
)

// A caller that finds the sandbox frozen must not end the commands of others.
func TestSlowAnswerSparesOthers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.manager("")
	_, o := mustRun(t, m, "s", "true")
	started := make(chan struct{})
	type result struct {
		out string
		o   manager.Outcome
		err error
	}
	first := make(chan result, 1)
	go func() {
		out, o, err := run(m, "s", "sleep 1; echo finished", func(q *manager.Request) { q.Started = func(sandbox.Process) { close(started) } })
		first <- result{out, o, err}
	}()
	<-started
	must(t, r.engine.Pause(context.Background(), o.Name))
	mustRun(t, m, "s", "true") // thaws it
	if got := <-first; got.err != nil || got.out != "finished" {
		t.Errorf("the first command ended with %q, %+v, %v", got.out, got.o, got.err)
	}
}

// Each sandbox is swept by the rules of its own agent and for its own tenant.
func TestPruneRulesAreTheAgents(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.manager(`{"agents":{"list":[{"id":"eager","sandbox":{"prune":{"idle":"1s"}}}]}}`)
	ctx := context.Background()
	for _, w := range []config.Who{{Tenant: "acme", Agent: "main", Session: "a"}, {Tenant: "acme", Agent: "eager", Session: "b"}, {Tenant: "other", Agent: "eager", Session: "c"}} {
		_, err := m.Run(ctx, manager.Request{Who: w, Command: sandbox.Command{Args: []string{"true"}}})
		must(t, err)
	}
	r.clock.advance(time.Hour)
	p, err := m.Prune(ctx, manager.PruneOptions{Tenant: "acme"})
	if err != nil || len(p.Removed) != 1 || p.Kept != 1 || !strings.Contains(p.Removed[0].Name, "-b-") {
		t.Errorf("acme's sweep did %+v, %v", p, err)
	}
	p, err = m.Prune(ctx, manager.PruneOptions{})
	if err != nil || len(p.Removed) != 1 || p.Kept != 1 || !strings.Contains(p.Removed[0].Name, "-c-") {
		t.Errorf("the sweep of all did %+v, %v", p, err)
	}
}

// A record that was damaged is rebuilt, and its sandbox is not swept for it.
func TestDamagedRecordIsRebuilt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.manager("")
	_, o := mustRun(t, m, "s", "true")
	must(t, os.WriteFile(filepath.Join(r.state.Registry(), "containers", o.Name+".json"), []byte("{"), 0o600))
	r.clock.advance(2 * time.Hour)
	p, err := m.Prune(context.Background(), manager.PruneOptions{})
	if err != nil || len(p.Removed) != 0 || p.Kept != 1 {
		t.Errorf("prune did %+v, %v", p, err)
	}
	l, err := m.List(context.Background(), manager.ListOptions{})
	if err != nil || len(l.Containers) != 1 || l.Containers[0].Status != sandbox.StatusRunning || l.Containers[0].Session != "s" {
		t.Errorf("list shows %+v, %v", l.Containers, err)
	}
}

// Sessions of one name of two agents are two sessions, also where the settings of
// both are alike, and each is found by its agent.
func TestSessionsOfAgentsAreTwoSandboxes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.manager("")
	of := func(agent string) manager.Outcome {
		t.Helper()
		_, o, err := run(m, "s", "echo "+agent+" >> /workspace/who", func(q *manager.Request) { q.Who.Agent = agent })
		must(t, err)
		out, _, err := run(m, "s", "cat /workspace/who", func(q *manager.Request) { q.Who.Agent = agent })
		if err != nil || strings.TrimSpace(out) != agent {
			t.Errorf("agent %s reads %q, %v", agent, out, err)
		}
		return o
	}
	names := map[string]string{}
	for _, agent := range []string{"main", "a", "b"} {
		names[of(agent).Name] = agent
	}
	if _, o, err := run(m, "agent:a:session:s", "true"); err != nil || names[o.Name] != "" || len(names) != 3 {
		t.Errorf("a session that is called like the key of another is %s, beside %v; %v", o.Name, names, err)
	}
	for _, tt := range []struct {
		s    manager.Selector
		want []string
	}{
		{manager.Selector{Session: "s"}, []string{"main"}}, {manager.Selector{Session: "s", Agent: "b"}, []string{"b"}},
		{manager.Selector{Session: "s", Agent: "none"}, nil}, {manager.Selector{Agent: "a"}, []string{"a"}},
	} {
		rows, err := m.Select(t.Context(), "", tt.s, false)
		must(t, err)
		var got []string
		for _, row := range rows {
			got = append(got, names[row.Name])
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%+v selects %v, want %v", tt.s, got, tt.want)
		}
	}
	for _, s := range []manager.Selector{{}, {All: true, Session: "s"}, {All: true, Agent: "a", Session: "s"}} {
		if _, err := m.Select(t.Context(), "", s, false); sandbox.CodeOf(err) != sandbox.CodeValidation {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

func TestExecOfAStoppedSandboxWithOtherSettings(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, o := mustRun(t, r.manager(""), "s", "true")
	must(t, r.engine.Kill(context.Background(), o.Name))
	m := r.manager(settings(`"docker":{"memory":"1g"}`))
	out, o, err := run(m, "s", "echo there", func(q *manager.Request) { q.MustExist = true })
	if err != nil || out != "there" {
		t.Errorf("%q, %+v, %v", out, o, err)
	}
	before := tree(t, r.dir)
	if _, _, err = run(m, "none", "true", func(q *manager.Request) { q.MustExist = true }); !sandbox.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
	if after := tree(t, r.dir); after != before {
		t.Errorf("asking for nothing left something:\n%s\n%s", before, after)
	}
}

// tree lists the files below dir.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var names []string
	must(t, filepath.WalkDir(dir, func(p string, _ os.DirEntry, err error) error {
		names = append(names, strings.TrimPrefix(p, dir))
		return err
	}))
	return strings.Join(names, "\n")
}

// A paused sandbox that is kept keeps its workspace, whatever user the
// changed settings ask for.
func TestKeptSandboxKeepsItsWorkspace(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, o := mustRun(t, r.manager(""), "s", "echo mine > f")
	must(t, r.engine.Pause(context.Background(), o.Name))
	if out, _ := mustRun(t, r.manager(settings(`"docker":{"user":"4242:4242"}`)), "s", "cat f; touch g && echo writable"); out != "mine\nwritable" {
		t.Errorf("got %q", out)
	}
}

// Sweeping workspaces leaves folders alone that are not scratch ones.
func TestSweepSparesOtherFolders(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.manager("")
	dir := tempDir(t, 0o755)
	must(t, os.Chown(dir, 1234, 1234))
	_, _, err := run(m, "s", "touch kept", func(q *manager.Request) { q.Flags = config.Overrides{Workspace: dir}.Layer() })
	must(t, err)
	soon := time.Nanosecond
	p, err := m.Prune(context.Background(), manager.PruneOptions{Idle: &soon, Workspaces: true})
	if err != nil || len(p.Removed) != 1 || len(p.Failed) != 0 {
		t.Errorf("prune did %+v, %v", p, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "kept")); err != nil {
		t.Error(err)
	}
	_, other := mustRun(t, m, "other", "touch kept")
	ws := filepath.Join(r.state.Workspaces(), other.Name)
	if _, _, err := run(m, "thief", "true", func(q *manager.Request) { q.Flags = config.Overrides{Workspace: ws}.Layer() }); sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
		t.Errorf("another sandbox's workspace as one's own: %v", err)
	}
}

// A slowLister is an engine that is too busy to tell of its containers.
type slowLister struct{ docker.Engine }

func (slowLister) List(ctx context.Context, _ sandbox.Filter) ([]sandbox.Info, error) {
	<-ctx.Done()
	return nil, sandbox.Errorf(sandbox.CodeTimeout, "list", "given up: %w", ctx.Err())
}

// A quickLister is an engine that tells at once of the containers that there
// were, so that no sweep is given up, however slow the machine is.
type quickLister struct {
	docker.Engine
	there []sandbox.Info
}

func (q quickLister) List(context.Context, sandbox.Filter) ([]sandbox.Info, error) {
	return q.there, nil
}

func (quickLister) Networks(context.Context) ([]container.Network, error) { return nil, nil }

// sweepsWhole has every sweep of conductors that are made from now on come to
// its end.
func (r *rig) sweepsWhole() {
	r.t.Helper()
	there, err := r.engine.List(context.Background(), sandbox.Filter{Instance: r.state.Instance()})
	must(r.t, err)
	r.wrap = func(e docker.Engine) docker.Engine { return quickLister{e, there} }
}

// A sweep that a busy engine does not let come to its end is left to the next
// one, and no matter of the command that it was done beside. That none comes to
// its end is worth a warning, each time that one is due.
func TestSweepIsPutOff(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.sweepsWhole()
	mustRun(t, r.manager(""), "s", "true")
	r.wrap = func(e docker.Engine) docker.Engine { return slowLister{e} }
	const once, again = "level=info msg=\"the sweep was given up after 1s; the next one is due in 5m0s\"", "level=warning msg=\"the sweep was given up after 1s, as the one before was"
	for i, step := range []struct {
		later       time.Duration
		once, again int
	}{
		{later: 5 * time.Minute, once: 1},
		{later: time.Minute, once: 1}, // none is due
		{later: 5 * time.Minute, once: 1, again: 1},
		{later: 5 * time.Minute, once: 1, again: 2},
	} {
		r.clock.advance(step.later)
		mustRun(t, r.manager(""), "s", "true")
		if log := r.log.String(); strings.Count(log, once) != step.once || strings.Count(log, again) != step.again || strings.Count(log, "level=warning") != step.again {
			t.Errorf("step %d: it says %s", i, log)
		}
	}
	r.sweepsWhole() // one that comes to its end ends that
	r.clock.advance(5 * time.Minute)
	mustRun(t, r.manager(""), "s", "true")
	r.wrap = func(e docker.Engine) docker.Engine { return slowLister{e} }
	r.clock.advance(5 * time.Minute)
	mustRun(t, r.manager(""), "s", "true")
	if log := r.log.String(); strings.Count(log, once) != 2 || strings.Count(log, again) != 2 {
		t.Errorf("after one that came to its end it says %s", log)
	}
}

// A deserter ends its caller's context when it is asked for a list.
type deserter struct {
	docker.Engine
	end func()
}

func (d deserter) List(ctx context.Context, _ sandbox.Filter) ([]sandbox.Info, error) {
	d.end()
	<-ctx.Done()
	return nil, sandbox.Errorf(sandbox.CodeTimeout, "list", "given up: %w", ctx.Err())
}

// A caller who goes while it is swept says nothing of the engine: nothing is
// logged, and the next use sweeps.
func TestSweepOfOneWhoGoes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.sweepsWhole()
	mustRun(t, r.manager(""), "s", "true")
	r.clock.advance(5 * time.Minute)
	for range 2 {
		ctx, end := context.WithCancel(context.Background())
		asked := false
		r.wrap = func(e docker.Engine) docker.Engine { return deserter{e, func() { asked = true; end() }} }
		_, err := r.manager("").Run(ctx, manager.Request{Who: who("s"), Command: sandbox.Command{Args: []string{"true"}}})
		if err == nil || !asked {
			t.Errorf("got %v, and that a sweep began is %v", err, asked)
		}
	}
	if log := r.log.String(); strings.Contains(log, "sweep") || strings.Contains(log, "level=warning") {
		t.Errorf("it says %s", log)
	}
}

// A run waits for a sandbox that another call is just removing.
func TestRunWhileBeingRemoved(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.manager("")
	for i := range testenv.Rounds(2, 2, 5) {
		_, o := mustRun(t, m, "s", "true")
		done := make(chan error, 1)
		go func() { done <- r.engine.Remove(context.Background(), o.Name) }()
		testenv.Success(t, func() error {
			out, _, err := run(m, "s", fmt.Sprintf("echo %d", i))
			var e *sandbox.Error
			if errors.As(err, &e) && e.Code == sandbox.CodeBusy && e.Retryable {
				return err // the engine takes long to remove it, and says so
			}
			if err != nil && sandbox.CodeOf(err) != sandbox.CodeUnavailable {
				t.Errorf("round %d: %q, %v", i, out, err)
			}
			return nil
		})
		must(t, <-done)
	}
	if out, _ := mustRun(t, m, "s", "echo back"); out != "back" {
		t.Errorf("got %q", out)
	}
}

// A bind whose source lies in a writable workspace is refused: code inside
// could swap it for a link before the next start.
func TestBindBelowAWritableWorkspace(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	dir := tempDir(t, 0o755)
	must(t, os.Mkdir(filepath.Join(dir, "data"), 0o755))
	must(t, os.Chown(dir, 1234, 1234))
	m := r.manager(fmt.Sprintf(`{"agents":{"list":[{"id":"main","workspace":%q,"sandbox":{"workspaceAccess":"rw","docker":{"binds":[%q]}}},
		{"id":"below","workspace":%q,"sandbox":{"workspaceAccess":"rw"}}]}}`, dir, dir+"/data:/data:rw", dir+"/data"))
	for _, agent := range []string{"main", "below"} {
		_, err := m.Run(context.Background(), manager.Request{Who: config.Who{Agent: agent, Session: "s"}, Command: sandbox.Command{Args: []string{"true"}}})
		if sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
			t.Errorf("%s: %v", agent, err)
		}
	}
}

// A folder is not made through a link that another user could have put there.
func TestAgentFolderBehindALink(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	dir := tempDir(t, 0o755)
	must(t, os.Symlink("/etc", filepath.Join(dir, "sub")))
	m := r.manager(fmt.Sprintf(`{"agents":{"list":[{"id":"main","workspace":%q,"sandbox":{"workspaceAccess":"rw"}}]}}`, dir+"/sub/sandbox-test-new"))
	if _, _, err := run(m, "s", "true"); sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
		t.Errorf("got %v", err)
	}
	if _, err := os.Lstat("/etc/sandbox-test-new"); !os.IsNotExist(err) {
		os.Remove("/etc/sandbox-test-new")
		t.Error("the folder was made in /etc")
	}
}

// A workspace that no record names any more is swept with the workspaces.
func TestForgottenWorkspace(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.manager("")
	_, o := mustRun(t, m, "s", "touch x")
	mustRun(t, m, "other", "touch x")
	ctx := context.Background()
	rows, err := m.Select(ctx, "", manager.Selector{Session: "s"}, false)
	must(t, err)
	m.Recreate(ctx, rows)
	p, err := m.Prune(ctx, manager.PruneOptions{Workspaces: true})
	if err != nil || len(p.Removed) != 1 || p.Removed[0].Name != o.Name {
		t.Errorf("prune did %+v, %v", p, err)
	}
	entries, err := os.ReadDir(r.state.Workspaces())
	must(t, err)
	n := 0
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d workspaces are left, want the other one", n)
	}
}

// A record that was damaged is rebuilt by whoever reads it first: no call
// leaves its sandbox to the next sweep.
func TestDamagedRecordIsRebuiltByEachReader(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]func(context.Context, *manager.Manager) error{
		"expire": func(ctx context.Context, m *manager.Manager) error { _, _, err := m.Expire(ctx); return err },
		"list": func(ctx context.Context, m *manager.Manager) error {
			_, err := m.List(ctx, manager.ListOptions{})
			return err
		},
		"stats": func(ctx context.Context, m *manager.Manager) error { _, err := m.Stats(ctx, ""); return err },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			m := r.manager("")
			_, o := mustRun(t, m, "s", "true")
			must(t, os.WriteFile(filepath.Join(r.state.Registry(), "containers", o.Name+".json"), []byte("{"), 0o600))
			r.clock.advance(2 * time.Hour)
			must(t, read(t.Context(), m))
			p, err := m.Prune(t.Context(), manager.PruneOptions{})
			if err != nil || len(p.Removed) != 0 || p.Kept != 1 {
				t.Errorf("prune did %+v, %v", p, err)
			}
		})
	}
}
