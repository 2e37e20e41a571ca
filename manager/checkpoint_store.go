package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/workspace"
	"github.com/bulkhead-dev/sandbox/workspace/checkpoint"
)

// checkpoints makes checkpoints of sandboxes and sandboxes of checkpoints. It
// keeps one store for each folder of workspaces.
type checkpoints struct {
	m *Manager

	mu     sync.Mutex
	stores map[string]*checkpoint.Store    // by root and means
	shells map[string][]sandbox.ShellState // by sandbox: the states that its shells begin in, when they are opened
	opened map[*Shell]bool                 // shells of this process
}

// of returns the store of the workspaces of res.
func (c *checkpoints) of(res config.Resolved) (*checkpoint.Store, error) {
	workspaces, err := c.m.describer.workspaces(res)
	if err != nil {
		return nil, err
	}
	return c.store(workspaces.Root(), res.Checkpoint.Means)
}

func (c *checkpoints) store(root, means string) (*checkpoint.Store, error) {
	if means == config.MeansAuto {
		means = ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	key := means + ":" + root
	if s := c.stores[key]; s != nil {
		return s, nil
	}
	s, err := checkpoint.Open(root, checkpoint.Options{Means: checkpoint.Means(means), Now: c.m.now})
	if err == nil {
		c.stores[key] = s
	}
	return s, err
}

// close waits for what the stores have left to do.
func (c *checkpoints) close() {
	c.mu.Lock()
	stores := slices.Collect(maps.Values(c.stores))
	c.mu.Unlock()
	for _, s := range stores {
		_ = s.Close() // it has no errors
	}
}

// each calls fn with the store of each folder of workspaces that has one.
func (c *checkpoints) each(fn func(*checkpoint.Store) error) error {
	roots, err := c.m.stager.workspaceRoots(c.m.current())
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, root := range roots {
		if _, err := os.Lstat(root); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		store, err := c.store(root, "")
		if err != nil {
			return err
		}
		if seen[store.Root()] {
			continue
		}
		seen[store.Root()] = true
		if err := fn(store); err != nil {
			return err
		}
	}
	return nil
}

// find returns the checkpoint of the tenant with that id or name, and its store.
func (c *checkpoints) find(ctx context.Context, tenant, ref string) (rec checkpoint.Record, store *checkpoint.Store, err error) {
	mine := func(r checkpoint.Record) bool { return r.Tenant == tenant }
	missing := error(&sandbox.Error{
		Code: sandbox.CodeNotFound, Op: "find checkpoint", Resource: ref, Message: fmt.Sprintf("there is no checkpoint %q", ref), Hint: "list them with: sandbox checkpoint list",
	})
	err = c.each(func(s *checkpoint.Store) error {
		if store != nil {
			return nil
		}
		r, err := s.Find(ctx, ref, mine)
		switch {
		case err == nil:
			rec, store = r, s
		case sandbox.IsNotFound(err):
			missing = err
		default:
			return err
		}
		return nil
	})
	if err == nil && store == nil {
		err = missing
	}
	return rec, store, err
}

func sortCheckpoints(list []checkpoint.Record) {
	slices.SortFunc(list, func(a, b checkpoint.Record) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
}

// onThisMachine refuses what needs the workspace of the sandbox name as a folder of
// this machine where p has none: an empty folder would be kept, or compared, in its
// place.
func onThisMachine(op string, p sandbox.Provider, name string) error {
	if !detached(p) {
		return nil
	}
	return &sandbox.Error{
		Code: sandbox.CodeUnsupported, Op: op, Resource: name, Field: "provider",
		Message: "the workspace of a sandbox of the provider " + p.Name() + " is no folder of this machine",
		Hint:    "copy files out with sandbox cp, or use the provider docker or local",
	}
}

// at returns the store and the name of the workspace of l.
func (c *checkpoints) at(l *acquired) (store *checkpoint.Store, name string, err error) {
	refused := &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "use checkpoints", Resource: l.name()}
	if l.want.gate.Place != Sandboxed {
		refused.Message, refused.Hint = "the session runs without a sandbox", "set mode to all"
		return nil, "", refused
	}
	if err := onThisMachine("use checkpoints", l.want.provider, l.name()); err != nil {
		return nil, "", err
	}
	if store, err = c.of(l.want.res); err != nil {
		return nil, "", err
	}
	folder := workspaceOf(l.spec)
	if filepath.Dir(folder) != store.Root() {
		refused.Message = "its workspace is the folder " + folder + " of the host, which is no state of the sandbox"
		refused.Hint = "set workspaceAccess to private, so that the sandbox changes a view of the folder"
		return nil, "", refused
	}
	return store, filepath.Base(folder), nil
}

// room returns how many bytes a further checkpoint of the tenant of res may take,
// 0 for any number, or an error when the tenant may have no further one.
// A name that the tenant has given to another one is an error too.
func (c *checkpoints) room(ctx context.Context, store *checkpoint.Store, res config.Resolved, name string) (int64, error) {
	list, err := store.List(ctx, func(r checkpoint.Record) bool { return r.Tenant == res.Tenant })
	if err != nil {
		return 0, err
	}
	if name != "" && slices.ContainsFunc(list, func(r checkpoint.Record) bool { return r.Name == name }) {
		return 0, &sandbox.Error{
			Code: sandbox.CodeBusy, Op: "create checkpoint", Field: "name", Resource: name, Message: fmt.Sprintf("there is a checkpoint called %q", name),
			Hint: "use another name, or remove it with: sandbox checkpoint rm",
		}
	}
	over := &sandbox.Error{Code: sandbox.CodeBudgetExceeded, Op: "create checkpoint", Hint: "remove some with: sandbox checkpoint rm, or raise the setting"}
	if n := int64(len(list)); n >= res.Checkpoint.Max {
		over.Field, over.Message = "checkpoint.max", fmt.Sprintf("there are %d checkpoints, as many as the setting allows", n)
		return 0, over
	}
	left := int64(res.Checkpoint.MaxDisk)
	if left == 0 {
		return 0, nil
	}
	for _, r := range list {
		left -= r.Bytes
	}
	if left <= 0 {
		over.Field, over.Message = "checkpoint.maxDisk", fmt.Sprintf("checkpoints take %v, as much as the setting allows", res.Checkpoint.MaxDisk)
		return 0, over
	}
	return left, nil
}

// create makes a checkpoint of the sandbox l.
func (c *checkpoints) create(ctx context.Context, l *acquired, o checkpoint.CreateOptions) (rec checkpoint.Record, err error) {
	store, name, err := c.at(l)
	if err != nil {
		return rec, err
	}
	if o.MaxBytes, err = c.room(ctx, store, l.want.res, o.Name); err != nil {
		return rec, err
	}
	alone, release, err := c.m.builder.alone(ctx, l)
	if err != nil {
		return rec, err
	}
	defer func() { err = errors.Join(err, release()) }()
	if o.Shells, o.Running, err = stateOf(ctx, l); err != nil {
		return rec, err
	}
	o.Busy = !alone || len(o.Running) > 0
	o.Target = targetOf(l)
	o.Sandbox, o.Tenant, o.Agent, o.Session = l.name(), l.spec.Owner.Tenant, l.spec.Owner.Agent, l.spec.Owner.Session
	o.SpecHash, o.Image = l.want.hash, l.spec.Image
	if o.Archives, err = c.archives(ctx, l); err != nil {
		return rec, err
	}
	if o.Auto {
		defer func() {
			if err == nil {
				err = c.trim(ctx, store, name, l.want.res)
			}
		}()
	}
	rec, exchange, err := store.Create(ctx, name, o)
	if err != nil || exchange == nil {
		return rec, err
	}
	if err = c.exchange(ctx, l, exchange); err == nil && !l.provider.Features().Images {
		return rec, c.restore(ctx, l, rec) // its home was in memory, and began anew
	}
	if code := sandbox.CodeOf(err); code != sandbox.CodeUnsupported && code != sandbox.CodeBusy {
		return rec, err
	}
	// The sandbox stays as it is, and what changed is copied.
	o.Busy = true
	rec, _, err = store.Create(ctx, name, o)
	return rec, err
}

// exchange puts the file system of w at the workspace of l.
func (c *checkpoints) exchange(ctx context.Context, l *acquired, w *checkpoint.Switch) error {
	err := func() error {
		r, ok := l.Sandbox.(sandbox.Remounter)
		if !ok {
			return &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "exchange workspace", Resource: l.name(), Message: "the provider " + l.provider.Name() + " cannot exchange the workspace of a sandbox that runs"}
		}
		mount, err := w.Mount()
		if err != nil {
			return err
		}
		defer mount.Close()
		return r.Remount(ctx, targetOf(l), mount)
	}()
	switch {
	case err == nil:
		return w.Commit()
	case unchanged(err):
		return errors.Join(err, w.Abort())
	}
	return errors.Join(err, w.Forward()) // the next call looks at the sandbox again
}

