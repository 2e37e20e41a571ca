package kubernetes

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/keylock"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
)

const (
	roleReplica   = "replica"
	replicaPrefix = "sandbox-replica-"

	// Shares of the duration of a replica's Lease. Whoever cannot renew its own stops
	// within the second share; another takes over after the whole duration in which it
	// has seen no renewal. Both measure by their own clock, from a moment that is
	// earlier for the first one, so that clocks may differ as they like.
	renewShare = 5                // renewed so often within the duration
	stopShare  = 2.0 / 3          // of the duration
	noteEvery  = 30 * time.Second // the last use of a sandbox that is held is written so often
	idleAfter  = 45 * time.Second // a sandbox that was not used for so long is held no more
	rewatch    = 500 * time.Millisecond
	closeSoon  = 5 * time.Second
	closeWidth = 16
)

// A state keeps the documents and locks of this program's view of a fleet.
type state struct {
	p     *Provider
	front keylock.Locker
	lost  func(name string)

	mirror *mirror[*coordinationv1.Lease] // of the fleet; it decides nothing

	joining sync.Mutex // one replica is made at a time

	mu     sync.Mutex
	me     *replica // or nil
	closed bool
	gone   map[string]bool      // replicas that are known not to come back
	seen   map[string]sighting  // of the other replicas
	absent map[string]time.Time // when there was no Lease of a name
	denied error                // why the Leases that are held cannot be watched, for the next call
	fenced map[string]int       // locks that were lost and are not released yet, by name
}

// A sighting is the version of the Lease of a replica, and when we saw it first, by
// the monotonic clock.
type sighting struct {
	version string
	since   time.Time
}

// A replica is this program as the others see it: a Lease that it renews. When it
// cannot, it is lost with all that it holds, and the program begins a new one.
type replica struct {
	s     *state
	id    string
	until time.Time // it holds what it holds until then; guarded by state.mu
	over  bool      // guarded by state.mu
	fresh bool      // changes by others are seen; guarded by state.mu
	held  map[string]*entry
	end   context.CancelFunc

	asked chan struct{}   // has one when a renewal is wanted at once
	beats []chan<- string // those that wait for a renewal that begins from now on; guarded by state.mu
}

// beat renews the Lease of r and returns the version that it has then. ok is false where
// that fails or takes too long. Callers that wait at the same time share one renewal.
func (r *replica) beat(ctx context.Context) (version string, ok bool) {
	answer := make(chan string, 1)
	r.s.mu.Lock()
	r.beats = append(r.beats, answer)
	r.s.mu.Unlock()
	select {
	case r.asked <- struct{}{}:
	default: // it begins soon
	}
	timer := time.NewTimer(catchUp)
	defer timer.Stop()
	select {
	case version = <-answer:
	case <-timer.C:
	case <-ctx.Done():
	}
	return version, version != ""
}

// replica returns the replica that this program is, after it has made one where it is
// none.
func (s *state) replica(ctx context.Context) (*replica, error) {
	if r := s.valid(); r != nil {
		return r, nil
	}
	s.joining.Lock()
	defer s.joining.Unlock()
	if r := s.valid(); r != nil {
		return r, nil
	}
	s.mu.Lock()
	old, closed, denied := s.me, s.closed, s.denied
	s.denied = nil
	s.mu.Unlock()
	if denied != nil {
		return nil, denied
	}
	if closed {
		return nil, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "take lease", Message: "the program ends"}
	}
	if old != nil {
		old.lose("its time is over")
	}
	var id [8]byte
	rand.Read(id[:])
	r := &replica{s: s, id: hex.EncodeToString(id[:]), held: map[string]*entry{}, asked: make(chan struct{}, 1)}
	begun := time.Now()
	l, err := s.p.leases().Create(ctx, r.lease(), metav1.CreateOptions{})
	if err != nil {
		return nil, s.fail(ctx, "join fleet", replicaPrefix+r.id, err)
	}
	ctx, r.end = context.WithCancel(context.Background())
	s.mu.Lock()
	s.me, r.until = r, begun.Add(r.stop())
	s.mu.Unlock()
	s.mirror.start()
	go r.renew(ctx, l)
	go r.watch(ctx)
	return r, nil
}

// valid returns the replica that this program is now, or nil.
func (s *state) valid() *replica {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.me; r != nil && !r.over && time.Now().Before(r.until) {
		return r
	}
	return nil
}

