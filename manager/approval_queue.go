// This file carries questions about permissions from those who are
// stopped to those who may decide.
//
// An [ApprovalQueue] is a [sandbox.Approver]: a stopped call waits there for an
// answer. It asks a front of its own, such as a prompt on a terminal, and
// lists what waits, so that other fronts (HTTP, MCP) can answer as well; the
// first answer counts. Equal questions that wait at the same time are one
// question. Whatever goes wrong is [sandbox.Deny]: an error, the end of the
// time, too many questions, an answer that is none.

package manager

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// ApprovalQueueOptions are the bounds of an [ApprovalQueue]. The zero value
// means the defaults.
type ApprovalQueueOptions struct {
	// Front is asked about every question. If it is nil, the answer comes
	// through [ApprovalQueue.Answer] alone.
	Front sandbox.Approver
	// Within bounds how long a question waits; zero is 5 minutes. A request
	// that expires earlier waits until then.
	Within time.Duration
	// Burst is how many questions of one tenant are asked at once at most,
	// and PerMinute how many more each minute; zero is 20 and 20. What an
	// agent does decides about questions, so a person must not drown in them.
	Burst, PerMinute int
	// Waiting bounds the questions of one tenant that wait; zero is 50.
	Waiting int
	Now     func() time.Time // nil is time.Now
}

// An ApprovalQueue holds questions until they are answered. It is safe for
// concurrent use.
type ApprovalQueue struct {
	o ApprovalQueueOptions

	mu      sync.Mutex
	waiting map[string]*pendingQuestion // by the request's id
	budgets map[string]*askBudget       // by tenant
}

// A question is one request, or several equal ones, that waits.
type pendingQuestion struct {
	request sandbox.PermissionRequest
	callers int // guarded by ApprovalQueue.mu
	cancel  context.CancelFunc

	done   chan struct{}
	answer sandbox.Permission // valid after done
	err    error              // valid after done; why it is Deny
}

// NewApprovalQueue returns a queue without questions.
func NewApprovalQueue(o ApprovalQueueOptions) *ApprovalQueue {
	def := func(n *int, usual int) {
		if *n == 0 {
			*n = usual
		}
	}
	def(&o.Burst, 20)
	def(&o.PerMinute, 20)
	def(&o.Waiting, 50)
	if o.Within == 0 {
		o.Within = 5 * time.Minute
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &ApprovalQueue{o: o, waiting: map[string]*pendingQuestion{}, budgets: map[string]*askBudget{}}
}

var _ sandbox.Approver = (*ApprovalQueue)(nil)

// Approve implements [sandbox.Approver]. It returns when there is an answer, at
// the request's expiry, or at the end of ctx. An error always comes with
// [sandbox.Deny] and says why there was no decision. Approve fills in an empty
// ID and expiry.
//
// Callers with equal requests share one question and its answer: the same
// command of the same session that is stopped at the same thing.
func (d *ApprovalQueue) Approve(ctx context.Context, r sandbox.PermissionRequest) (sandbox.Permission, error) {
	q, err := d.join(ctx, r)
	if err != nil {
		return sandbox.Deny, err
	}
	defer d.leave(q)
	select {
	case <-q.done:
		return q.answer, q.err
	case <-ctx.Done():
		return sandbox.Deny, refuse(sandbox.CodeTimeout, r, "the caller does not wait for the answer any more", ctx.Err())
	}
}

// join finds the question that equals r, or makes one.
func (d *ApprovalQueue) join(ctx context.Context, r sandbox.PermissionRequest) (*pendingQuestion, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now, mine := d.o.Now(), 0
	for _, q := range d.waiting {
		if equal(q.request, r) {
			q.callers++
			return q, nil
		}
		if q.request.Tenant == r.Tenant {
			mine++
		}
	}
	latest := now.Add(d.o.Within)
	switch {
	case r.Expires.IsZero() || r.Expires.After(latest):
		r.Expires = latest
	case !r.Expires.After(now):
		return nil, refuse(sandbox.CodeTimeout, r, "the question has expired", nil)
	}
	if mine >= d.o.Waiting || !d.budget(r.Tenant, now).take(now, d.o) {
		return nil, refuse(sandbox.CodeBudgetExceeded, r, "too many questions were asked", nil)
	}
	if r.ID == "" {
		r.ID = newID()
	}
	if d.waiting[r.ID] != nil {
		return nil, refuse(sandbox.CodeValidation, r, "another question has this id", nil)
	}
	q := &pendingQuestion{request: clone(r), callers: 1, done: make(chan struct{})}
	// The question is not the first caller's alone, so it does not end with
	// that one's context.
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.Expires.Sub(now))
	q.cancel = cancel
	d.waiting[r.ID] = q
	go d.ask(asking, q)
	return q, nil
}

