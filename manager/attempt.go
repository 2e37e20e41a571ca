package manager

import (
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/registry"
	"github.com/bulkhead-dev/sandbox/registry/pool"
)

// A PoolObserver is what the Observer of a manager may be too, to count what
// becomes of the pool. It is safe for concurrent use and does not block.
type PoolObserver interface {
	// Attempted counts a sandbox that was made while a pool was kept: it was a
	// slot where miss is nil. took is how long the claim took, or making it.
	Attempted(miss *pool.Miss, took time.Duration)
	// SlotStarted counts a slot that was made, or not for err.
	SlotStarted(took time.Duration, err error)
	// Slots says how many free slots there are, and how many settings and demand
	// want.
	Slots(ready, wanted int)
	// Refilled says how long the pool was not full: from the first claim to the
	// last slot that was missing.
	Refilled(took time.Duration)
}

// poolObserver returns what counts, which may be nothing.
func (k *poolKeeper) poolObserver() PoolObserver {
	if o, ok := k.m.observer.(PoolObserver); ok {
		return o
	}
	return unobserved{}
}

type unobserved struct{}

func (unobserved) Attempted(*pool.Miss, time.Duration) {}
func (unobserved) SlotStarted(time.Duration, error)    {}
func (unobserved) Slots(int, int)                      {}
func (unobserved) Refilled(time.Duration)              {}

// missed notes that the sandbox of w was made, or was not for err, although a
// pool is kept.
func (k *poolKeeper) missed(w *want, l *acquired, began time.Time, err error) {
	took := time.Since(began)
	miss := w.miss.Took(took)
	if l != nil {
		l.miss = &miss
	}
	k.poolObserver().Attempted(&miss, took)
	log := k.m.log.WithField("sandbox", w.spec.Name).WithField("reason", string(miss.Reason)).WithField("made", took.Round(time.Millisecond))
	if err != nil {
		log.Infof("no slot of the pool was claimed, and it could not be made: %s", miss.Detail)
	} else {
		log.Infof("made, and no slot of the pool claimed: %s", miss.Detail)
	}
	a := k.attempt(w, took)
	a.Miss, a.Code = &miss, sandbox.CodeOf(err)
	k.logAttempt(a)
}

// attempt is what goes on record of the sandbox of w.
func (k *poolKeeper) attempt(w *want, took time.Duration) registry.Attempt {
	o := w.spec.Owner
	return registry.Attempt{Time: k.m.now(), Sandbox: w.spec.Name, Tenant: o.Tenant, Agent: o.Agent, Shape: w.shape, Took: took}
}

// logAttempt puts a on record. Where that fails fewer slots may be kept than
// demand wants, and the sandbox is there all the same.
func (k *poolKeeper) logAttempt(a registry.Attempt) {
	if err := k.m.records.LogAttempt(a); err != nil {
		k.report(k.m.log, "attempts", err, "what becomes of the pool is not on record")
	}
	k.wake(a.Time) // it counts as demand
}
