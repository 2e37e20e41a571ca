package manager

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/grant/budget"
	"github.com/bulkhead-dev/sandbox/policy/gate"
	"github.com/bulkhead-dev/sandbox/registry"
)

// errTimeLimit is the cause of a context that ends at the command's limit.
var errTimeLimit = errors.New("time limit of the command")

// Run carries out a request: judge, resolve, ensure, run, record. An error
// means that the command was refused or the sandbox failed; a command that
// fails or runs out of time is an Outcome.
func (m *Manager) Run(ctx context.Context, req Request) (Outcome, error) {
	var out Outcome
	if req.Command.AsOf.IsZero() {
		req.Command.AsOf = time.Now()
	}
	if err := checkServices(req.Services); err != nil {
		return out, err
	}
	err := m.pipeline(req, callOf(req)).run(ctx, func(l *acquired) (err error) {
		stop, err := m.startServices(ctx, l, &req)
		if err != nil {
			return err
		}
		defer stop()
		report := reporting(ctx, l, req)
		out, err = m.executor.runAsking(ctx, l, req)
		report.end(ctx, &out)
		copied, lost := m.copyOut(context.WithoutCancel(ctx), l, req)
		if out.CopiedOut = copied; out.Report != nil {
			out.Report.CopiedOut = copied
		}
		return errors.Join(err, lost)
	})
	return out, err
}

// WithSandbox makes the sandbox of a request ready as Run does and calls fn with it
// and its Spec instead of running the command. The sandbox is leased until fn
// returns; fn must not close it. For a session that runs without a sandbox,
// WithSandbox returns [sandbox.CodeCapabilityBlocked].
//
// Commands that fn runs are not judged, so WithSandbox is for tests of the isolation
// itself; commands of an agent go through Run, Shell and Capture.
func (m *Manager) WithSandbox(ctx context.Context, req Request, fn func(sandbox.Sandbox, sandbox.Spec) error) error {
	return m.pipeline(req, gate.Call{Tool: req.Tool}).run(ctx, func(l *acquired) error {
		if err := l.spent.only(budget.Calls, budget.WallMs); err != nil {
			return err
		}
		if l.want.gate.Place != Sandboxed {
			return &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Op: "lend", Field: l.want.gate.Field, Message: "this session has no sandbox: " + l.want.gate.Reason}
		}
		return fn(l.Sandbox, l.spec)
	})
}

// run executes the command and records what was stopped of it.
func (x *executor) run(ctx context.Context, live *acquired, req Request) (Outcome, error) {
	ctx, span := sandbox.StartSpan(ctx, spanExec)
	out, err := x.execute(ctx, live, req)
	traceExecuted(span, live, out, err)
	x.tellStopped(ctx, live, req, out)
	return out, err
}

// execute starts the command in the live sandbox and waits for its end.
func (x *executor) execute(ctx context.Context, live *acquired, req Request) (Outcome, error) {
	out := Outcome{Name: live.name(), Created: live.created, Claimed: live.claimed, Miss: live.miss, Warnings: live.want.warned}
	ctx, done := live.spent.within(ctx)
	defer done()
	release, err := x.turn(ctx, live)
	if err != nil {
		return out, err
	}
	defer release()
	limit := req.Timeout
	if limit <= 0 {
		limit = live.spec.Limits.Timeout
	}
	if limit > 0 {
		var done context.CancelFunc
		ctx, done = context.WithTimeoutCause(ctx, limit, errTimeLimit)
		defer done()
	}
	start := x.m.now()
	exit, err := x.depart(ctx, live, &req)
	if err != nil {
		return out, x.timeLimit(ctx, live, &out, limit, err)
	}
	defer exit.end()
	watch, command := lookOut(live, req)
	live.seen.hear(&command)
	run, err := live.spent.command(live, &command)
	if err != nil {
		return out, err
	}
	proc, err := exit.start(ctx, command)
	if err != nil {
		out.Duration = x.m.now().Sub(start)
		return out, x.timeLimit(ctx, live, &out, limit, err)
	}
	run.runs(proc)
	if req.Started != nil {
		req.Started(proc)
	}
	out.Exit, err = proc.Wait()
	live.seen.saw(req.program(), out.Exit)
	out.Duration = x.m.now().Sub(start)
	out.Waited = exit.waited()
	watch.refused, out.Answers = exit.end(), exit.asked()
	if a, ok := exit.(*alone); ok && a.caller != nil {
		out.reached = a.Reached()
	}
	watch.judge(proc, &out, x.m.now(), err == nil && ctx.Err() == nil)
	switch {
	case errors.Is(context.Cause(ctx), errTimeLimit):
		out.TimedOut, out.Exit.Limit = true, sandbox.TimeHit(out.Duration, limit)
		live.counted.timedOut()
		live.seen.aborted(sandbox.CodeTimeout, out.Exit.Limit.String())
		return out, nil
	case ctx.Err() != nil:
		live.seen.aborted(sandbox.CodeExecution, "the caller gave up")
		return out, &sandbox.Error{Code: sandbox.CodeExecution, Op: "run", Resource: live.name(), Message: "the command was ended because the caller gave up", Err: ctx.Err()}
	}
	return out, err
}