// ask asks the front and waits for whatever comes first.
func (d *ApprovalQueue) ask(ctx context.Context, q *pendingQuestion) {
	defer q.cancel()
	type reply struct {
		answer sandbox.Permission
		err    error
	}
	replies := make(chan reply, 1)
	if d.o.Front != nil {
		go func() {
			answer, err := d.o.Front.Approve(ctx, clone(q.request))
			replies <- reply{answer, err}
		}()
	}
	select {
	case r := <-replies:
		if r.err == nil && ctx.Err() != nil {
			r.err = refuse(sandbox.CodeTimeout, q.request, "the answer came too late", ctx.Err())
		}
		d.settle(q, r.answer, r.err)
	case <-q.done:
	case <-ctx.Done():
		d.settle(q, sandbox.Deny, refuse(sandbox.CodeTimeout, q.request, "no answer came in time", ctx.Err()))
	}
}

// settle gives q its answer unless it has one, and reports whether it did.
func (d *ApprovalQueue) settle(q *pendingQuestion, answer sandbox.Permission, err error) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiting[q.request.ID] != q {
		return false
	}
	delete(d.waiting, q.request.ID)
	switch {
	case err != nil:
		answer = sandbox.Deny
	case !valid(answer):
		answer, err = sandbox.Deny, refuse(sandbox.CodeValidation, q.request, "the answer is none of the four", nil)
	}
	q.answer, q.err = answer, err
	close(q.done)
	return true
}

// leave removes one caller. A question without callers is dropped.
func (d *ApprovalQueue) leave(q *pendingQuestion) {
	d.mu.Lock()
	q.callers--
	last := q.callers == 0
	if last && d.waiting[q.request.ID] == q {
		delete(d.waiting, q.request.ID)
	}
	d.mu.Unlock()
	if last {
		q.cancel()
	}
}

// Pending lists what waits of one tenant, what expires first in front.
func (d *ApprovalQueue) Pending(tenant string) []sandbox.PermissionRequest {
	return d.pending(func(of string) bool { return of == tenant })
}

// PendingAll is Pending for every tenant.
func (d *ApprovalQueue) PendingAll() []sandbox.PermissionRequest {
	return d.pending(func(string) bool { return true })
}

func (d *ApprovalQueue) pending(wanted func(tenant string) bool) []sandbox.PermissionRequest {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := []sandbox.PermissionRequest{}
	for _, q := range d.waiting {
		if wanted(q.request.Tenant) {
			out = append(out, clone(q.request))
		}
	}
	slices.SortFunc(out, func(a, b sandbox.PermissionRequest) int {
		return cmp.Or(a.Expires.Compare(b.Expires), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// Answer answers the question id of a tenant. One that does not wait any
// more, or is another tenant's, is [sandbox.CodeNotFound]; an answer that is
// none of the four is [sandbox.CodeValidation] and leaves the question open.
func (d *ApprovalQueue) Answer(tenant, id string, p sandbox.Permission) error {
	if !valid(p) {
		e := refuse(sandbox.CodeValidation, sandbox.PermissionRequest{}, "the answer is none of the four", nil)
		e.Field, e.Hint = "permission", "answer allow_once, allow_session, allow_permanent or deny"
		return e
	}
	d.mu.Lock()
	q := d.waiting[id]
	d.mu.Unlock()
	if q == nil || q.request.Tenant != tenant || !d.settle(q, p, nil) {
		return &sandbox.Error{Code: sandbox.CodeNotFound, Op: "answer", Resource: id, Message: "no such question waits for an answer"}
	}
	return nil
}

func valid(p sandbox.Permission) bool {
	return p == sandbox.AllowOnce || p == sandbox.AllowSession || p == sandbox.AllowPermanent || p == sandbox.Deny
}

// equal reports whether two requests ask the same for the same run.
func equal(a, b sandbox.PermissionRequest) bool {
	return a.Tenant == b.Tenant && a.Agent == b.Agent && a.Session == b.Session && a.Sandbox == b.Sandbox &&
		a.Kind == b.Kind && a.Operation == b.Operation && a.Resource == b.Resource && slices.Equal(a.Command, b.Command)
}

func clone(r sandbox.PermissionRequest) sandbox.PermissionRequest {
	r.Command = slices.Clone(r.Command)
	return r
}

func refuse(code sandbox.Code, r sandbox.PermissionRequest, message string, cause error) *sandbox.Error {
	return &sandbox.Error{Code: code, Op: "ask for permission", Resource: r.Resource, Message: message + ", so it is denied", Err: cause}
}