func (r *replica) stop() time.Duration { return time.Duration(float64(r.s.p.o.Lease) * stopShare) }

func (r *replica) lease() *coordinationv1.Lease {
	now, seconds := metav1.NewMicroTime(r.s.p.o.Now()), int32(max(1, r.s.p.o.Lease/time.Second))
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: replicaPrefix + r.id, Labels: map[string]string{labelFormat: sandbox.InfoFormat, labelInstance: r.s.p.Instance(), labelRole: roleReplica}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &r.id, LeaseDurationSeconds: &seconds, RenewTime: &now},
	}
}

// renew keeps the Lease of r until ctx ends, looks for replicas that do not, and writes
// what was noted. A Lease that is gone was taken away, because another program has seen
// no renewal.
func (r *replica) renew(ctx context.Context, l *coordinationv1.Lease) {
	tick := time.NewTicker(r.s.p.o.Lease / renewShare)
	defer tick.Stop()
	for {
		regular := true
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-r.asked:
			regular = false
		}
		r.s.mu.Lock()
		until, beats := r.until, r.beats
		r.beats = nil
		r.s.mu.Unlock()
		begun := time.Now()
		if !begun.Before(until) {
			r.lose("it could not be renewed in time")
			return
		}
		call, done := context.WithDeadline(ctx, until)
		next := l.DeepCopy()
		now := metav1.NewMicroTime(r.s.p.o.Now())
		next.Spec.RenewTime = &now
		next, err := r.s.p.leases().Update(call, next, metav1.UpdateOptions{})
		if apierrors.IsConflict(err) { // someone has edited it
			if next, err = r.s.p.leases().Get(call, l.Name, metav1.GetOptions{}); err == nil {
				l = next
				done()
				answer(beats, "")
				tick.Reset(time.Millisecond)
				continue
			}
		}
		done()
		if err == nil {
			answer(beats, next.ResourceVersion)
		} else {
			answer(beats, "")
		}
		switch {
		case err == nil:
			l = next
			r.s.mu.Lock()
			r.until = begun.Add(r.stop())
			r.s.mu.Unlock()
			if regular {
				tick.Reset(r.s.p.o.Lease / renewShare)
				r.tend(ctx)
			}
		case apierrors.IsNotFound(err):
			r.lose("another program has taken it for dead")
			return
		case ctx.Err() != nil:
			return
		default: // try again, until the time is over
			tick.Reset(min(r.s.p.o.Lease/renewShare, time.Second))
		}
	}
}

// answer gives the version of a renewal to those that wait for it.
func answer(beats []chan<- string, version string) {
	for _, b := range beats {
		b <- version
	}
}

// lose ends r: nothing that it holds may be used any more.
func (r *replica) lose(why string) {
	s := r.s
	s.mu.Lock()
	if r.over {
		s.mu.Unlock()
		return
	}
	r.over = true
	var names []string
	for name, e := range r.held {
		if n := e.locks(); n > 0 {
			s.fenced[name] += n
		}
		if e.mark {
			names = append(names, name)
		}
	}
	s.mu.Unlock()
	r.end()
	if len(names) > 0 {
		s.p.o.Warn("", "the lease of this program is lost ("+why+"): what it holds may be used by others")
	}
	for _, name := range names {
		go s.lost(name)
	}
	go func() { // it is given up already; this only spares others the wait
		ctx, done := s.call()
		defer done()
		_ = s.p.leases().Delete(ctx, replicaPrefix+r.id, metav1.DeleteOptions{})
	}()
}

// unfenced is an error while a lock of the name is lost and its holder does not know.
func (s *state) unfenced(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fenced[name] > 0 {
		return s.whyLost(name)
	}
	return nil
}

// whyLost is the error of a lock of the name that was lost. The caller holds s.mu.
func (s *state) whyLost(name string) error {
	if s.denied != nil {
		return s.denied
	}
	return errLost(name)
}

func errLost(name string) error {
	return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "use lease", Resource: name, Retryable: true,
		Message: "the lease of the sandbox was lost: this program could not renew its own in time, so that others may use the sandbox", Hint: "try again; see that the API server answers"}
}

