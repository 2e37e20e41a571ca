package manager

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/confighash"
	"github.com/bulkhead-dev/sandbox/internal/keylock"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/registry"
	"github.com/bulkhead-dev/sandbox/registry/pool"
	"github.com/bulkhead-dev/sandbox/workspace"
)

// A poolKeeper keeps slots of the pool started, and claims them for requests.
type poolKeeper struct {
	*slots
	m *Manager
}

// mayClaim reports whether a sandbox of res may be a slot of the pool: settings
// keep one, the sandbox was never made before, so that no workspace waits for
// it, and there is something to claim. Where settings keep a pool and it may not,
// miss says why.
func (k *poolKeeper) mayClaim(res config.Resolved, p sandbox.Provider) (ok bool, miss *pool.Miss) {
	if res.Pool.Most() <= 0 || !res.Poolable() || res.Kind != "" && res.Kind != sandbox.KindSandbox {
		return false, nil
	}
	if _, ok := asIdentified(p); !ok {
		return false, missed(pool.NoSlots)
	}
	if s, ok := p.(provider.TenantSeparator); ok && s.Separates(res.Tenant) {
		return false, missed(pool.NoSlots)
	}
	name, err := config.Name(res.Docker.ContainerPrefix, k.m.describer.owner(res))
	if err != nil {
		return false, missed(pool.Returning)
	}
	if why := k.known(res, p.Name(), name); why != "" {
		return false, missed(why)
	}
	return true, nil
}

// missed returns the miss of a reason that says all.
func missed(r pool.Reason) *pool.Miss {
	miss := pool.NewMiss(r, "")
	return &miss
}

// known says why the sandbox name of a provider is no new one, and is empty where
// nothing is known of it: no claim, no record, no workspace.
func (k *poolKeeper) known(res config.Resolved, provider, name string) pool.Reason {
	if _, elsewhere := k.m.kept[provider]; elsewhere {
		claimed, recorded, err := k.m.records.Of(provider).Known(sandbox.KindSandbox, name)
		switch {
		case err != nil:
			return pool.DamagedClaim
		case claimed, recorded:
			return pool.Returning
		}
		return "" // it has no workspace on this machine
	}
	if _, claimed, err := k.m.records.Of(provider).ClaimOf(name); err != nil {
		return pool.DamagedClaim
	} else if claimed {
		return pool.Returning
	}
	if _, err := k.m.records.Look(sandbox.KindSandbox, name); !sandbox.IsNotFound(err) {
		return pool.Returning
	}
	store, err := k.m.describer.workspaces(res)
	if err != nil {
		return pool.Returning
	}
	path, err := store.Path(name)
	if err != nil {
		return pool.Returning
	}
	if _, err = os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return pool.Returning
	}
	return ""
}

// claim makes a slot of the pool the sandbox that w sketches. Without a sandbox
// and error there is none to be had: the want that it returns is w, described
// whole, and says why. The caller holds the ensure lock of the name.
func (k *poolKeeper) claim(ctx context.Context, w *want, mustExist bool) (*acquired, *want, error) {
	l, miss, err := k.attemptClaim(ctx, w, mustExist)
	if l != nil || err != nil {
		return l, nil, err
	}
	if miss != nil && miss.Reason.Wanted() {
		k.wake(k.m.now()) // the keeper may be us
	}
	whole, err := k.m.describer.describe(ctx, w.res, w.provider, effects)
	if err != nil {
		return nil, nil, err
	}
	whole.settings, whole.why, whole.gate, whole.settingsHash = w.settings, w.why, w.gate, w.settingsHash
	whole.miss = miss
	whole.shape = w.shape
	whole.from = w.from
	if whole.private = w.private; w.private {
		whole.permit(w.granted)
	}
	return nil, whole, nil
}

