package manager

import (
	"context"
	"errors"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/grant/budget"
	"github.com/bulkhead-dev/sandbox/policy/gate"
	"github.com/bulkhead-dev/sandbox/registry"
	"github.com/bulkhead-dev/sandbox/workspace"
)

// A stager copies files of users into workspaces.
type stager struct{ m *Manager }

const opStage = "stage media"

// Stage copies files that came in from outside into the workspace of the
// session, below [media.InboundDir], and returns the path of each copy, in the
// order of refs: all of them, or with an error none.
//
// A ref is the absolute path of a file below one of the media folders of the
// session's tenant, or scp://HOST/PATH of a file on a machine that the settings
// name, the path as it is there. See [config.MediaOf].
//
// Stage makes the workspace ready as for a command, and starts no sandbox. It is
// the one that the session's commands have at /workspace: with access rw the
// agent's folder, otherwise its own, also beside an agent's folder that is shown
// read-only. For a session that runs without a sandbox, Stage returns
// [sandbox.CodeUnsupported].
func (m *Manager) Stage(ctx context.Context, who config.Who, refs []string) ([]workspace.Staged, error) {
	return m.StageFor(ctx, Request{Who: who}, refs)
}

// StageFor is [Manager.Stage] for the session and the flags of a request, of which
// nothing else counts.
func (m *Manager) StageFor(ctx context.Context, req Request, refs []string) ([]workspace.Staged, error) {
	p := m.pipeline(Request{Who: req.Who, Flags: req.Flags}, gate.Call{})
	if err := p.configure(ctx); err != nil {
		return nil, err
	}
	at, err := m.gates.enter(ctx, p.res, outing{}, effects)
	if err != nil {
		return nil, err
	}
	if at.gate.Place != Sandboxed {
		return nil, &sandbox.Error{Code: sandbox.CodeUnsupported, Op: opStage, Message: "this session has no sandbox whose workspace files could be staged in", Hint: "it runs on the host: " + at.gate.Reason}
	}
	spent, err := m.spend(ctx, budget.One(budget.Calls, 1))
	if err != nil {
		return nil, err
	}
	begun, err := p.beginStaging(ctx, refs)
	if err != nil {
		return nil, spent.end(err)
	}
	staged, err := m.stager.stage(spent.context(ctx), p, at.provider, spent, refs)
	if err = begun.end(ctx, spent.end(err)); err != nil {
		return nil, err
	}
	return staged, nil
}

// beginStaging puts on record that files are staged, where the settings want
// that of calls without a grant.
func (p *pipeline) beginStaging(ctx context.Context, refs []string) (*auditEntry, error) {
	if !p.res.RecordsCommands() {
		return nil, nil
	}
	b := p.beginning()
	b.Kind, b.Capability, b.Request = grant.OpFsWrite, "files:media", evidence.Request{Args: len(refs)}
	b.Inputs = inputs(grant.Operation{Kind: grant.OpFsWrite, Path: workspace.InboundDir, Args: refs})
	var err error
	if b.Sandbox, err = config.Name(p.res.Docker.ContainerPrefix, p.m.describer.owner(p.res)); err != nil {
		return nil, err
	}
	return p.begin(ctx, b)
}

// stage does it, for an admitted call inside of sandboxes.
func (st *stager) stage(ctx context.Context, call *pipeline, p sandbox.Provider, spent *usage, refs []string) ([]workspace.Staged, error) {
	from := config.MediaOf(call.settings, call.res.Tenant)
	src, err := st.mediaSource(call.settings, from)
	if err != nil {
		return nil, err
	}
	spec, held, err := st.readyWorkspace(ctx, call.res, call.req.Flags, p)
	if err != nil {
		return nil, err
	}
	defer held()
	s, err := workspace.New(workspace.Options{
		Workspace: spec.Place(workspaceOf(spec)), Owner: workspace.Owner{UID: spec.UID, GID: spec.GID},
		MaxFile: from.MaxFile, MaxTotal: from.MaxTotal, MaxFiles: from.MaxFiles, Timeout: from.Timeout,
	})
	if err != nil {
		return nil, err
	}
	return s.Stage(ctx, spent.source(src), refs)
}