// unchanged reports whether an error of an exchange says that the sandbox has what
// it had.
func unchanged(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	switch sandbox.CodeOf(err) {
	case sandbox.CodeUnsupported, sandbox.CodeBusy, sandbox.CodeValidation, sandbox.CodeTimeout, sandbox.CodeNotFound:
		return true
	}
	return false
}

// takeUp has the sandbox l show the file system that lies at its workspace, where a
// process was killed while it exchanged them, or another file system had to be put
// there. As long as there is nothing to do that is a look at one file.
func (c *checkpoints) takeUp(ctx context.Context, l *acquired) error {
	if detached(l.provider) { // the path of its workspace is none of this machine
		return nil
	}
	folder := workspaceOf(l.spec)
	if _, view := viewOf(l.spec); !view && (filepath.Base(folder) != l.want.hostIdentity || !l.want.scratch()) {
		return nil
	}
	store, err := c.store(filepath.Dir(folder), "")
	if err != nil {
		return err
	}
	name := filepath.Base(folder)
	if l.created && !l.claimed { // it was made of what lies there
		if err := store.Remounted(ctx, name); err != nil {
			return err
		}
	}
	h, ok, err := store.Head(name)
	if err != nil || !ok || !h.Stale && !h.Unfinished && h.Restore == "" {
		return err
	}
	alone, release, err := c.m.builder.alone(ctx, l)
	if err != nil {
		return err
	}
	if err = c.remount(ctx, l, store, name); err == nil {
		err = c.restored(ctx, l, store, name, alone)
	}
	return errors.Join(err, release())
}

