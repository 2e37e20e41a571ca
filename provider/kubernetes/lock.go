package kubernetes

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/keylock"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
)

const (
	// labelHeldBy, with the id of a replica behind it, says that the replica may use
	// the sandbox. It is one label for all uses of that program, and stays for some
	// time after the last one, so that most uses change nothing here. The value is
	// heldValue, or the answer to a question: usedValue with its id.
	labelHeldBy = labelPrefix + "by-"
	heldValue   = "held"
	usedValue   = "used-"

	annotationEnsure = labelPrefix + "ensure" // the replica that has the ensure lock
	annotationWanted = labelPrefix + "wanted" // the replica that wants the sandbox alone, and the id of its question

	askWithin   = 3 * time.Second       // an answer is waited for
	firstRetry  = 20 * time.Millisecond // then twice as long, up to lastRetry
	lastRetry   = 500 * time.Millisecond
	freshEnough = 50 * time.Millisecond
)

// A locker implements [keylock.Locker]: a lock is one of this machine, and one of this
// program among the replicas.
type locker struct{ s *state }

// An entry is the Lease of a sandbox that a replica holds or wants. Its fields are
// guarded by state.mu.
type entry struct {
	r    *replica
	name string
	turn chan struct{} // who changes the Lease

	lease  *coordinationv1.Lease // as it was seen last; nil is unknown
	doc    statedir.Document     // of lease, with note
	mark   bool                  // lease says that we hold it
	unsure bool                  // a change may have been made whose answer was lost
	leaves bool                  // the mark is being taken off
	cut    bool                  // another program took the mark away: another entry stands for the name
	stale  bool                  // lease is asked for before the next change
	calls  int                   // that have the entry and may take a lock

	shared        int
	ensure, alone bool
	given         bool      // lease says no more that we have the ensure lock, which is released soon
	later         bool      // the ensure lock is not written: the first change makes the Lease
	used          time.Time // the last lock of it ended

	note    func(*statedir.Document) error // not written yet
	notes   int                            // how many there were
	written time.Time
}

// locks is how many locks this program has on e.
func (e *entry) locks() int {
	n := e.shared
	for _, is := range []bool{e.ensure, e.alone} {
		if is {
			n++
		}
	}
	return n
}

// set takes over what there is.
func (e *entry) set(l *coordinationv1.Lease) {
	e.lease, e.doc = l, documentOf(l, true)
	if e.note != nil && e.note(&e.doc) != nil {
		e.note = nil // it is about a record that is gone
	}
}

// entry returns that of the name for a call, which ends with [entry.done].
func (r *replica) entry(name string) *entry {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	e := r.held[name]
	if e == nil {
		e = &entry{r: r, name: name, turn: make(chan struct{}, 1), used: time.Now(), written: time.Now()}
		r.held[name] = e
	}
	e.calls++
	return e
}

func (e *entry) done() {
	e.r.s.mu.Lock()
	e.calls--
	e.r.s.mu.Unlock()
}

// enter waits for the turn to change the Lease.
func (e *entry) enter(ctx context.Context) (leave func(), err error) {
	select {
	case e.turn <- struct{}{}:
		return func() { <-e.turn }, nil
	case <-ctx.Done():
		return nil, e.r.s.p.fail(ctx, "take lease", e.name, ctx.Err())
	}
}

// rewrite changes the Lease of e.
func (e *entry) rewrite(ctx context.Context, change func(*coordinationv1.Lease) error) error {
	leave, err := e.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	return e.change(ctx, change)
}