// timeLimit turns an error that came from the command's own limit into an outcome.
func (x *executor) timeLimit(ctx context.Context, live *acquired, out *Outcome, limit time.Duration, err error) error {
	if errors.Is(context.Cause(ctx), errTimeLimit) {
		out.TimedOut, out.Exit.Limit = true, sandbox.TimeHit(out.Duration, limit)
		live.counted.timedOut()
		live.seen.aborted(sandbox.CodeTimeout, out.Exit.Limit.String())
		return nil
	}
	return err
}

// record notes that the sandbox was used just now, unless what is on record says
// so: it was read or written when the call acquired the sandbox, and the
// lease has kept others from freezing it since. A failure is logged: the
// command has run, and its result stands.
func (b *builder) record(l *acquired) {
	if l.handle != nil {
		if last := l.handle.used.Load(); last != nil && registry.Recent(*last, b.m.now()) {
			return
		}
	}
	if err := b.m.records.Of(l.provider.Name()).Touch(l.spec.Kind, l.name(), b.m.now()); err != nil && !sandbox.IsNotFound(err) {
		b.m.log.WithError(err).WithField("sandbox", l.name()).Warn("cannot note the last use")
	}
}

// exists returns an error if there is no sandbox for a request, before anything
// is made for it: neither an image nor a folder nor a user id. An open
// connection to the guest says that there is one; otherwise the provider is asked.
func (b *builder) exists(ctx context.Context, res config.Resolved, o outing) error {
	name, err := config.Name(res.Docker.ContainerPrefix, b.m.describer.owner(res))
	if err != nil {
		return err
	}
	at, err := b.m.gates.enter(ctx, res, o, observe)
	if err != nil || at.gate.Place != Sandboxed {
		return err // resolve decides what then
	}
	if b.m.handles.connected(at.provider.Name(), name) {
		return nil
	}
	if _, err = at.provider.Inspect(ctx, name); sandbox.IsNotFound(err) {
		return noSandbox(sandbox.KindSandbox, name)
	}
	return err
}

// discard removes the sandbox that a request made for itself alone, with its
// scratch workspace, in one turn, so that no other call can come in between. It
// leaves a sandbox that another call uses meanwhile.
func (b *builder) discard(ctx context.Context, l *acquired) error {
	ctx, done := context.WithTimeout(ctx, 60*time.Second)
	defer done()
	turn, err := b.m.locksOf(l.provider.Name()).Ensure(ctx, l.name())
	if err != nil {
		return err
	}
	defer turn.Release()
	if err := b.removeLocked(ctx, l.provider, l.spec.Kind, l.name()); err != nil {
		return fmt.Errorf("remove after the command: %w", err)
	}
	if _, view := viewOf(l.spec); !l.scratch && !view {
		return nil
	}
	_, err = b.m.pruner.removeScratch(ctx, l.spec.Owner.Agent, l.name(), workspaceOf(l.spec))
	return err
}
