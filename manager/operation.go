package manager

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/grant/budget"
	"github.com/bulkhead-dev/sandbox/grant/operation"
	"github.com/bulkhead-dev/sandbox/grant/store"
	"github.com/bulkhead-dev/sandbox/policy/gate"
)

// DefaultKeep is how many bytes of an output are returned when the request sets
// no number.
const DefaultKeep = 64 << 10

// MaxKeep bounds what can be handed back of one output, in bytes.
const MaxKeep = 16 << 20

// An Operation is one thing that a tool wants done, and the grant for it.
type Operation struct {
	Grant grant.Grant
	// Line are the grants that Grant was derived from: its parent first, up to
	// one that was not derived.
	Line     []grant.Grant
	Manifest grant.Manifest
	Do       grant.Operation
	Keep     int64 // bytes of the output that are handed back; 0 is DefaultKeep

	RequestID   string // of who called, for the record
	TraceParent string // of who called, for the record
}

// A Performed is what became of an operation. It may be shown to who called:
// Code and Message say no more than [grant.Public].
type Performed struct {
	ID        string       `json:"id"` // in the evidence
	OK        bool         `json:"ok"`
	Code      sandbox.Code `json:"code,omitempty"`
	Field     string       `json:"field,omitempty"` // of what was handed in, where it is malformed
	Message   string       `json:"message,omitempty"`
	Retryable bool         `json:"retryable,omitempty"`

	Output   operation.Output `json:"output"`
	Used     grant.Budget     `json:"used"`
	Duration time.Duration    `json:"durationNs"`

	Profile string `json:"profileHash,omitempty"`
	Sandbox string `json:"sandbox,omitempty"` // its name, where one was needed
}

// An order is an operation on its way through the chain.
type order struct {
	m    *Manager
	c    *Control
	id   string // in the evidence
	req  Operation
	who  config.Who
	call *call

	steps  *pipeline
	payer  Payer // beside the accounts of grants and settings
	guard  *grant.Guard
	vetted grant.Vetted
	start  time.Time
}

// Operate carries out one operation under a grant:
//
//	settings → profile → judge → evidence → budget → sandbox → executor → evidence
//
// Begin and end of it are on record, also where it is refused; refusals that
// come too fast are counted there, see package evidence. The error has every
// detail, for the operator; [Performed] says of it what the caller may see.
//
// Operate does not verify the grant: the caller has to know that it was given.
func (m *Manager) Operate(ctx context.Context, req Operation) (Performed, error) {
	if m.control == nil {
		return shown(Performed{}, errNoControl()), errNoControl()
	}
	c, err := m.control()
	if err != nil {
		return shown(Performed{}, err), err
	}
	m.calls.sweepIfDue(c)
	o := &order{m: m, c: c, id: newID(), req: req, who: whoOf(req.Grant), start: m.now()}
	o.req.Do.Args, o.req.Do.Header = slices.Clone(req.Do.Args), maps.Clone(req.Do.Header)
	done, err := o.carryOn(ctx)
	o.observe(func(w operation.Observer) { w.Ended(o.measured(done, err)) })
	return done.Performed, err
}

// carryOn is run, and gives the place among the operations of the call back,
// also where something panics.
func (o *order) carryOn(ctx context.Context) (metered, error) {
	defer o.leave()
	return o.run(ctx)
}

// run is the chain.
func (o *order) run(ctx context.Context) (metered, error) {
	if err := gaveUp(ctx, o.admit(ctx)); err != nil {
		return o.refuse(ctx, err)
	}
	require := o.steps.res.RequireEvidence
	entry, err := o.c.Recorder.Begin(ctx, o.beginning(), require)
	if err = gaveUp(ctx, err); err != nil {
		return metered{Performed: o.finish(Performed{}, err)}, err
	}
	done, err := o.meter(ctx)
	err = gaveUp(ctx, err)
	done.Performed = o.finish(done.Performed, err)
	if lost := entry.End(ctx, o.ending(done, err)); lost != nil && require && err == nil {
		done.Performed = o.finish(done.Performed, lost)
		err = lost
	}
	return done, err
}