// claimNew is attemptClaim for a name of which nothing is kept, where the lock of the
// name need not be written before: the claim is what makes it. It returns nil where the
// caller has to take the lock.
func (k *poolKeeper) claimNew(ctx context.Context, w *want) (*acquired, error) {
	locks, ok := k.m.locksOf(w.provider.Name()).(keylock.Assumer)
	if !ok {
		return nil, nil
	}
	turn, err := locks.EnsureNew(ctx, w.spec.Name)
	if turn == nil || err != nil {
		return nil, err
	}
	defer turn.Release()
	if err := k.m.creations.still(w); err != nil {
		return nil, err
	}
	l, _, err := k.attemptClaim(ctx, w, false)
	if errors.Is(err, keylock.ErrAssumed) {
		return nil, nil
	}
	return l, err
}

// attemptClaim is claim without the description of w.
func (k *poolKeeper) attemptClaim(ctx context.Context, w *want, mustExist bool) (*acquired, *pool.Miss, error) {
	var miss *pool.Miss
	switch why := k.known(w.res, w.provider.Name(), w.spec.Name); {
	case mustExist: // nothing is made
	case why != "": // it was made meanwhile
		miss = missed(why)
	default:
		if err := k.beginWith(ctx, w); err != nil {
			return nil, nil, err
		}
		if w.private {
			miss = missed(pool.Permitted)
			break
		}
		held, err := k.m.locksOf(w.provider.Name()).Shared(ctx, w.spec.Name)
		if err != nil {
			return nil, nil, err
		}
		var l *acquired
		if l, miss, err = k.claimOne(ctx, w, held); l != nil {
			return l, nil, nil
		}
		held.Release()
		if err != nil {
			return nil, nil, err
		}
	}
	return nil, miss, nil
}

// claimOne tries slots until one is claimed or none is left, and says why then.
func (k *poolKeeper) claimOne(ctx context.Context, w *want, held *keylock.Lock) (*acquired, *pool.Miss, error) {
	shapes, err := k.shapesFor(ctx, w)
	if err != nil || len(shapes) == 0 { // the workspace of a slot is its own
		return nil, nil, err
	}
	w.shape = shapes[0]
	var miss *pool.Miss
	for _, shape := range shapes {
		l, m, err := k.claimShape(ctx, w, shape, held)
		if l != nil || err != nil {
			return l, nil, err
		}
		if miss == nil {
			miss = m
		}
	}
	return nil, miss, nil
}

// claimShape is claimOne for slots of one shape.
func (k *poolKeeper) claimShape(ctx context.Context, w *want, shape string, held *keylock.Lock) (*acquired, *pool.Miss, error) {
	next := func() (*slot, error) { return k.take(w.provider.Name(), shape), nil }
	if !k.keepsPool() {
		next = k.recordedSlots(ctx, w, shape)
	}
	var lost pool.Reason // why the last one that was tried is not ours
	for {
		n, err := next()
		if n == nil || err != nil {
			return nil, k.whyMiss(w, shape, lost), err
		}
		if miss, differs := pool.Differ(*n.rec.Spec, w.asOn(n.rec.Name, *n.rec.Spec)); differs {
			k.giveBack(n)
			return nil, &miss, nil
		}
		l, err := k.claimSlot(ctx, w, n, held)
		if l != nil {
			k.wake(k.m.now()) // again, for when the slot still looked as if it were being claimed
		}
		if err == nil || !errors.Is(err, errSlotLost) {
			return l, nil, err
		}
		lost = k.lostBy(n.rec, err)
		k.m.log.WithField("slot", n.rec.Name).Debugf("not claimed: %v", err)
	}
}

// lostBy says why a slot could not be claimed, by the error of the attempt.
func (k *poolKeeper) lostBy(slot registry.Record, err error) pool.Reason {
	_, claimed, claimErr := k.m.records.Of(slot.Provider).ClaimOn(slot.Name)
	switch {
	case claimErr != nil:
		return pool.DamagedClaim
	case claimed, sandbox.CodeOf(err) == sandbox.CodeBusy:
		return pool.Taken
	}
	return pool.Unresponsive
}

// giveBack lets others have a slot that was not claimed. Who keeps the pool has
// it open; others open one when they want it.
func (k *poolKeeper) giveBack(n *slot) {
	if k.keepsPool() {
		k.put(n)
	} else {
		n.Close()
	}
}