// remount has the sandbox l take up what lies at its workspace, where it is stale.
// The caller has the turn of the sandbox.
func (c *checkpoints) remount(ctx context.Context, l *acquired, store *checkpoint.Store, name string) error {
	if stale, err := store.Stale(ctx, name); err != nil || !stale { // another process has done it
		return err
	}
	r, ok := l.Sandbox.(sandbox.Remounter)
	if !ok {
		return notTakenUp(l, nil)
	}
	mount, err := store.Mount(ctx, name)
	if err != nil {
		return err
	}
	defer mount.Close()
	if err := r.Remount(ctx, targetOf(l), mount); err != nil {
		if sandbox.CodeOf(err) == sandbox.CodeUnsupported {
			return notTakenUp(l, err)
		}
		return err
	}
	return store.Remounted(ctx, name)
}

// restored makes the folders beside the workspace what the checkpoint keeps that the
// workspace was rolled back to, or began with, unless that is done. The caller has
// the turn of the sandbox; alone says that no other call uses it.
func (c *checkpoints) restored(ctx context.Context, l *acquired, store *checkpoint.Store, name string, alone bool) error {
	h, ok, err := store.Head(name)
	if err != nil || !ok || h.Restore == "" {
		return err
	}
	if !alone {
		return &sandbox.Error{Code: sandbox.CodeBusy, Op: "restore folders", Resource: l.name(), Message: "a rollback was interrupted, and another call uses the sandbox", Hint: "wait for its end, or end it", Retryable: true}
	}
	rec, err := store.Get(ctx, h.Restore)
	switch {
	case sandbox.IsNotFound(err):
		c.m.log.WithField("sandbox", l.name()).Warnf("the checkpoint %s was removed before its folders beside the workspace were restored", h.Restore)
	case err != nil:
		return err
	default:
		if err := c.restore(ctx, l, rec); err != nil {
			return err
		}
	}
	return store.Restored(ctx, name)
}

// notTakenUp is the error of a sandbox that shows an older file system than its
// workspace has, and cannot show another one.
func notTakenUp(l *acquired, err error) error {
	return &sandbox.Error{
		Code: sandbox.CodeBusy, Op: "exchange workspace", Resource: l.name(), Err: err,
		Message: "another file system was put at the workspace, and the sandbox cannot take it up while it runs", Hint: "start it afresh with: sandbox recreate",
	}
}

// targetOf returns the folder inside that is the workspace.
func targetOf(l *acquired) string {
	for _, m := range l.spec.Mounts {
		if m.Role == sandbox.RoleWorkspace {
			return m.Target
		}
	}
	return sandbox.WorkspaceDir
}