// dead reports whether a replica is gone for good. One whose Lease was not renewed
// while we looked on for its whole duration is removed, unless it renews it just now;
// from then on it can hold nothing.
func (s *state) dead(ctx context.Context, id string) (bool, error) {
	s.mu.Lock()
	known := s.gone[id]
	s.mu.Unlock()
	if known {
		return true, nil
	}
	if !instanceID.MatchString(id) {
		return true, nil // no replica is called so
	}
	l, err := s.p.leases().Get(ctx, replicaPrefix+id, metav1.GetOptions{})
	if err == nil {
		return s.sight(ctx, l)
	}
	if apierrors.IsNotFound(err) && !isNamespace(err) {
		s.bury(id)
		return true, nil
	}
	return false, s.fail(ctx, "look at replica", id, err)
}

// sight notes that the Lease of a replica is as it is, and removes one that was not
// renewed for too long.
func (s *state) sight(ctx context.Context, l *coordinationv1.Lease) (dead bool, err error) {
	id, after := strings.TrimPrefix(l.Name, replicaPrefix), s.p.o.Lease
	if d := l.Spec.LeaseDurationSeconds; d != nil && *d > 0 && *d <= 60 { // by which it stops itself
		after = time.Duration(*d) * time.Second
	}
	s.mu.Lock()
	was := s.seen[id]
	if was.version != l.ResourceVersion {
		was = sighting{l.ResourceVersion, time.Now()}
		s.seen[id] = was
	}
	s.mu.Unlock()
	if time.Since(was.since) < after {
		return false, nil
	}
	pre := metav1.Preconditions{UID: &l.UID, ResourceVersion: &l.ResourceVersion}
	err = s.p.leases().Delete(ctx, l.Name, metav1.DeleteOptions{Preconditions: &pre})
	switch {
	case err == nil:
		s.bury(id)
		go s.clear(id)
		return true, nil
	case apierrors.IsNotFound(err):
		s.bury(id)
		return true, nil
	case apierrors.IsConflict(err): // it lives
		return false, nil
	}
	return false, s.fail(ctx, "remove replica", id, err)
}

// clear takes the marks and locks of a replica that is dead off all Leases. Each of
// them counts for nothing already; this keeps Leases from being left.
func (s *state) clear(id string) {
	ctx, done := s.call()
	defer done()
	list, err := s.p.leases().List(ctx, metav1.ListOptions{LabelSelector: labelHeldBy + id})
	if err != nil {
		return
	}
	for i := range list.Items {
		l := &list.Items[i]
		if l.Labels[labelInstance] != s.p.Instance() || l.Labels[labelRole] != roleState {
			continue
		}
		_, _ = s.rewrite(ctx, l.Name, l, func(l *coordinationv1.Lease) error {
			delete(l.Labels, labelHeldBy+id)
			if l.Annotations[annotationEnsure] == id {
				delete(l.Annotations, annotationEnsure)
			}
			if holder(l) == id {
				l.Spec.HolderIdentity = nil
			}
			return nil
		})
	}
}

// bury notes that a replica does not come back.
func (s *state) bury(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.gone) > 10000 {
		clear(s.gone)
	}
	s.gone[id] = true
	delete(s.seen, id)
}

// tend looks at the other replicas, and writes and gives up what is due.
func (r *replica) tend(ctx context.Context) {
	call, done := context.WithTimeout(ctx, r.stop()/2)
	defer done()
	_ = r.s.list(call, roleReplica, func(l *coordinationv1.Lease) { // what fails is tried at the next time
		if l.Name != replicaPrefix+r.id {
			_, _ = r.s.sight(call, l)
		}
	})
	now := time.Now()
	var due []*entry
	r.s.mu.Lock()
	for name, e := range r.held {
		switch {
		case e.locks() == 0 && e.calls == 0 && !e.mark && !e.unsure:
			delete(r.held, name)
		case e.locks() == 0 && now.Sub(e.used) > idleAfter, e.unsure && e.locks() == 0, e.note != nil && now.Sub(e.written) > noteEvery:
			due = append(due, e)
		}
	}
	r.s.mu.Unlock()
	for _, e := range due {
		if call.Err() != nil {
			return
		}
		e.settle(call)
	}
}

// watch follows the Leases that r holds, until ctx ends. A program that may not do so
// would not hear of others that want a sandbox alone, so r ends then.
func (r *replica) watch(ctx context.Context) {
	o := metav1.ListOptions{LabelSelector: labelHeldBy + r.id}
	for ctx.Err() == nil {
		list, err := r.s.p.leases().List(ctx, o)
		if err == nil {
			for i := range list.Items {
				r.saw(&list.Items[i], false)
			}
			from := o
			from.ResourceVersion, from.AllowWatchBookmarks = list.ResourceVersion, true
			err = r.follow(ctx, from)
		}
		r.setFresh(false)
		if apierrors.IsForbidden(err) {
			denied := r.s.fail(ctx, "join fleet", replicaPrefix+r.id, err)
			r.s.mu.Lock()
			r.s.denied = denied
			r.s.mu.Unlock()
			r.lose("it may not watch Leases")
			return
		}
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(rewatch):
			}
		}
	}
}