// admit judges the operation by grant, manifest and settings as they are now.
func (o *order) admit(ctx context.Context) error {
	o.steps = o.m.pipeline(o.request(), gate.Call{})
	if err := validWho(o.who); err != nil {
		return err
	}
	err := o.steps.configure(ctx)
	if err != nil {
		return err
	}
	if o.call, err = o.m.calls.enter(ctx, o); err != nil {
		return err
	}
	if o.guard, err = o.profile(); err != nil {
		return err
	}
	state, err := o.state()
	if err != nil {
		return err
	}
	began := time.Now()
	o.steps.ruling, err = o.m.gates.judge(ctx, o.steps.settings, o.steps.res, o.steps.req, o.asked(state))
	o.observe(func(w operation.Observer) { w.Validated(time.Since(began)) })
	if err != nil {
		return err
	}
	if o.payer, err = o.m.payer(ctx); err != nil {
		return err
	}
	if err := o.call.affords(ctx, o.payer); err != nil {
		return err
	}
	o.vetted = o.steps.ruling.judged.Vetted
	return nil
}

// asked is what the gate is asked.
func (o *order) asked(s grant.State) gate.Call {
	c := gate.Call{Tool: o.req.Grant.Tool, Operation: &gate.Operation{Guard: o.guard, Do: o.req.Do, State: s}}
	c.Args = o.steps.req.Command.Args
	return c
}

// request is the order in the words of the rest of the chain.
func (o *order) request() Request {
	req := Request{Who: o.who, Tool: o.req.Grant.Tool}
	if o.req.Do.Kind == grant.OpProcExec && o.req.Do.Tool != "" {
		req.Command.Args = append([]string{o.req.Do.Tool}, o.req.Do.Args...)
	}
	return req
}

// state is what the guard has to know of the call.
func (o *order) state() (grant.State, error) {
	g := &o.req.Grant
	s := o.call.state(o.m.now(), o.writes())
	var err error
	if s.Revoked, err = store.Revoked(o.c.Revocations, *g); err != nil {
		return s, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "operate", Field: "grant", Resource: g.ID, Retryable: true,
			Message: "it is not known whether the grant was revoked, so it counts as revoked", Err: err}
	}
	if s.Revoked { // and may not use a decision up
		return s, nil
	}
	if s.KeyUsedBy, err = o.c.Keys.Use(g.Tenant, g.DecisionKey, g.Call, g.Expires); err != nil {
		return s, err
	}
	return s, nil
}

// A metered is what an operation came to, with what is for the record alone.
type metered struct {
	Performed
	effects []evidence.Effect
	more    int
	begun   bool // something was carried out, or may have been
}