// stateOf returns the states of the shells of l and what runs in it. Shells that
// run something are among what runs.
func stateOf(ctx context.Context, l *acquired) (shells []sandbox.ShellState, running []sandbox.RunningCommand, err error) {
	s, ok := l.Sandbox.(sandbox.Snapshotter)
	if !ok {
		return nil, nil, nil
	}
	snap, err := s.Snapshot(ctx)
	if sandbox.CodeOf(err) == sandbox.CodeUnsupported {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	running = snap.Running
	for _, sh := range snap.Shells {
		if sh.Line != "" || sh.Processes > 0 {
			running = append(running, sandbox.RunningCommand{Args: []string{sh.Program, sh.Line}, Dir: sh.Dir})
		}
	}
	return snap.Shells, running, nil
}

// folders returns the folders beside the workspace that checkpoints of l keep, by
// the name of their archive.
func folders(l *acquired) map[string]string {
	out := map[string]string{"home": sandbox.HomeDir}
	for i, f := range l.want.res.Checkpoint.Folders {
		out[fmt.Sprintf("folder-%d", i+1)] = f
	}
	return out
}

// archives returns the folders beside the workspace as archives. The guest packs
// them, wherever they lie.
func (c *checkpoints) archives(ctx context.Context, l *acquired) ([]checkpoint.Archive, error) {
	var out []checkpoint.Archive
	for name, dir := range folders(l) {
		out = append(out, checkpoint.Archive{Name: name, Target: dir, Open: func(ctx context.Context) (io.ReadCloser, error) {
			r, w := io.Pipe()
			go func() {
				left, err := client.PackTree(ctx, l.Sandbox, dir, w)
				if len(left) > 0 {
					c.m.log.WithField("sandbox", l.name()).Warnf("a checkpoint is without: %s", strings.Join(left, "; "))
				}
				w.CloseWithError(err)
			}()
			return r, nil
		}})
	}
	slices.SortFunc(out, func(a, b checkpoint.Archive) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// restore makes the folders beside the workspace what the checkpoint keeps.
func (c *checkpoints) restore(ctx context.Context, l *acquired, rec checkpoint.Record) error {
	_, store, err := c.find(ctx, rec.Tenant, rec.ID)
	if err != nil {
		return err
	}
	for _, t := range rec.Trees {
		if t.Archive == "" {
			continue
		}
		r, err := store.OpenArchive(rec.ID, t.Name)
		if err != nil {
			return err
		}
		err = client.UnpackTree(ctx, l.Sandbox, t.Target, r)
		if err = errors.Join(err, r.Close()); err != nil {
			return err
		}
	}
	return nil
}

// rollback makes the state of l that of the checkpoint.
func (c *checkpoints) rollback(ctx context.Context, l *acquired, rec checkpoint.Record) (done RolledBack, err error) {
	done.Checkpoint = rec
	store, name, err := c.at(l)
	if err != nil {
		return done, err
	}
	alone, release, err := c.m.builder.alone(ctx, l)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, release()) }()
	if !alone {
		return done, &sandbox.Error{Code: sandbox.CodeBusy, Op: "roll back", Resource: l.name(), Message: "another call uses the sandbox", Hint: "wait for its end, or end it", Retryable: true}
	}
	if _, done.Ended, err = stateOf(ctx, l); err != nil {
		return done, err
	}
	if len(done.Ended) == 0 {
		_, exchange, err := store.Rollback(ctx, name, rec.ID)
		if err != nil {
			return done, err
		}
		if exchange != nil {
			err = c.exchange(ctx, l, exchange)
		}
		if err == nil {
			c.rewind(l.name(), rec.Shells)
			return done, c.restored(ctx, l, store, name, true)
		}
		if code := sandbox.CodeOf(err); code != sandbox.CodeUnsupported && code != sandbox.CodeBusy {
			return done, err
		}
	}
	return done, c.rollbackStopped(ctx, l, &done, store, name)
}

// rollbackStopped does rollback with the sandbox removed. Its caller makes it
// again.
func (c *checkpoints) rollbackStopped(ctx context.Context, l *acquired, done *RolledBack, store *checkpoint.Store, name string) error {
	b := c.m.builder
	if err := b.removeNow(ctx, l.provider, l.spec.Kind, l.name()); err != nil {
		return err
	}
	done.Recreated = true
	c.rewind(l.name(), done.Checkpoint.Shells)
	_, exchange, err := store.Rollback(ctx, name, done.Checkpoint.ID)
	if err == nil && exchange != nil {
		err = exchange.Commit()
	}
	return err
}

// forksAtOnce bounds how many forks of one call are made at a time.
const forksAtOnce = 8

// fork makes the forks of o.
func (c *checkpoints) fork(ctx context.Context, req Request, o ForkOptions) ([]Forked, error) {
	settings, err := c.m.currentOf(req.Who, req.Flags)
	if err != nil {
		return nil, err
	}
	res, err := c.m.describer.resolved(settings, req.Who, req.Flags)
	if err != nil {
		return nil, err
	}
	rec, _, err := c.find(ctx, res.Tenant, o.From)
	if err != nil {
		return nil, err
	}
	out := make([]Forked, len(o.Sessions))
	var g errgroup.Group
	g.SetLimit(forksAtOnce)
	for i, session := range o.Sessions {
		out[i] = Forked{Session: session, Checkpoint: rec.ID}
		g.Go(func() error {
			r := req
			r.Who.Session, r.From, r.MustExist = session, rec.ID, false
			var p Prepared
			p, out[i].Err = c.m.Ready(ctx, r)
			out[i].Name = p.Name
			return nil
		})
	}
	return out, g.Wait()
}

// begin makes the workspace of that name, a view of folder or none where that is
// empty, that of the checkpoint that w begins with.
func (c *checkpoints) begin(ctx context.Context, w *want, name, folder string, owner workspace.Owner) error {
	for _, t := range w.from.Trees {
		if t.Name == checkpoint.WorkspaceTree && t.Base != folder {
			return errOtherFolder(w, folder)
		}
	}
	store, err := c.of(w.res)
	if err != nil {
		return err
	}
	return store.Fork(ctx, w.from.ID, name, owner)
}

// exchanges reports whether the workspace of a sandbox of w that runs can become
// that of the checkpoint that w begins with.
func (c *checkpoints) exchanges(ctx context.Context, w *want) bool {
	store, err := c.of(w.res)
	if err != nil || !w.scratch() || w.quota != 0 {
		return false
	}
	means, _, err := store.Means(ctx)
	return err == nil && means == checkpoint.Overlay
}

// beginSlot makes the slot of the pool that w has claimed begin with the checkpoint
// of w.
func (c *checkpoints) beginSlot(ctx context.Context, w *want, sb sandbox.Sandbox) error {
	r, ok := sb.(sandbox.Remounter)
	if !ok {
		return &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "begin with a checkpoint", Resource: w.spec.Name, Message: "the provider " + w.provider.Name() + " cannot exchange the workspace of a sandbox that runs"}
	}
	if err := c.begin(ctx, w, w.hostIdentity, "", workspace.Owner{UID: w.spec.UID, GID: w.spec.GID}); err != nil {
		return err
	}
	store, err := c.of(w.res)
	if err != nil {
		return err
	}
	mount, err := store.Mount(ctx, w.hostIdentity)
	if err != nil {
		return err
	}
	defer mount.Close()
	l := &acquired{Sandbox: sb, provider: w.provider, spec: w.spec, want: w}
	if err := r.Remount(ctx, targetOf(l), mount); err != nil {
		return err
	}
	if err := store.Remounted(ctx, w.hostIdentity); err != nil {
		return err
	}
	return c.begun(ctx, l)
}

