// This file hands out a number of slots to the callers of many tenants in
// turns: however many callers one tenant has, the wait of another tenant
// depends only on the shares of the tenants. It is for starting commands, which
// costs the machine more than keeping them.
//
// The rule is weighted deficit round robin, with a slot as the unit: a tenant
// whose turn it is gets as many slots as its weight, then the turn passes to
// the next one. A tenant without waiting callers is passed over and saves
// nothing up. Slots are counted, not the time for which they are held:
// deadlines and quotas bound that time.

package tenant

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

const fairOp = "wait for a turn"

// fullRetry is when to try again where too many wait already.
const fullRetry = time.Second

// Options say how many get what.
type Options struct {
	Slots   int // that are held at one time; at least 1
	Waiting int // callers of one tenant that may wait; at least 0

	// Weight returns how many slots a tenant gets in a turn. It is called when
	// a turn begins, under a lock, so it must neither block nor call the queue.
	// Less than 1 counts as 1; nil means 1 for all.
	Weight func(tenant string) int
}

// A Queue hands out slots. It is safe for concurrent use, and runs no goroutine
// of its own: the caller that gives a slot back hands it over.
type Queue struct {
	weight func(string) int

	mu      sync.Mutex
	waiting int // that may wait, of one tenant
	free    int // when it is more than 0 no caller waits; less where slots were taken away that are held
	held    int
	line    int // callers that wait
	tenants map[string]*tenant
	turn    *tenant // whose turn it is, in a ring; nil when no caller waits
}

// A tenant is one that has callers waiting.
type tenant struct {
	name       string
	left       int // slots of this turn
	callers    int
	first      *waiter // has waited for the longest
	last       *waiter
	prev, next *tenant // in the ring
}

// A waiter is a caller that waits.
type waiter struct {
	tenant     *tenant   // nil when it waits no more
	slot       *fairSlot // set before ready is closed
	ready      chan struct{}
	prev, next *waiter
}

// NewQueue returns a queue with all slots free.
func NewQueue(o Options) (*Queue, error) {
	if err := checkFair("make queue", o.Slots, o.Waiting); err != nil {
		return nil, err
	}
	q := &Queue{waiting: o.Waiting, weight: o.Weight, free: o.Slots, tenants: map[string]*tenant{}}
	if q.weight == nil {
		q.weight = func(string) int { return 1 }
	}
	return q, nil
}

func checkFair(op string, slots, waiting int) error {
	switch {
	case slots < 1:
		return &sandbox.Error{Code: sandbox.CodeValidation, Op: op, Field: "slots", Message: "there has to be one at least"}
	case waiting < 0:
		return &sandbox.Error{Code: sandbox.CodeValidation, Op: op, Field: "waiting", Message: "it is negative"}
	}
	return nil
}

// Resize sets the number of slots, and the number of callers of one tenant that
// may wait. New slots are handed to waiting callers; when there are too many
// slots, the next ones given back are withdrawn. Callers that already wait keep
// waiting.
func (q *Queue) Resize(slots, waiting int) error {
	if err := checkFair("resize queue", slots, waiting); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = waiting
	q.free = slots - q.held
	for q.free > 0 && q.turn != nil {
		q.free--
		q.held++
		q.serve()
	}
	return nil
}

// A fairSlot is the right to go ahead.
type fairSlot struct {
	queue    *Queue
	released atomic.Bool
}

// Release gives the slot back. It may be called more than once, by anybody.
func (s *fairSlot) Release() {
	if s.released.Swap(true) {
		return
	}
	q := s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	q.handOn()
}

// Acquire returns a slot when it is the caller's turn; callers of one tenant
// get theirs in the order in which they arrived. When too many callers of the
// tenant already wait, the code is [sandbox.CodeBudgetExceeded], with an
// [Exceeded] as the cause. When ctx ends first, the error is its cause, wrapped
// in [sandbox.CodeTimeout] for a deadline, and no slot is held.
func (q *Queue) Acquire(ctx context.Context, tenant string) (*fairSlot, error) {
	if ctx.Err() != nil {
		return nil, gaveUp(ctx)
	}
	q.mu.Lock()
	if q.free > 0 {
		q.free--
		q.held++
		q.mu.Unlock()
		return &fairSlot{queue: q}, nil
	}
	w, err := q.join(tenant)
	q.mu.Unlock()
	if err != nil {
		return nil, err
	}
	select {
	case <-w.ready:
		return w.slot, nil
	case <-ctx.Done():
		q.leave(w)
		return nil, gaveUp(ctx)
	}
}