// finish is rewrite for the last change under the ensure lock, if this program has it:
// the lock is given up by the same write. The caller releases it as any other, which
// then changes nothing.
func (e *entry) finish(ctx context.Context, change func(*coordinationv1.Lease) error) error {
	leave, err := e.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	s, me := e.r.s, e.r.id
	s.mu.Lock()
	ensure := e.ensure && !e.given
	s.mu.Unlock()
	err = e.change(ctx, func(l *coordinationv1.Lease) error {
		err := change(l)
		if err == nil && ensure && l.Annotations[annotationEnsure] == me {
			delete(l.Annotations, annotationEnsure)
		}
		return err
	})
	if err == nil && ensure {
		s.mu.Lock()
		e.given = true
		s.mu.Unlock()
	}
	return err
}

// change is rewrite for the caller that has the turn. What was noted is written too.
func (e *entry) change(ctx context.Context, change func(*coordinationv1.Lease) error) error {
	s := e.r.s
	s.mu.Lock()
	var base *coordinationv1.Lease
	if e.mark && !e.unsure && !e.stale {
		base = e.lease
	}
	ensure, alone, note, notes, later := e.ensure && !e.given, e.alone, e.note, e.notes, e.later
	s.mu.Unlock()
	me := e.r.id
	do := func(l *coordinationv1.Lease) error {
		if later {
			if l.ResourceVersion != "" {
				return keylock.Busy(e.name, keylock.ErrAssumed)
			}
			e.r.hold(l)
			l.Annotations[annotationEnsure] = me
		}
		if ensure && l.Annotations[annotationEnsure] != me || alone && holder(l) != me {
			return errLost(e.name)
		}
		if note != nil {
			_ = onDocument(l, note) // a record that is gone needs none
		}
		return change(l)
	}
	now, err := s.rewrite(ctx, e.name, base, do)
	if base != nil && errors.Is(err, errOther) { // it may have changed meanwhile
		now, err = s.rewrite(ctx, e.name, nil, do)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && now == nil {
		e.unsure = true
		return err
	}
	if err != nil {
		return err
	}
	e.unsure, e.stale, e.later = false, false, false
	if e.lease == nil || now.ResourceVersion == "" || newer(now.ResourceVersion, e.lease.ResourceVersion) {
		if e.written = time.Now(); e.notes == notes {
			e.note = nil
		}
		e.set(now)
	}
	e.mark = e.lease.Labels[labelHeldBy+me] != ""
	return nil
}

func holder(l *coordinationv1.Lease) string {
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

// hold marks l as held by the replica, and takes off marks of those that are gone.
func (r *replica) hold(l *coordinationv1.Lease) {
	if l.Labels == nil {
		l.Labels = map[string]string{}
	}
	if l.Annotations == nil {
		l.Annotations = map[string]string{}
	}
	if l.Labels[labelHeldBy+r.id] == "" {
		l.Labels[labelHeldBy+r.id] = heldValue
	}
	delete(l.Annotations, annotationWanted)
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	for label := range l.Labels {
		if id, is := strings.CutPrefix(label, labelHeldBy); is && r.s.gone[id] {
			delete(l.Labels, label)
		}
	}
}

// errOther says that another replica has the lock.
var errOther = errors.New("another program has it")

// admit is errOther where a replica other than r that lives is id.
func (r *replica) admit(ctx context.Context, id string) error {
	if id == "" || id == r.id {
		return nil
	}
	dead, err := r.s.dead(ctx, id)
	if err == nil && !dead {
		err = errOther
	}
	return err
}

// others returns the replicas other than r that live and may use the sandbox of l,
// with the values of their marks. Marks of others are taken off.
func (r *replica) others(ctx context.Context, l *coordinationv1.Lease) (map[string]string, error) {
	out := map[string]string{}
	for label, value := range l.Labels {
		id, is := strings.CutPrefix(label, labelHeldBy)
		if !is || id == r.id {
			continue
		}
		switch err := r.admit(ctx, id); {
		case err == nil:
			delete(l.Labels, label)
		case errors.Is(err, errOther):
			out[id] = value
		default:
			return nil, err
		}
	}
	return out, nil
}

// behind takes the lock of this machine, and then the one among the replicas by take.
// release gives the latter up.
func (k locker) behind(front *keylock.Lock, err error, take func(*replica) (*entry, error), release func(*entry)) (*keylock.Lock, error) {
	if err != nil {
		return nil, err
	}
	ctx, done := k.s.call()
	defer done()
	r, err := k.s.replica(ctx)
	var e *entry
	if err == nil {
		if e, err = take(r); e != nil {
			e.done()
		}
	}
	if err != nil {
		_ = front.Release()
		return nil, err
	}
	return keylock.NewLock(func() error {
		err := k.s.release(e, release)
		return errors.Join(err, front.Release())
	}), nil
}

// release gives up one lock on e. It is an error where that was lost.
func (s *state) release(e *entry, release func(*entry)) error {
	s.mu.Lock()
	if e.r.over && !s.closed || e.cut {
		if s.fenced[e.name]--; s.fenced[e.name] <= 0 {
			delete(s.fenced, e.name)
		}
		s.mu.Unlock()
		return errLost(e.name)
	}
	ended := e.r.over
	e.used = time.Now()
	s.mu.Unlock()
	if !ended {
		release(e)
	}
	return nil
}

// Shared implements [keylock.Locker].
func (k locker) Shared(ctx context.Context, name string) (*keylock.Lock, error) {
	front, err := k.s.front.Shared(ctx, name)
	return k.behind(front, err, func(r *replica) (*entry, error) {
		e := r.entry(name)
		if e.join() {
			return e, nil
		}
		return e, e.wait(ctx, func(l *coordinationv1.Lease) error {
			if err := r.admit(ctx, holder(l)); err != nil {
				return err
			}
			if holder(l) != r.id {
				l.Spec.HolderIdentity = nil
			}
			r.hold(l)
			return nil
		}, func() { e.shared++ })
	}, func(e *entry) {
		e.r.s.mu.Lock()
		e.shared--
		asked := ""
		if e.lease != nil && e.locks() == 0 {
			asked = e.lease.Annotations[annotationWanted]
		}
		e.r.s.mu.Unlock()
		if asked != "" && !strings.HasPrefix(asked, e.r.id+".") {
			go e.answer(asked)
		}
	})
}

// join adds one shared lock where the replica holds the sandbox already.
func (e *entry) join() bool {
	s := e.r.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if !e.mark && !e.later || e.leaves || e.unsure || e.r.over || !time.Now().Before(e.r.until) || e.alone {
		return false
	}
	e.shared++
	return true
}

// assume takes the ensure lock without writing it, where this program has nothing of
// the name. It returns false where the lock has to be written.
func (e *entry) assume() bool {
	s := e.r.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.mark || e.unsure || e.leaves || e.cut || e.locks() > 0 || e.r.over || !time.Now().Before(e.r.until) {
		return false
	}
	e.ensure, e.given, e.later = true, false, true
	return true
}

// wait makes the change until no other replica is in the way, or ctx ends. took is
// called with state.mu held when it is made.
func (e *entry) wait(ctx context.Context, change func(*coordinationv1.Lease) error, took func()) error {
	for pause := firstRetry; ; pause = min(2*pause, lastRetry) {
		err := e.take(ctx, change, took)
		if !errors.Is(err, errOther) {
			return err
		}
		select {
		case <-ctx.Done():
			return keylock.Busy(e.name, ctx.Err())
		case <-time.After(pause):
		}
	}
}

// take makes the change once.
func (e *entry) take(ctx context.Context, change func(*coordinationv1.Lease) error, took func()) error {
	leave, err := e.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	ctx, done := context.WithTimeout(ctx, e.r.s.p.o.Call)
	defer done()
	if err := e.change(ctx, change); err != nil {
		return err
	}
	e.r.s.mu.Lock()
	defer e.r.s.mu.Unlock()
	if e.r.over || e.cut || !time.Now().Before(e.r.until) {
		return e.r.s.whyLost(e.name)
	}
	took()
	return nil
}

// ensured is the change that takes the ensure lock.
func (e *entry) ensured(ctx context.Context) func(*coordinationv1.Lease) error {
	return func(l *coordinationv1.Lease) error {
		if err := e.r.admit(ctx, l.Annotations[annotationEnsure]); err != nil {
			return err
		}
		e.r.hold(l)
		l.Annotations[annotationEnsure] = e.r.id
		return nil
	}
}

// Ensure implements [keylock.Locker].
func (k locker) Ensure(ctx context.Context, name string) (*keylock.Lock, error) {
	front, err := k.s.front.Ensure(ctx, name)
	return k.behind(front, err, func(r *replica) (*entry, error) {
		e := r.entry(name)
		return e, e.wait(ctx, e.ensured(ctx), func() { e.ensure, e.given = true, false })
	}, (*entry).unensure)
}

// EnsureNew implements [keylock.Assumer]: the name is new where the mirror follows the
// API server and has no Lease of it.
func (k locker) EnsureNew(ctx context.Context, name string) (*keylock.Lock, error) {
	front, err := k.s.front.Ensure(ctx, name)
	if err != nil {
		return nil, err
	}
	_, version, known := k.s.mirror.guess(name)
	r := k.s.valid()
	if r == nil || !known || version != "" {
		return nil, front.Release()
	}
	e := r.entry(name)
	assumed := e.assume()
	e.done()
	if !assumed {
		return nil, front.Release()
	}
	return keylock.NewLock(func() error {
		err := k.s.release(e, (*entry).unensure)
		return errors.Join(err, front.Release())
	}), nil
}

// TryEnsure implements [keylock.Locker].
func (k locker) TryEnsure(name string) (*keylock.Lock, error) {
	front, err := k.s.front.TryEnsure(name)
	return k.behind(front, err, func(r *replica) (*entry, error) {
		ctx, done := k.s.call()
		defer done()
		e := r.entry(name)
		return e, busy(name, e.take(ctx, e.ensured(ctx), func() { e.ensure, e.given = true, false }))
	}, (*entry).unensure)
}

func busy(name string, err error) error {
	if errors.Is(err, errOther) {
		return keylock.Busy(name, err)
	}
	return err
}

// unensure gives the ensure lock up, and an exclusive one that was given up under it.
func (e *entry) unensure() {
	s := e.r.s
	s.mu.Lock()
	if e.later {
		e.later = false
		if !e.unsure { // nothing was written
			e.ensure = false
			s.mu.Unlock()
			return
		}
	}
	s.mu.Unlock()
	ctx, done := e.r.s.call()
	defer done()
	e.drop(ctx, func() { e.ensure, e.given = false, false })
}

// drop ends a lock, and writes that it has ended. Where that fails it is tried again
// from time to time; until then other replicas wait.
func (e *entry) drop(ctx context.Context, end func()) {
	s := e.r.s
	leave, err := e.enter(ctx)
	s.mu.Lock()
	end()
	e.unsure = e.unsure || err != nil
	s.mu.Unlock()
	if err != nil {
		return
	}
	defer leave()
	e.reduce(ctx, false)
}

// reduce takes off l what this program does not have, for the caller that has the turn.
// away says to take the mark off as well, which goes in any case where nothing is kept.
func (e *entry) reduce(ctx context.Context, away bool) {
	s, me := e.r.s, e.r.id
	s.mu.Lock()
	ensure, alone, idle, later := e.ensure && !e.given, e.alone, e.locks() == 0, e.later
	s.mu.Unlock()
	if later { // nothing is written
		return
	}
	err := e.change(ctx, func(l *coordinationv1.Lease) error {
		if !ensure && l.Annotations[annotationEnsure] == me {
			delete(l.Annotations, annotationEnsure)
		}
		if !alone && holder(l) == me {
			l.Spec.HolderIdentity = nil
		}
		if asked := l.Annotations[annotationWanted]; strings.HasPrefix(asked, me+".") {
			delete(l.Annotations, annotationWanted)
		}
		if idle && (away || documentOf(l, false).Empty()) {
			delete(l.Labels, labelHeldBy+me)
		}
		return nil
	})
	s.mu.Lock()
	e.unsure = e.unsure || err != nil
	s.mu.Unlock()
}

// TryExclusive implements [keylock.Locker]. A replica that holds the sandbox and does
// not use it is asked to let it go.
func (k locker) TryExclusive(name string) (*keylock.Lock, error) {
	front, err := k.s.front.TryExclusive(name)
	return k.behind(front, err, func(r *replica) (*entry, error) {
		ctx, done := k.s.call()
		defer done()
		e := r.entry(name)
		err := e.ask(ctx, true, func(l *coordinationv1.Lease) error {
			r.hold(l)
			l.Spec.HolderIdentity = &r.id
			return nil
		}, func() { e.alone = true })
		return e, busy(name, err)
	}, func(e *entry) {
		s := e.r.s
		s.mu.Lock()
		ensure := e.ensure
		s.mu.Unlock()
		ctx, done := s.call()
		defer done()
		if !ensure {
			e.drop(ctx, func() { e.alone = false })
			return
		}
		s.mu.Lock()
		e.alone = false // written when the ensure lock is given up
		s.mu.Unlock()
	})
}

// ask makes the change where no other replica uses the sandbox. Others that hold it
// without need have askWithin to let it go.
//
// One that does not answer may be dead. With untilDead ask waits until that is sure, or
// until the other one is seen to live: a program that runs for less than the duration of
// a Lease, as each call of a command line does, would otherwise never get the sandbox.
func (e *entry) ask(ctx context.Context, untilDead bool, change func(*coordinationv1.Lease) error, took func()) error {
	first, lives := map[string]string{}, false // versions of the Leases of the others
	var random [4]byte
	rand.Read(random[:])
	question := hex.EncodeToString(random[:])
	begun := time.Now()
	for pause := firstRetry; ; pause = min(2*pause, lastRetry) {
		waits := false
		err := e.take(ctx, func(l *coordinationv1.Lease) error {
			waits = false
			if err := e.r.admit(ctx, holder(l)); err != nil {
				return err
			}
			others, err := e.r.others(ctx, l)
			if err != nil || len(others) == 0 {
				if err == nil {
					err = change(l)
				}
				return err
			}
			for _, value := range others {
				if value == usedValue+question {
					return errOther
				}
			}
			for id := range others {
				version := e.r.s.version(id)
				if first[id] == "" {
					first[id] = version
				}
				lives = lives || first[id] != version
			}
			waits = true
			if l.Annotations == nil {
				l.Annotations = map[string]string{}
			}
			l.Annotations[annotationWanted] = e.r.id + "." + question
			return nil
		}, func() {
			if !waits {
				took()
			}
		})
		switch {
		case err != nil || !waits:
			return err
		case time.Since(begun) > askWithin && (lives || !untilDead):
			return errOther
		}
		e.r.s.mu.Lock()
		e.stale = true
		e.r.s.mu.Unlock()
		select {
		case <-ctx.Done():
			return keylock.Busy(e.name, errOther)
		case <-time.After(pause):
		}
	}
}

// version returns the version of the Lease of a replica that was seen last.
func (s *state) version(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[id].version
}

// answer lets the sandbox go where it is not used, and says so where it is.
func (e *entry) answer(asked string) {
	s := e.r.s
	ctx, done := s.call()
	defer done()
	leave, err := e.enter(ctx)
	if err != nil {
		return
	}
	defer leave()
	s.mu.Lock()
	used := e.locks() > 0
	e.leaves = !used
	s.mu.Unlock()
	if !used {
		e.reduce(ctx, true)
		s.mu.Lock()
		e.leaves = false
		s.mu.Unlock()
		return
	}
	_, question, _ := strings.Cut(asked, ".")
	_ = e.change(ctx, func(l *coordinationv1.Lease) error { // without an answer the other one takes it for used, too
		if l.Annotations[annotationWanted] == asked && len(question) <= 16 {
			l.Labels[labelHeldBy+e.r.id] = usedValue + question
		}
		return nil
	})
}

// settle writes what was noted, and lets the sandbox go where it was not used for long.
func (e *entry) settle(ctx context.Context) {
	s := e.r.s
	leave, err := e.enter(ctx)
	if err != nil {
		return
	}
	defer leave()
	s.mu.Lock()
	away := e.locks() == 0 && (time.Since(e.used) > idleAfter || !e.mark)
	e.leaves = away
	s.mu.Unlock()
	e.reduce(ctx, away)
	s.mu.Lock()
	e.leaves = false
	s.mu.Unlock()
}

// leave gives everything up, whoever has it. The program ends.
func (e *entry) leave(ctx context.Context) {
	s := e.r.s
	leave, err := e.enter(ctx)
	if err != nil {
		return
	}
	defer leave()
	s.mu.Lock()
	ours := e.mark || e.unsure
	e.shared, e.ensure, e.alone, e.given, e.later = 0, false, false, false, false
	s.mu.Unlock()
	if ours {
		e.reduce(ctx, true)
	}
}

// Held implements [keylock.Locker].
func (k locker) Held(name string) (bool, error) {
	if held, err := k.s.front.Held(name); held || err != nil {
		return held, err
	}
	ctx, done := k.s.call()
	defer done()
	l, err := k.s.look(ctx, name)
	if err != nil {
		return true, err
	}
	r, err := k.s.replica(ctx)
	if err != nil {
		return true, err
	}
	others, err := r.others(ctx, l.DeepCopy())
	if err == nil {
		err = r.admit(ctx, holder(l))
	}
	switch {
	case errors.Is(err, errOther):
		return true, nil
	case err != nil:
		return true, err
	case len(others) == 0:
		return false, nil
	}
	e := r.entry(name)
	defer e.done()
	switch err := e.ask(ctx, false, func(*coordinationv1.Lease) error { return nil }, func() {}); {
	case errors.Is(err, errOther), sandbox.CodeOf(err) == sandbox.CodeBusy:
		return true, nil
	case err != nil:
		return true, err
	}
	return false, nil
}

// look returns the Lease of a name, as it was when it was changed last by this program
// where that was just now.
func (s *state) look(ctx context.Context, name string) (*coordinationv1.Lease, error) {
	if r := s.valid(); r != nil {
		s.mu.Lock()
		e := r.held[name]
		if e != nil && e.mark && e.lease != nil && time.Since(e.written) < freshEnough {
			defer s.mu.Unlock()
			return e.lease, nil
		}
		s.mu.Unlock()
	}
	return s.get(ctx, name)
}

// note is Note for a sandbox that this program holds.
func (s *state) note(name string, change func(*statedir.Document) error) (noted bool, err error) {
	r := s.valid()
	if r == nil {
		return false, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := r.held[name]
	if e == nil || !e.mark || e.leaves || e.unsure || e.lease == nil || !r.fresh && (!e.ensure || e.given) {
		return false, nil
	}
	doc := e.doc
	if err := change(&doc); err != nil {
		return true, err
	}
	e.doc, e.note = doc, change
	e.notes++
	return true, nil
}

// noted returns the record of a sandbox with what is not written yet.
func (s *state) noted(name, version string) ([]byte, bool) {
	r := s.valid()
	if r == nil {
		return nil, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := r.held[name]; e != nil && e.mark && e.note != nil && !newer(version, e.lease.ResourceVersion) {
		return e.doc.Record, true
	}
	return nil, false
}