// asOn is what w asks for with the name, folders and user that the slot has for
// itself.
func (w *want) asOn(name string, on sandbox.Spec) sandbox.Spec {
	s := w.spec
	s.Mounts = slices.Clone(s.Mounts)
	for i := range s.Mounts {
		m := &s.Mounts[i]
		at := slices.IndexFunc(on.Mounts, func(o sandbox.Mount) bool { return o.Target == m.Target && o.Role == m.Role })
		switch {
		case at < 0:
		case m.Role == sandbox.RoleSocket, m.Role == sandbox.RoleIdentity, m.Role == sandbox.RoleHome, m.Role == sandbox.RoleWorkspace && w.scratch():
			m.Source = on.Mounts[at].Source
		}
	}
	if w.res.Docker.User == "" && w.scratch() {
		s.UID, s.GID = on.UID, on.GID
	}
	s.Name = name
	return s
}

// errSlotLost says that another session has claimed the slot, or that the slot
// does not answer.
var errSlotLost = errors.New("the slot is lost")

// slotPatience is how long a slot may take to answer. One that is gone says so
// at once. Others may be slow when many are claimed together, and a machine on
// which a guest stands still for seconds would take longer to make a sandbox.
const slotPatience = 15 * time.Second

// claimSlot makes the slot n the sandbox of w. The claim is made first; what of
// it has to outlast a loss of power is seen to while the sandbox is used
// already. Where nothing is claimed, and that is not for the slot's sake, it is
// given back as it was: a caller without quota takes none away from others.
func (k *poolKeeper) claimSlot(ctx context.Context, w *want, n *slot, held *keylock.Lock) (_ *acquired, err error) {
	// The lock of this machine is enough: a claim is refused where another program has
	// the slot's.
	turn, err := k.m.leases.TryEnsure(n.rec.Name)
	if err != nil {
		n.Close()
		return nil, errors.Join(errSlotLost, err)
	}
	defer turn.Release()
	claimed := false
	defer func() { // in its turn, so that no other call opens it a second time meanwhile
		switch {
		case err == nil:
		case claimed, errors.Is(err, errSlotLost):
			n.Close()
		default:
			k.giveBack(n)
		}
	}()
	if err := k.slotAnswers(ctx, n); err != nil {
		return nil, err
	}
	b := *w
	b.sketch, b.hostIdentity = false, n.rec.Name
	b.spec = w.asOn(w.spec.Name, *n.rec.Spec)
	if b.hash, err = confighash.Sum(b.spec); err != nil {
		return nil, err
	}
	b.wanted = b.hash
	c := registry.Claim{
		Slot: n.rec.Name, Name: b.spec.Name, Owner: b.spec.Owner, SlotHash: n.rec.ConfigHash, Hash: b.hash, ClaimedAt: k.m.now().UTC(),
		ForAny: n.rec.Tenant == "",
	}
	if b.scratch() {
		c.Workspace = workspaceOf(b.spec)
	}
	settle := func(bool) {}
	if k.m.accounting != nil {
		if settle, err = k.m.accounting.Hold(ctx, b.footprint()); err != nil {
			return nil, err
		}
	}
	k.step("claim")
	records := k.m.records.Of(w.provider.Name())
	var keep func() error // what is left of recording the claim; nil is nothing
	if _, elsewhere := k.m.kept[w.provider.Name()]; elsewhere {
		last := w.from == nil && w.agentDir == "" // nothing more of the sandbox is written
		err = records.ClaimRecorded(c, k.m.builder.newRecord(b.spec, become(n.Info(), c)), last)
	} else {
		keep, err = records.Claim(c)
	}
	settle(err == nil)
	if sandbox.CodeOf(err) == sandbox.CodeBusy && !errors.Is(err, keylock.ErrAssumed) {
		return nil, errors.Join(errSlotLost, err)
	}
	if err != nil {
		return nil, err
	}
	claimed = true
	k.taken(k.m.now())
	k.step("claimed")
	return k.bind(ctx, &b, n, c, keep, held)
}