// meter reserves the budget, and carries the operation out while it lasts and
// the grant is good.
func (o *order) meter(ctx context.Context) (metered, error) {
	if err := o.meterable(); err != nil {
		return metered{}, err
	}
	ctx, release := store.Context(ctx, o.c.Revocations, o.req.Grant)
	defer release()
	ctx, cancel := context.WithTimeoutCause(ctx, o.guard.Profile().Limits.Timeout, errOperationTime)
	defer cancel()
	if own := o.vetted.Timeout; own > 0 && !timesItself(o.vetted.Domain) {
		ctx, cancel = context.WithTimeoutCause(ctx, own, errOwnTime)
		defer cancel()
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(o.call.life, func() { end(context.Cause(o.call.life)) })()
	words := wordsOf(o.vetted.Operation)
	count, ctx, err := budget.Start(ctx, o.source(), budget.Add(budget.One(budget.Calls, 1), budget.One(budget.BytesOut, words)))
	if err != nil {
		o.call.short(err)
		return metered{}, err
	}
	call := &operation.Call{ID: o.id, Guard: o.guard, Meter: count, Keep: o.keep(), State: func() grant.State { return o.call.state(o.m.now(), o.writes()) }}
	call.Allowed = func(v grant.Vetted) error {
		return o.steps.ruling.gate.Allows(v, o.guard.Profile().Mappings.Root)
	}
	out, err := o.carry(ctx, call)
	err = o.cause(ctx, err)
	if o.vetted.Kind == grant.OpFsWrite && errors.Is(err, fs.ErrExist) && o.call.free() {
		count.Waive()
	}
	used, lost := count.End()
	if lost != nil {
		o.m.log.WithError(lost).WithField("grant", o.req.Grant.ID).Error("what an operation has used cannot be settled: all that was reserved stays charged")
	}
	done := metered{Performed: Performed{Output: out, Used: used}}
	done.effects, done.more = call.Effects()
	done.begun = len(done.effects) > 0 || used.BytesIn+used.BytesOut+used.Files > words
	o.call.count(used)
	return done, err
}

// source is what the operation draws from.
func (o *order) source() budget.Source {
	account, _ := o.call.payer()
	if o.payer.Source == nil {
		return account
	}
	return budget.All(account, o.payer.Source)
}

// errOperationTime is the cause of a context that ends at the time limit of
// the profile.
var errOperationTime = errors.New("time limit of the operation")

// errOwnTime is the cause of a context that ends at the timeout that the
// operation names itself.
var errOwnTime = errors.New("timeout of the operation")

// timesItself reports whether the executor of a domain holds the timeout that an
// operation names. A program, a request and a page have it for themselves, and
// the start of the sandbox or the browser does not count; files and temporary
// space have it for all of the operation.
func timesItself(d grant.Domain) bool { return d != grant.DomainFS && d != grant.DomainTmp }

// cause is why the operation was stopped, where it was, in the place of what
// its executor made of it.
func (o *order) cause(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	why := cmp.Or(context.Cause(ctx), o.call.ended())
	var e *sandbox.Error
	switch {
	case errors.As(why, &e):
		return why
	case errors.Is(why, errOperationTime) && vague(err):
		return &sandbox.Error{Code: sandbox.CodeTimeout, Op: "operate", Field: "profile.limits.timeout", Message: "the operation was stopped at its time limit", Hint: "ask for less at a time", Retryable: true, Err: err}
	case errors.Is(why, errOwnTime) && vague(err):
		return &sandbox.Error{Code: sandbox.CodeTimeout, Op: "operate", Field: "op.timeout", Message: "the operation was stopped after the time that it was given", Hint: "allow more time", Retryable: true, Err: err}
	}
	return err
}

// gaveUp says of an error that it comes from the end of the caller's context,
// where it does. What went wrong by itself keeps its error.
func gaveUp(ctx context.Context, err error) error {
	switch {
	case err == nil || ctx.Err() == nil || !vague(err):
		return err
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &sandbox.Error{Code: sandbox.CodeTimeout, Op: "operate", Message: "the operation was stopped at the caller's deadline", Retryable: true, Err: err}
	}
	return &sandbox.Error{Code: sandbox.CodeExecution, Op: "operate", Message: "the operation was stopped because the caller gave up", Err: err}
}

// vague reports whether an error says no more than that something did not
// come to its end.
func vague(err error) bool {
	var e *sandbox.Error
	return !errors.As(err, &e) || e.Code == sandbox.CodeTimeout || e.Code == sandbox.CodeUnavailable || e.Code == sandbox.CodeBusy
}

func (o *order) keep() int64 {
	if o.req.Keep <= 0 {
		return DefaultKeep
	}
	return min(o.req.Keep, MaxKeep)
}

// refuse records an operation that is not begun.
func (o *order) refuse(ctx context.Context, err error) (metered, error) {
	require := o.steps != nil && o.steps.res.RequireEvidence
	done := metered{Performed: o.finish(Performed{}, err)}
	if lost := o.c.Recorder.Refused(ctx, o.beginning(), o.ending(done, err), require); lost != nil {
		o.m.log.WithError(lost).Warn("a refusal is not on record")
	}
	return done, err
}

// finish is done with its end.
func (o *order) finish(done Performed, err error) Performed {
	done.ID, done.Duration = o.id, o.m.now().Sub(o.start)
	if o.guard != nil {
		done.Profile = o.guard.Profile().Hash
	}
	if needsSandbox(o.vetted.Domain) {
		done.Sandbox = o.steps.ruling.sandbox
	}
	return shown(done, err)
}

// shown is done with what may be said of err to who called.
func shown(done Performed, err error) Performed {
	v := grant.Public(err)
	done.OK, done.Code, done.Field, done.Message, done.Retryable = err == nil, v.Code, v.Field, v.Message, v.Retryable
	return done
}

// leave gives the place among the operations of the call back.
func (o *order) leave() {
	if o.call != nil {
		o.call.leave(o.writes())
	}
}

func (o *order) observe(tell func(operation.Observer)) {
	if o.c.Observe != nil {
		tell(o.c.Observe)
	}
}