// errOtherFolder says that the checkpoint of w is of a view of another folder.
func errOtherFolder(w *want, folder string) error {
	e := &sandbox.Error{
		Code: sandbox.CodeValidation, Op: "begin with a checkpoint", Field: "workspace", Resource: w.from.ID, Message: "the checkpoint is of a workspace of its own, and the session has the folder " + folder,
		Hint: "leave the folder out, or name another checkpoint",
	}
	for _, t := range w.from.Trees {
		if t.Name == checkpoint.WorkspaceTree && t.Base != "" {
			e.Message = "the checkpoint is of a private view of " + t.Base + ", which the session has not"
		}
	}
	return e
}

// rewind makes the shells of a sandbox that this process has open, and those that
// it opens with the same id, begin anew in these states.
func (c *checkpoints) rewind(name string, states []sandbox.ShellState) {
	c.mu.Lock()
	c.shells[name] = slices.Clone(states)
	var shells []*Shell
	for s := range c.opened {
		shells = append(shells, s)
	}
	c.mu.Unlock()
	for _, s := range shells {
		s.rewind(name)
	}
}

// stateOf returns the state in which the shell of that id begins in the sandbox,
// which it does once; nil is none.
func (c *checkpoints) stateOf(name, id string) *sandbox.ShellState {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.shells[name], func(s sandbox.ShellState) bool { return s.ID == id && s.Content != nil })
	if i < 0 {
		return nil
	}
	state := c.shells[name][i]
	c.shells[name] = slices.Delete(c.shells[name], i, i+1)
	return &state
}