// follow hands over what changes until the watch ends, which is no error.
func (r *replica) follow(ctx context.Context, o metav1.ListOptions) error {
	w, err := r.s.p.leases().Watch(ctx, o)
	if err != nil {
		return err
	}
	defer w.Stop()
	r.setFresh(true)
	for ev := range w.ResultChan() {
		l, ok := ev.Object.(*coordinationv1.Lease)
		switch {
		case ev.Type == watch.Error:
			return errors.New("the watch has failed")
		case ok && ev.Type != watch.Bookmark:
			r.saw(l, ev.Type == watch.Deleted)
		}
	}
	return nil
}

func (r *replica) setFresh(is bool) {
	r.s.mu.Lock()
	r.fresh = is
	r.s.mu.Unlock()
}

// saw takes over a version of a Lease. away says that r does not hold it in that
// version.
func (r *replica) saw(l *coordinationv1.Lease, away bool) {
	s := r.s
	s.mu.Lock()
	e := r.held[l.Name]
	if e == nil || !e.mark || !newer(l.ResourceVersion, e.lease.ResourceVersion) {
		s.mu.Unlock()
		return
	}
	if away {
		s.mu.Unlock()
		go e.taken(l)
		return
	}
	e.set(l)
	asked := l.Annotations[annotationWanted]
	s.mu.Unlock()
	if asked != "" && !strings.HasPrefix(asked, r.id+".") {
		go e.answer(asked)
	}
}

// taken ends e where another program took the mark off, as it is seen in l. What this
// program takes off itself may be seen before the API server has answered.
func (e *entry) taken(l *coordinationv1.Lease) {
	s := e.r.s
	ctx, done := s.call()
	defer done()
	leave, err := e.enter(ctx)
	if err != nil {
		return
	}
	defer leave()
	s.mu.Lock()
	gone := e.mark && !e.r.over && newer(l.ResourceVersion, e.lease.ResourceVersion)
	if gone {
		if n := e.locks(); n > 0 {
			s.fenced[e.name] += n
		}
		e.cut, e.mark = true, false
		if e.r.held[e.name] == e {
			delete(e.r.held, e.name)
		}
	}
	s.mu.Unlock()
	if gone {
		s.lost(e.name)
	}
}

// close writes what was noted, and gives up what this program holds.
func (s *state) close() {
	s.mu.Lock()
	r, was := s.me, s.closed
	s.closed = true
	s.mu.Unlock()
	s.mirror.stop()
	if r == nil || was {
		return
	}
	s.mu.Lock()
	over := r.over
	r.over = true
	var all []*entry
	for _, e := range r.held {
		all = append(all, e)
	}
	s.mu.Unlock()
	if over {
		return
	}
	r.end()
	ctx, done := context.WithTimeout(context.Background(), closeSoon)
	defer done()
	var leaving sync.WaitGroup
	room := make(chan struct{}, closeWidth)
	for _, e := range all {
		leaving.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			e.leave(ctx)
		})
	}
	leaving.Wait()
	_ = s.p.leases().Delete(ctx, replicaPrefix+r.id, metav1.DeleteOptions{}) // others wait for its end otherwise
}

// heldDocument returns the document of a sandbox that this program holds.
func (s *state) heldDocument(name string) (statedir.Document, bool) {
	r := s.valid()
	if r == nil {
		return statedir.Document{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := r.held[name]
	if e != nil && e.later && !e.unsure {
		return statedir.Document{Name: name}, true // the first change is an error where that is not so
	}
	if e == nil || !e.mark || e.lease == nil || e.unsure || !r.fresh && (!e.ensure || e.given) && !e.alone {
		return statedir.Document{}, false
	}
	return e.doc, true
}

// marked returns the entry of a sandbox that this program holds, or that it has the ensure
// lock of, or nil.
func (s *state) marked(name string) *entry {
	r := s.valid()
	if r == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := r.held[name]; e != nil && (e.mark || e.later) {
		return e
	}
	return nil
}
