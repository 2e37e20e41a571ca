package manager

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/confighash"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/internal/keylock"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/registry"
	"github.com/bulkhead-dev/sandbox/workspace"
)

// A builder makes sandboxes, opens those that exist, and removes them. It takes
// turns with the builders of other processes by the leases.
type builder struct{ m *Manager }

// goingPatience bounds the wait for a sandbox that another process is removing.
const goingPatience = 10 * time.Second

// ensure makes the wanted sandbox ready and returns it under a shared lease.
// Callers in all processes take turns for one name, so that two of them
// make one sandbox.
func (b *builder) ensure(ctx context.Context, w *want, mustExist bool) (*acquired, error) {
	var l *acquired
	if w.from == nil {
		l = b.warm(ctx, w)
	}
	if l == nil {
		var err error
		if l, err = b.ensureInTurn(ctx, w, mustExist); err != nil {
			return nil, err
		}
	}
	if l.want == nil {
		l.want = w
	}
	err := b.m.checkpoints.takeUp(ctx, l)
	if err == nil {
		err = b.syncSkills(ctx, l)
	}
	if err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (b *builder) ensureInTurn(ctx context.Context, w *want, mustExist bool) (*acquired, error) {
	if w.sketch && !mustExist {
		w.began = time.Now()
		if l, err := b.m.pool.claimNew(ctx, w); l != nil || err != nil {
			return l, err
		}
	}
	turn, err := b.m.locksOf(w.provider.Name()).Ensure(ctx, w.spec.Name)
	if err != nil {
		return nil, err
	}
	defer turn.Release()
	if err := b.m.creations.still(w); err != nil {
		return nil, err
	}
	began, fresh := time.Now(), w.sketch
	if w.sketch {
		w.began = began
		l, described, err := b.m.pool.claim(ctx, w, mustExist)
		if err != nil || l != nil {
			return l, err
		}
		w = described
	}
	l, err := b.ensureWaiting(ctx, w, mustExist)
	if w.miss != nil && (err == nil && l.created || err != nil && fresh && !mustExist) {
		b.m.pool.missed(w, l, began, err)
	}
	return l, err
}

// ensureWaiting does ensureOnce until nothing takes the sandbox away meanwhile.
func (b *builder) ensureWaiting(ctx context.Context, w *want, mustExist bool) (*acquired, error) {
	patience, done := context.WithTimeout(ctx, goingPatience)
	defer done()
	for {
		l, err := b.ensureOnce(ctx, w, mustExist)
		if err == nil {
			l.want = w
		}
		if err == nil || !vanishing(err) || mustExist && sandbox.IsNotFound(err) {
			return l, err
		}
		// It went away between two steps, or is on its way: another process
		// removes it meanwhile. Look again.
		select {
		case <-patience.Done():
			return nil, err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// vanishing reports whether err says that the sandbox has gone meanwhile or
// is just being removed.
func vanishing(err error) bool {
	var e *sandbox.Error
	return errors.As(err, &e) && (e.Code == sandbox.CodeNotFound || e.Code == sandbox.CodeBusy && e.Retryable)
}

// ensureOnce looks, decides and acts, under a shared lease from the first
// look on: neither prune nor remove can take away what is being made.
func (b *builder) ensureOnce(ctx context.Context, w *want, mustExist bool) (_ *acquired, err error) {
	name := w.spec.Name
	leased, err := b.m.locksOf(w.provider.Name()).Held(name)
	if err != nil {
		return nil, err
	}
	held, err := b.m.locksOf(w.provider.Name()).Shared(ctx, name)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			held.Release()
		}
	}()
	have, rec, err := b.look(ctx, w)
	if err != nil {
		return nil, err
	}
	if rec != nil && rec.Held {
		return nil, errHeld(name)
	}
	if w.from != nil && have != nil {
		return nil, errHasSandbox(name)
	}
	w = w.late(hashOf(have), rec)
	d, err := decideAction(b.input(w, have, rec, leased))
	if err != nil {
		return nil, err
	}
	b.m.log.WithField("sandbox", name).Debugf("%s: %s", d.Action, d.Reason)
	switch d.Action {
	case lifecycleUse, lifecycleStart, lifecycleUnpause:
		l, err := b.wake(ctx, w, w.spec, rec, held, d.Action)
		if err != nil {
			return nil, err
		}
		return b.fitting(ctx, w, l, leased)
	case keepAndHint:
		b.m.log.Warnf("%s%s; to apply the new settings: %s", d.Reason, b.changes(w, rec), d.Hint)
		spec := kept(w, rec)
		if !sameView(w.spec, spec) { // what is to stay apart would be written elsewhere
			refusal := d.Refusal(name)
			refusal.Message += b.changes(w, rec)
			return nil, refusal
		}
		spec.Grants = w.spec.Grants
		l, err := b.wake(ctx, w, spec, rec, held, d.Wake)
		if errors.Is(err, client.ErrVersions) { // it is in use, and so not made anew here
			refusal := d.Refusal(name)
			refusal.Message, refusal.Err = "its guest speaks no version of the protocol that this program speaks, and it may be in use", err
			return nil, refusal
		}
		if err != nil {
			return nil, err
		}
		return b.fitting(ctx, w, l, leased)
	case lifecycleRefuse:
		refusal := d.Refusal(name)
		refusal.Message += b.changes(w, rec)
		return nil, refusal
	}
	if mustExist && d.Action == lifecycleCreate {
		return nil, noSandbox(w.spec.Kind, name)
	}
	if d.Action == lifecycleRecreate {
		b.m.log.WithField("sandbox", name).Infof("recreate it: %s%s", d.Reason, b.changes(w, rec))
		if held, err = b.replace(ctx, w, held); err != nil {
			return nil, err
		}
	}
	return b.createHeld(ctx, w, held)
}

func errHasSandbox(name string) error {
	return &sandbox.Error{
		Code: sandbox.CodeBusy, Op: "begin with a checkpoint", Resource: name, Message: "the session has a sandbox already",
		Hint: "name another session, or make the sandbox the checkpoint with: sandbox rollback",
	}
}

func hashOf(have *sandbox.Info) string {
	if have == nil {
		return ""
	}
	return have.ConfigHash
}

func noSandbox(kind sandbox.Kind, name string) error {
	if kind == sandbox.KindBrowser {
		return &sandbox.Error{Code: sandbox.CodeNotFound, Op: "open browser", Resource: name, Message: "no browser runs for this session", Hint: "start one with: sandbox browser start"}
	}
	return &sandbox.Error{Code: sandbox.CodeNotFound, Op: "exec", Resource: name, Message: "there is no sandbox for this session", Hint: "make one with: sandbox run"}
}

// replace removes the sandbox under the exclusive lease and returns a new
// shared one. It fails if another caller took the lease meanwhile.
func (b *builder) replace(ctx context.Context, w *want, held *keylock.Lock) (*keylock.Lock, error) {
	held.Release()
	if rec, err := b.m.records.Of(w.provider.Name()).Look(w.spec.Kind, w.spec.Name); err == nil {
		w.ends = ends{rec.ExpiresAt, rec.OnTimeout, rec.Timeout}
	}
	if err := b.removeLocked(ctx, w.provider, w.spec.Kind, w.spec.Name); err != nil {
		return held, err
	}
	return b.m.locksOf(w.provider.Name()).Shared(ctx, w.spec.Name)
}

// kept is what a sandbox that is kept was made from, as far as that is known.
func kept(w *want, rec *registry.Record) sandbox.Spec {
	if rec != nil && rec.Spec != nil {
		return *rec.Spec
	}
	return w.spec
}

// look asks what exists under the wanted name and what is recorded of it.
func (b *builder) look(ctx context.Context, w *want) (*sandbox.Info, *registry.Record, error) {
	info, err := w.provider.Inspect(ctx, w.spec.Name)
	if err != nil && !sandbox.IsNotFound(err) {
		return nil, nil, err
	}
	var have *sandbox.Info
	if err == nil {
		have = &info
	}
	rec, err := b.m.records.Of(w.provider.Name()).Get(w.spec.Kind, w.spec.Name)
	switch {
	case err == nil:
		return have, &rec, nil
	case errors.Is(err, registry.ErrNewer):
		return nil, nil, err
	case !sandbox.IsNotFound(err):
		b.m.log.WithError(err).Warn("a record cannot be read and is rebuilt from labels")
	}
	return have, nil, nil
}

func (b *builder) input(w *want, have *sandbox.Info, rec *registry.Record, leased bool) lifecycleInput {
	in := lifecycleInput{
		Flags: b.m.commandFlags,
		Owner: w.spec.Owner, Kind: w.spec.Kind, WantHash: w.hash, Drift: w.res.DriftPolicy,
		Known: true, Have: have, Leased: leased, Now: b.m.now(),
	}
	if w.settingsHash != nil && have != nil && have.ConfigHash != w.hash {
		in.SettingsHash = w.settingsHash()
	}
	if rec != nil {
		in.LastUsed = rec.LastUsedAt
	}
	return in
}

// wake opens a sandbox that exists. One that does not run has its host
// folders made ready first: after a reboot, say, they may not be mounted. A
// private view or an ID-mapped mount is made ready too where the provider begins the
// sandbox anew for each process.
func (b *builder) wake(ctx context.Context, w *want, spec sandbox.Spec, rec *registry.Record, held *keylock.Lock, a lifecycleAction) (*acquired, error) {
	if _, view := viewOf(spec); a != lifecycleUse || (view || isMapped(spec)) && !w.provider.Features().Persistent {
		if err := b.prepareAll(ctx, w, spec); err != nil {
			return nil, err
		}
	}
	return b.open(ctx, w, spec, rec, held)
}

// open opens the existing sandbox as spec describes it. Its record is touched
// meanwhile, also where the provider then fails; that of a frozen one waits,
// since it must not say that a sandbox runs which could not be opened.
func (b *builder) open(ctx context.Context, w *want, spec sandbox.Spec, rec *registry.Record, held *keylock.Lock) (*acquired, error) {
	touch := func() error { return b.m.records.Of(w.provider.Name()).Touch(spec.Kind, spec.Name, b.m.now()) }
	if rec != nil && !rec.Frozen {
		now := touch
		touched := make(chan error, 1)
		go func() { touched <- now() }()
		touch = sync.OnceValue(func() error { return <-touched })
		defer touch() // the caller gives the sandbox up afterwards, and may remove it
	}
	opening, span := sandbox.StartSpan(ctx, spanOpen)
	sb, err := w.provider.Open(opening, spec)
	span.EndWith(err)
	if err != nil {
		return nil, err
	}
	if rec == nil {
		err = b.m.records.Put(b.newRecord(spec, sb.Info()))
	} else {
		err = touch()
	}
	if err != nil {
		sb.Close()
		return nil, err
	}
	hash := sb.Info().ConfigHash
	if hash == w.hash {
		hash = w.wanted // which differs where rules came late
	}
	h := b.m.handles.put(&handle{Sandbox: sb, name: spec.Name, provider: w.provider.Name(), hash: hash, limits: spec.Limits, granted: w.granted, private: w.private, terms: w.terms()})
	return &acquired{Sandbox: sb, provider: w.provider, spec: spec, scratch: w.scratch(), egress: w.egress, egressSessions: &h.egressSessions, handle: h, held: held, letGo: func() { b.m.handles.release(h) }}, nil
}

// create makes the sandbox and its record. The record is written first, so
// that what a crash leaves behind is known by name.
func (b *builder) create(ctx context.Context, w *want, held *keylock.Lock) (_ *acquired, err error) {
	if err := b.prepareAll(ctx, w, w.spec); err != nil {
		return nil, err
	}
	if w.from != nil {
		defer func() {
			if err != nil {
				err = errors.Join(err, b.giveUp(context.WithoutCancel(ctx), w))
			}
		}()
	}
	rec := b.newRecord(w.spec, sandbox.Info{ImageID: w.spec.ImageID, ConfigHash: w.hash, CreatedAt: b.m.now()})
	rec.ExpiresAt, rec.OnTimeout, rec.Timeout = w.ends.at, w.ends.how, w.ends.timeout
	if err := b.m.records.Put(rec); err != nil {
		return nil, err
	}
	// The one of a sandbox that was removed before went with it.
	if path := hostsFile(w.spec); path != "" {
		if err := statedir.MakeHosts(path, w.spec.ExtraHosts); err != nil {
			return nil, errors.Join(err, b.forget(ctx, w, err))
		}
	}
	making, span := sandbox.StartSpan(ctx, spanCreate)
	_, err = w.provider.Create(making, w.spec)
	span.EndWith(err)
	if err != nil {
		return nil, errors.Join(err, b.forget(ctx, w, err))
	}
	l, err := b.open(ctx, w, w.spec, &rec, held)
	if err != nil {
		return nil, err
	}
	l.created = true
	l.want = w
	if w.from != nil {
		if err := b.m.checkpoints.begun(ctx, l); err != nil {
			l.close()
			return nil, err
		}
	}
	return l, nil
}

// giveUp removes what is there of a sandbox that could not be made to begin with
// its checkpoint, so that the next call does not find half of it.
func (b *builder) giveUp(ctx context.Context, w *want) error {
	if err := b.removeNow(ctx, w.provider, w.spec.Kind, w.spec.Name); err != nil {
		return err
	}
	_, err := b.m.pruner.removeScratch(ctx, w.spec.Owner.Agent, w.spec.Name, workspaceOf(w.spec))
	return err
}

// forget deletes the record of a sandbox whose create failed, and its home,
// unless one of that name exists all the same.
func (b *builder) forget(ctx context.Context, w *want, cause error) error {
	if sandbox.CodeOf(cause) == sandbox.CodeBusy {
		return nil
	}
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer done()
	if _, err := w.provider.Inspect(ctx, w.spec.Name); !sandbox.IsNotFound(err) {
		return nil
	}
	return errors.Join(b.m.pruner.removeHome(ctx, w.hostIdentity), workspace.Unmap(filepath.Join(b.m.state.Mapped(), w.hostIdentity)), b.m.records.Of(w.provider.Name()).Delete(w.spec.Kind, w.spec.Name))
}

func (b *builder) newRecord(s sandbox.Spec, info sandbox.Info) registry.Record {
	now := b.m.now()
	created := info.CreatedAt
	if created.IsZero() {
		created = now
	}
	return registry.Record{
		Name: s.Name, Kind: s.Kind, Provider: s.Provider, Instance: s.Owner.Instance,
		Tenant: s.Owner.Tenant, Agent: s.Owner.Agent, Session: s.Owner.Session, Scope: s.Owner.Scope, ScopeKey: s.Owner.ScopeKey,
		Image: s.Image, ImageID: info.ImageID, ConfigHash: info.ConfigHash, Workspace: workspaceOf(s),
		CreatedAt: created, LastUsedAt: now, Spec: &s,
	}
}

// shownChanges is how many differences a line of text names.
const shownChanges = 2

// changes names the differences between what the sandbox has and what is
// wanted: the first ones, settings before mounts that follow from them, and how
// many more there are, which explain lists. It says if any of them tightens
// isolation.
func (b *builder) changes(w *want, rec *registry.Record) string {
	var parts []string
	all := slices.Clone(drift(rec, w))
	slices.SortStableFunc(all, func(a, b confighash.Change) int {
		return strings.Count(a.Field, " ") - strings.Count(b.Field, " ")
	})
	for _, c := range all[:min(len(all), shownChanges)] {
		parts = append(parts, c.Field+" from "+orNone(c.From)+" to "+orNone(c.To))
	}
	if more := len(all) - shownChanges; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	if len(parts) == 0 {
		return ""
	}
	text := ": " + strings.Join(parts, ", ")
	if slices.ContainsFunc(all, func(c confighash.Change) bool { return c.Tightens }) {
		text += " (tightens isolation)"
	}
	return text
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
