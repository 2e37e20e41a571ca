package manager

import (
	"context"
	"errors"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/policy/gate"
	"github.com/bulkhead-dev/sandbox/workspace/checkpoint"
)

// A pipeline carries one request through the steps that every call takes:
//
//	judge → resolve → ensure → run → record
//
// [Manager.Run], Capture, Shell, WithSandbox, Ready and the lines of shells are
// callers of [pipeline.run]. Files, Open and Operate put what they do on record
// in another way and call the same steps. A pipeline is used once, by one
// goroutine at a time.
type pipeline struct {
	m       *Manager
	req     Request
	asked   gate.Call
	counted *count // or nil

	settings *config.Settings   // by configure
	res      config.Resolved    // by configure
	ruling   *ruling            // by judge
	spent    *usage             // by judge; nil where the call is not charged
	entry    *auditEntry        // by record; nil where the call is not recorded
	want     *want              // by resolve
	from     *checkpoint.Record // that the sandbox begins with, by configure; nil is none
	sandbox  *acquired          // by ensure
	making   *sandbox.Span      // from resolve to ensure; nil where no trace is recorded
}

// pipeline returns the pipeline of a request. The gate decides about asked.
func (m *Manager) pipeline(req Request, asked gate.Call) *pipeline {
	return &pipeline{m: m, req: req, asked: asked}
}

// run carries the request out: use gets its sandbox while that is acquired.
// The record has a begin before the sandbox is made ready and an end, with the
// error of the call, after it is released.
func (p *pipeline) run(ctx context.Context, use func(*acquired) error) (err error) {
	p.counted = p.m.counting(p.req)
	defer func() { p.counted.end(err) }()
	if ctx, err = p.admit(ctx); err != nil {
		return err
	}
	if err = p.record(ctx); err == nil {
		err = p.entry.end(ctx, p.use(ctx, use))
	}
	return p.spent.end(err)
}

// use resolves the request, acquires its sandbox, calls fn with it, and
// releases it.
func (p *pipeline) use(ctx context.Context, fn func(*acquired) error) error {
	if err := p.resolve(ctx); err != nil {
		return err
	}
	if err := p.ensure(ctx); err != nil {
		return err
	}
	return p.release(ctx, p.spent.why(fn(p.sandbox)))
}

// admit judges the request and finds the account that is charged. It records a
// refusal. The returned context ends when a budget is used up.
func (p *pipeline) admit(ctx context.Context) (context.Context, error) {
	err := p.judge(ctx)
	if err == nil && p.req.Changes {
		err = p.ruling.gate.Changes()
	}
	if err == nil {
		p.spent, err = p.m.spend(ctx, firstOf(p.req))
	}
	if err != nil {
		p.refused(ctx, err)
		return ctx, err
	}
	return p.spent.context(ctx), nil
}

// judge finds the settings of the request and has the gate decide by them.
// With an error, the fields that were found until then are set.
func (p *pipeline) judge(ctx context.Context) error {
	ctx, span := sandbox.StartSpan(ctx, spanJudge)
	err := p.configure(ctx)
	if err == nil {
		p.ruling, err = p.m.gates.judge(ctx, p.settings, p.res, p.req, p.asked)
	}
	p.traceJudged(span, err)
	return err
}

// configure finds what the settings say about the request.
func (p *pipeline) configure(ctx context.Context) (err error) {
	if p.req.From != "" {
		if p.req, p.from, err = p.m.checkpoints.beginsWith(ctx, p.req); err != nil {
			return err
		}
	}
	if p.settings, err = p.m.currentOf(p.req.Who, p.req.Flags); err != nil {
		return err
	}
	if p.res, err = p.m.describer.resolved(p.settings, p.req.Who, p.req.Flags); err != nil {
		return err
	}
	if p.req.service {
		p.res = forService(p.res)
	}
	if err := sandbox.CheckEnv(p.req.Command.Env); err != nil {
		return err
	}
	if err := checkUser(p.req.User); err != nil {
		return err
	}
	if p.m.begin != nil {
		return p.m.begin(ctx, p.res, p.req)
	}
	return nil
}