// slotAnswers is an error unless the slot answers: errSlotLost, or the end of
// ctx, which tells nothing of the slot.
func (k *poolKeeper) slotAnswers(ctx context.Context, n *slot) error {
	p, ok := n.Sandbox.(pinger)
	if !ok {
		return errSlotLost
	}
	ping, done := context.WithTimeout(ctx, slotPatience)
	defer done()
	err := p.Ping(ping)
	if err != nil && ctx.Err() == nil {
		err = errors.Join(errSlotLost, err)
	}
	return err
}

// bind gives the claimed slot n to the session of w.
func (k *poolKeeper) bind(ctx context.Context, w *want, n *slot, c registry.Claim, keep func() error, held *keylock.Lock) (*acquired, error) {
	if w.agentDir != "" && w.scratch() && w.from == nil {
		store, err := k.m.describer.workspaces(w.res)
		if err == nil {
			err = k.m.builder.seed(ctx, w, store, workspace.Owner{UID: w.spec.UID, GID: w.spec.GID})
		}
		if err != nil {
			return nil, err
		}
	}
	took := time.Since(w.began)
	k.poolObserver().Attempted(nil, took)
	attempt := k.attempt(w, took)
	info := become(n.Info(), c)
	p, ok := asIdentified(w.provider)
	if !ok {
		return nil, sandbox.Errorf(sandbox.CodeInternal, "claim slot", "the provider %s does not bind", w.provider.Name())
	}
	sb, err := p.Bind(n.Sandbox, w.spec, info)
	if err != nil {
		return nil, err
	}
	if w.from != nil {
		begin := k.m.checkpoints.beginSlot
		if filledFrom(n.rec.Shape) == w.from.ID { // it holds the files already
			begin = k.m.checkpoints.begunBefore
		}
		if err := begin(ctx, w, sb); err != nil {
			return nil, errors.Join(err, sb.Close(), k.m.builder.giveUp(context.WithoutCancel(ctx), w))
		}
	}
	h := k.m.handles.put(&handle{Sandbox: sb, name: w.spec.Name, provider: w.provider.Name(), hash: w.hash, limits: w.spec.Limits, granted: w.granted, terms: w.terms()})
	k.m.log.WithField("sandbox", w.spec.Name).Infof("claimed %s", c.Slot)
	return &acquired{
		Sandbox: sb, provider: w.provider, spec: w.spec, want: w, created: true, claimed: true, scratch: w.scratch(), egress: w.egress,
		egressSessions: &h.egressSessions, handle: h, held: held, letGo: func() { k.m.handles.release(h) },
		settle: k.settle(func() error {
			k.step("settle")
			if keep == nil {
				k.logAttempt(attempt)
				return nil
			}
			if err := keep(); err != nil {
				return err
			}
			k.step("kept")
			if err := k.m.records.Put(k.m.builder.newRecord(w.spec, info)); err != nil {
				return err
			}
			k.step("recorded")
			k.logAttempt(attempt)
			return k.m.records.Of(w.provider.Name()).Delete(sandbox.KindPool, c.Slot)
		}),
	}, nil
}

// settle does do beside the caller, and returns what waits for its end. It
// begins when that is called, or after a moment, and few do so at a time: what
// is forced to the disk holds up those who claim meanwhile.
func (k *poolKeeper) settle(do func() error) (wait func() error) {
	done, now := make(chan error, 1), make(chan struct{})
	go func() {
		select {
		case <-now:
		case <-time.After(settleAfter):
		}
		k.settling <- struct{}{}
		defer func() { <-k.settling }()
		done <- do()
	}()
	return sync.OnceValue(func() error {
		close(now)
		return <-done
	})
}

// settleAfter is how long a claim may wait until it is seen to that it outlasts
// a loss of power, while its first command runs.
const settleAfter = 200 * time.Millisecond

// settleAtOnce is how many claims are forced to the disk at a time.
const settleAtOnce = 4

// keepsPool reports whether this program refills the pool.
func (k *poolKeeper) keepsPool() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.keeps
}