// track keeps the shell until it is closed.
func (c *checkpoints) track(s *Shell, open bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if open {
		c.opened[s] = true
	} else {
		delete(c.opened, s)
	}
}

// begun gives the new sandbox l what its checkpoint keeps beside the workspace.
func (c *checkpoints) begun(ctx context.Context, l *acquired) error {
	if err := onThisMachine("begin with a checkpoint", l.want.provider, l.name()); err != nil {
		return err
	}
	c.mu.Lock()
	c.shells[l.name()] = slices.Clone(l.want.from.Shells)
	c.mu.Unlock()
	if err := c.restore(ctx, l, *l.want.from); err != nil {
		return err
	}
	store, err := c.of(l.want.res)
	if err != nil {
		return err
	}
	return store.Restored(ctx, filepath.Base(workspaceOf(l.spec)))
}

// begunBefore is begun for a slot of the pool that holds what the checkpoint of w
// keeps already.
func (c *checkpoints) begunBefore(_ context.Context, w *want, _ sandbox.Sandbox) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shells[w.spec.Name] = slices.Clone(w.from.Shells)
	return nil
}

// mounted mounts the file system of the workspace of w, where it has one that a
// restart of the machine has unmounted.
func (c *checkpoints) mounted(ctx context.Context, w *want) error {
	store, err := c.of(w.res)
	if err != nil {
		return err
	}
	return store.Ensure(ctx, w.hostIdentity)
}

// forget lets go of what a workspace that is being removed has of checkpoints.
func (c *checkpoints) forget(ctx context.Context, path string) error {
	store, err := c.store(filepath.Dir(path), "")
	if err != nil {
		return err
	}
	return store.Drop(ctx, filepath.Base(path))
}

// auto makes the checkpoint before a call that changes the sandbox l, where the
// settings want one, and removes older ones.
func (c *checkpoints) auto(ctx context.Context, l *acquired) error {
	res := l.want.res
	if res.Checkpoint.Auto != config.AutoCommand {
		return nil
	}
	_, err := c.create(ctx, l, checkpoint.CreateOptions{Auto: true})
	return err
}

// trim removes the oldest of the checkpoints of a workspace that no caller asked
// for, beyond those that the settings keep.
func (c *checkpoints) trim(ctx context.Context, store *checkpoint.Store, name string, res config.Resolved) error {
	used, err := c.m.pool.fills()
	if err != nil {
		return err
	}
	_, err = store.Prune(ctx, checkpoint.PruneOptions{
		Match: func(r checkpoint.Record) bool {
			return r.Auto && r.Workspace == name && !used[r.ID] && r.ID != res.Pool.From
		},
		KeepLast: int(res.Checkpoint.Keep),
	})
	return err
}

// A CheckpointPlan says how checkpoints of a sandbox are made.
type CheckpointPlan struct {
	Means   checkpoint.Means `json:"means,omitempty"`  // how they share files with the workspace; empty where there are none
	Reason  string           `json:"reason,omitempty"` // why not by better means, or why there are none
	Auto    string           `json:"auto"`
	Keep    int64            `json:"keep"`
	Folders []string         `json:"folders,omitempty"` // inside, that are kept
}

// explainCheckpoints says how checkpoints of the sandbox of w are made.
func (x *explainer) explainCheckpoints(ctx context.Context, w *want) CheckpointPlan {
	p := CheckpointPlan{Auto: w.res.Checkpoint.Auto, Keep: w.res.Checkpoint.Keep, Folders: []string{}}
	store, name, err := x.m.checkpoints.at(&acquired{spec: w.spec, want: w})
	if err == nil {
		p.Means, p.Reason, err = store.MeansOf(ctx, name)
	}
	if err != nil {
		p.Means, p.Reason = "", err.Error()
		return p
	}
	p.Folders = append(p.Folders, sandbox.WorkspaceDir, sandbox.HomeDir)
	p.Folders = append(p.Folders, w.res.Checkpoint.Folders...)
	return p
}