// resolve finds where the request runs, obtains the permission that the gate
// asks for, and describes the sandbox.
func (p *pipeline) resolve(ctx context.Context) error {
	m := p.m
	if p.req.MustExist {
		if err := m.builder.exists(ctx, p.res, p.ruling.outing); err != nil {
			return err
		}
	}
	at, err := m.gates.enter(ctx, p.res, p.ruling.outing, effects)
	if err != nil {
		if p.req.Unsandboxed && at.gate.Place == Refused && at.gate.Reason != "" {
			m.reporter.tellEscape(ctx, p.ruling, at.gate)
		}
		return err
	}
	if err := m.approvals.consent(ctx, p.ruling, at.gate.Place == Sandboxed); err != nil {
		return err
	}
	ctx, p.making = sandbox.StartSpan(ctx, spanEnsure)
	if p.want, err = m.describer.resolve(ctx, p.settings, p.res, p.req.Flags, at, effects); err != nil {
		p.making.EndWith(err)
		return err
	}
	p.want.settings, p.want.warned = p.settings, p.ruling.judged.Warned()
	if p.from != nil {
		if p.want.from = p.from; at.gate.Place != Sandboxed {
			return &sandbox.Error{
				Code: sandbox.CodeUnsupported, Op: "run", Field: "from", Message: "the session runs without a sandbox, which begins with no checkpoint",
				Hint: "set mode to all",
			}
		}
	}
	if p.req.User != "" && at.gate.Place != Sandboxed {
		return &sandbox.Error{
			Code: sandbox.CodeUnsupported, Op: "run", Field: "user", Message: "the command runs without a sandbox, as the user of this program",
			Hint: "leave the user out",
		}
	}
	return sameUser(p.req.User, p.want.spec.UID, p.want.spec.GID)
}

// ensure makes the sandbox ready, or the workspace of a session without one,
// and acquires it. It removes first what is due to be pruned.
func (p *pipeline) ensure(ctx context.Context) (err error) {
	if p.making != nil {
		ctx = sandbox.WithSpan(ctx, p.making)
		defer func() { p.traceEnsured(err) }()
	}
	p.m.pruner.pruneIfDue(ctx, p.want)
	if p.want.gate.Place == Unsandboxed {
		p.sandbox, err = p.m.builder.openHost(ctx, p.want)
	} else {
		p.sandbox, err = p.m.builder.ensure(ctx, p.want, p.req.MustExist)
	}
	if err != nil {
		return err
	}
	l := p.sandbox
	if p.want.gate.Place == Sandboxed {
		l.rules = p.ruling.gate
	}
	l.spent, l.counted = p.spent, p.counted
	if err := p.recordParent(ctx); err != nil {
		l.close()
		return err
	}
	if !p.req.bare && p.want.gate.Place == Sandboxed && (len(p.req.Command.Args) > 0 || p.req.Changes) {
		if err := p.m.checkpoints.auto(ctx, l); err != nil {
			l.close()
			return err
		}
	}
	l.counted.ready()
	if p.entry != nil {
		l.seen = p.entry.seen
		l.seen.brought(l)
	}
	return nil
}

// release notes the last use of the sandbox and lets go of it. It removes the
// sandbox where the request says so. It returns err, the error of its use, with
// what went wrong besides.
func (p *pipeline) release(ctx context.Context, err error) error {
	m, l, sandboxed := p.m, p.sandbox, p.want.gate.Place == Sandboxed
	if lost := l.settled(); lost != nil {
		err = errors.Join(err, lost)
	}
	if sandboxed {
		m.builder.record(l)
		_, lost := m.copyOut(context.WithoutCancel(ctx), l, p.req)
		err = errors.Join(err, lost)
	}
	if !p.req.Remove {
		m.builder.noteView(ctx, l)
	}
	l.close()
	if !p.req.Remove {
		return err
	}
	m.grants.drop(l.spec.Owner)
	ctx = context.WithoutCancel(ctx)
	if sandboxed {
		return errors.Join(err, m.builder.discard(ctx, l))
	}
	if _, view := viewOf(l.spec); l.scratch || view {
		return errors.Join(err, m.pruner.removeUnused(ctx, l))
	}
	return err
}