// A Load says how busy a queue is.
type Load struct {
	Held    int // slots
	Waiting int // callers
	Tenants int // that have callers waiting
}

// Load returns how busy the queue is now.
func (q *Queue) Load() Load {
	q.mu.Lock()
	defer q.mu.Unlock()
	return Load{Held: q.held, Waiting: q.line, Tenants: len(q.tenants)}
}

// join puts a new caller at the end of its tenant's line. The mutex is held.
func (q *Queue) join(name string) (*waiter, error) {
	t := q.tenants[name]
	callers := 0
	if t != nil {
		callers = t.callers
	}
	if callers >= q.waiting {
		e := &Exceeded{Account: name, Quota: "waiting", Limit: int64(q.waiting), Used: int64(callers), Want: 1, RetryAfter: fullRetry}
		return nil, e.Wrap(fairOp)
	}
	if t == nil {
		t = q.enter(name)
	}
	w := &waiter{tenant: t, ready: make(chan struct{}), prev: t.last}
	if t.last != nil {
		t.last.next = w
	} else {
		t.first = w
	}
	t.last = w
	t.callers++
	q.line++
	return w, nil
}

// leave removes a caller that gave up. A slot that was handed to it at the same
// moment goes to the next one.
func (q *Queue) leave(w *waiter) {
	q.mu.Lock()
	if w.tenant != nil {
		q.remove(w)
	}
	slot := w.slot
	q.mu.Unlock()
	if slot != nil {
		slot.Release()
	}
}

// handOn gives a returned slot to the next caller, unless there are too many
// slots. The mutex is held.
func (q *Queue) handOn() {
	if q.turn == nil || q.free < 0 {
		q.free++
		q.held--
		return
	}
	q.serve()
}

// serve gives a slot to the next caller; one must be waiting. The mutex is
// held.
func (q *Queue) serve() {
	t := q.turn
	if t.left == 0 {
		t.left = max(1, q.weight(t.name))
	}
	t.left--
	if t.left == 0 {
		q.turn = t.next
	}
	w := t.first
	q.remove(w)
	w.slot = &fairSlot{queue: q}
	close(w.ready)
}

// remove takes a caller out of its line, and its tenant out of the ring when it
// was the last one. The mutex is held.
func (q *Queue) remove(w *waiter) {
	t := w.tenant
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		t.first = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		t.last = w.prev
	}
	w.tenant, w.prev, w.next = nil, nil, nil
	t.callers--
	q.line--
	if t.callers == 0 {
		q.exit(t)
	}
}

// enter puts a tenant into the ring, as the last one to have its turn. The
// mutex is held.
func (q *Queue) enter(name string) *tenant {
	t := &tenant{name: name}
	q.tenants[name] = t
	if q.turn == nil {
		t.prev, t.next = t, t
		q.turn = t
		return t
	}
	t.prev, t.next = q.turn.prev, q.turn
	t.prev.next, t.next.prev = t, t
	return t
}

// exit takes a tenant out of the ring. The mutex is held.
func (q *Queue) exit(t *tenant) {
	delete(q.tenants, t.name)
	if t.next == t {
		q.turn = nil
		return
	}
	if q.turn == t {
		q.turn = t.next
	}
	t.prev.next, t.next.prev = t.next, t.prev
}

// gaveUp is the error about a caller whose ctx has ended.
func gaveUp(ctx context.Context) error {
	cause := context.Cause(ctx)
	if !errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	return &sandbox.Error{
		Code: sandbox.CodeTimeout, Op: fairOp, Retryable: true, Err: cause,
		Message: "the deadline came before the turn", Hint: "try again later, or allow for more time",
	}
}