// readyWorkspace makes the workspace of a session ready without its sandbox,
// and returns the spec that the sandbox is made from or will be. Until held is
// called, neither of them is removed.
func (st *stager) readyWorkspace(ctx context.Context, res config.Resolved, flags *config.SandboxSettings, p sandbox.Provider) (spec sandbox.Spec, held func(), err error) {
	name, err := config.Name(res.Docker.ContainerPrefix, st.m.describer.owner(res))
	if err != nil {
		return spec, nil, err
	}
	turn, err := st.m.locksOf(p.Name()).Ensure(ctx, name)
	if err != nil {
		return spec, nil, err
	}
	defer turn.Release()
	leased, err := st.m.locksOf(p.Name()).Held(name)
	if err != nil {
		return spec, nil, err
	}
	shared, err := st.m.locksOf(p.Name()).Shared(ctx, name)
	if err != nil {
		return spec, nil, err
	}
	if spec, err = st.workspaceInTurn(ctx, res, flags, p, name, leased); err != nil {
		shared.Release()
		return spec, nil, err
	}
	return spec, func() { shared.Release() }, nil
}

// workspaceInTurn is readyWorkspace for who has the turn of the name.
func (st *stager) workspaceInTurn(ctx context.Context, res config.Resolved, flags *config.SandboxSettings, p sandbox.Provider, name string, leased bool) (sandbox.Spec, error) {
	none := sandbox.Spec{}
	f := config.Facts{Home: st.m.host.Home, Env: st.m.host.Env, Sensitive: st.m.host.Sensitive, Via: map[string][]string{}}
	var err error
	if f.Exposed, err = st.m.describer.exposed(); err != nil {
		return none, err
	}
	if f.Listening, err = st.m.describer.listening(); err != nil {
		return none, err
	}
	at, err := st.m.describer.identityOf(p.Name(), name, st.m.describer.owner(res))
	if err != nil {
		return none, err
	}
	// A scope gets its user when it is first used, and the folder with it.
	if _, err := st.m.describer.folders(res, p, at, effects, &f); err != nil {
		return none, err
	}
	w, err := st.m.describer.describe(ctx, res, p, observe)
	if err != nil {
		return none, err
	}
	if flags != nil {
		w.settingsHash = func() string { return st.m.describer.hashWithout(ctx, res.Who, res.Kind, p) }
	}
	have, rec, err := st.m.builder.look(ctx, w)
	if err != nil {
		return none, err
	}
	d, err := decideAction(st.m.builder.input(w.late(hashOf(have), rec), have, rec, leased))
	if err != nil {
		return none, err
	}
	spec, err := stagedFor(w, rec, d)
	if err != nil {
		return none, err
	}
	if workspaceOf(spec) != workspaceOf(w.spec) {
		return spec, nil // of a sandbox that is there, and its own
	}
	return spec, st.m.builder.prepare(ctx, w, spec)
}

// stagedFor is what the sandbox is made from in which the session's next command
// runs, or why there is none.
func stagedFor(w *want, rec *registry.Record, d lifecycleDecision) (sandbox.Spec, error) {
	switch d.Action {
	case lifecycleCreate, lifecycleRecreate:
		return w.spec, nil
	case lifecycleRefuse:
		return w.spec, d.Refusal(w.spec.Name)
	}
	return kept(w, rec), nil
}

// SweepMedia removes what staging left in workspaces when its program was
// killed, and returns the number of those files. It goes on with the other
// workspaces when it fails to sweep one.
func (m *Manager) SweepMedia(ctx context.Context) (removed int, err error) {
	settings := m.current()
	folders, err := m.stager.stagedIn(ctx, settings)
	errs := []error{err}
	for _, folder := range folders {
		s, err := workspace.New(workspace.Options{Workspace: folder, Owner: workspace.Owner{UID: 1, GID: 1}, Timeout: config.MediaOf(settings, "").Timeout})
		if err == nil {
			var n int
			n, err = s.Sweep(ctx, m.now())
			removed += n
		}
		if err != nil && !sandbox.IsNotFound(err) {
			errs = append(errs, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return removed, errors.Join(errs...)
}

// stagedIn lists the workspaces in which something may have been staged.
func (st *stager) stagedIn(ctx context.Context, settings *config.Settings) ([]string, error) {
	var out []string
	known := map[string]bool{"": true}
	add := func(folder string) {
		if !known[folder] {
			known[folder] = true
			out = append(out, folder)
		}
	}
	var errs []error
	roots, err := st.workspaceRoots(settings)
	errs = append(errs, err)
	for _, root := range roots {
		store, err := workspace.Open(root)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		entries, err := store.Scratch(ctx)
		errs = append(errs, err)
		for _, e := range entries {
			add(e.Path)
		}
	}
	records, _, err := st.m.lister.readRecords(ctx)
	for _, r := range records {
		if r.Kind == sandbox.KindSandbox {
			add(r.Workspace)
		}
	}
	return out, errors.Join(append(errs, err)...)
}
