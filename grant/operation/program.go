// This file runs programs for operations of grants: with exactly the vetted
// arguments, without a shell, and with an environment that contains only the
// locations of programs and folders.
//
// The output of a program goes to the tool, so it counts as bytes in, and
// output is delivered up to the last byte that the budget has. Processor time
// is watched while the program runs, over all its processes. Any end of the
// operation ends the whole process tree.

package operation

import (
	"context"
	"errors"
	"path"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/grant/budget"
)

// NewProgramExecutor returns the executor of ProcExec in sb. Of env a program
// gets PATH, HOME, LANG and TMPDIR, where they are set, and no other variable.
// Folders of PATH that are not absolute are left out: they would refer to the
// workspace.
//
// An exit status other than 0 is a result, and so is an end at a limit of the
// sandbox. A program that is ended by the operation's own timeout is
// [sandbox.CodeTimeout], with its output until then and how it ended. A program
// that has used up its processor time is [sandbox.CodeBudgetExceeded], whether
// the meter or the sandbox detects it. A program that cannot be started is
// [sandbox.CodeExecution], as Start of a sandbox returns it. One that writes
// more than the profile allows is [sandbox.CodeCapabilityBlocked], and a budget
// that cannot be enforced here is [sandbox.CodeUnsupported], before anything
// runs where that is known.
func NewProgramExecutor(sb sandbox.Sandbox, env map[string]string) Executor {
	own := map[string]string{}
	for _, name := range []string{"PATH", "HOME", "LANG", "TMPDIR"} {
		if v, ok := env[name]; ok {
			own[name] = v
		}
	}
	if list, ok := own["PATH"]; ok {
		own["PATH"] = absolute(list)
	}
	return &executor{sb: sb, env: own}
}

type executor struct {
	sb  sandbox.Sandbox
	env map[string]string
}

// absolute returns the folders of a PATH that are absolute.
func absolute(list string) string {
	var kept []string
	for folder := range strings.SplitSeq(list, ":") {
		if path.IsAbs(folder) {
			kept = append(kept, folder)
		}
	}
	return strings.Join(kept, ":")
}

// errTimeout is the cause of the end by the operation's own timeout.
var errTimeout = errors.New("the timeout of the operation")

// Execute implements [operation.Executor].
func (x *executor) Execute(ctx context.Context, c *Call, v grant.Vetted) (Output, error) {
	if v.Kind != grant.OpProcExec {
		return Output{}, sandbox.Errorf(sandbox.CodeInternal, "execute", "%s is no operation of programs", v.Kind)
	}
	profile := c.Guard.Profile()
	if err := holdable(profile.Budget); err != nil {
		return Output{}, err
	}
	if ctx.Err() != nil {
		return Output{}, stopped(ctx)
	}
	r := newRun(ctx, c, v, profile.Limits.MaxBytesIn)
	defer r.end()
	if err := c.Meter.Watch(budget.CPUMs, r.clock.used); err != nil {
		return Output{}, err
	}
	p, err := x.sb.Start(r.ctx, sandbox.Command{
		Args: append([]string{v.Tool}, v.Args...), Env: x.env, Bare: true, Dir: profile.Mappings.Root,
		Stdout: r.stdout, Stderr: r.stderr, Limits: sandbox.Limits{CPUSeconds: secondLine(profile.Budget)},
	})
	if err != nil {
		return r.notStarted(err)
	}
	if !r.clock.watch(p) {
		r.stop(budget.Unmetered(budget.CPUMs))
	}
	exit, err := p.Wait()
	return r.ended(exit, err)
}

// holdable refuses budgets of kinds that cannot be measured: no source reports
// how long a program has used a GPU.
func holdable(b budget.Amount) error {
	return budget.CheckMetered(b, budget.Calls, budget.BytesIn, budget.BytesOut, budget.CPUMs, budget.Files, budget.WallMs)
}

// secondLine is the limit of processor time, in seconds, that the guest
// enforces by itself. It is above the budget, so that the meter always acts
// first; it applies while this process is stopped and cannot look. When this
// process ends, the guest ends everything anyway.
func secondLine(b budget.Amount) int64 {
	if b.CPUMs == budget.Unlimited {
		return 0
	}
	return b.CPUMs/1000 + 2
}

// A programRun is one program from its start to its end.
type programRun struct {
	call    *Call
	vetted  grant.Vetted
	ctx     context.Context
	stop    context.CancelCauseFunc
	release []func()

	clock          *clock
	stdout, stderr *output
}

func newRun(ctx context.Context, c *Call, v grant.Vetted, most int64) *programRun {
	r := &programRun{call: c, vetted: v, clock: &clock{}}
	if c.Space != nil {
		var done context.CancelFunc
		ctx, done = c.Space.Watch(ctx)
		r.release = append(r.release, done)
	}
	if v.Timeout > 0 {
		var done context.CancelFunc
		ctx, done = context.WithTimeoutCause(ctx, v.Timeout, errTimeout)
		r.release = append(r.release, done)
	}
	r.ctx, r.stop = context.WithCancelCause(ctx)
	both := &room{left: most, over: func() { r.stop(tooMuch(v.Tool, most)) }}
	r.stdout = newOutput(c.Meter, both, c.Keep)
	r.stderr = newOutput(c.Meter, both, c.Keep)
	return r
}

// end releases the resources of the run, when none of its processes runs any
// more.
func (r *programRun) end() {
	r.stop(nil)
	for _, done := range r.release {
		done()
	}
}

// notStarted returns why there is no program. Where it is not certain that there
// never was one, a side effect is noted.
func (r *programRun) notStarted(err error) (Output, error) {
	if r.ctx.Err() != nil {
		err = stopped(r.ctx)
	}
	switch sandbox.CodeOf(err) {
	case sandbox.CodeExecution, sandbox.CodeValidation, sandbox.CodeUnsupported, sandbox.CodeNotFound:
	default:
		r.call.Effect(evidence.Effect{Kind: grant.EffectProcess, Program: r.vetted.Tool})
	}
	return Output{}, known(err)
}

// ended returns what the program came to.
func (r *programRun) ended(exit sandbox.Exit, err error) (Output, error) {
	out := Output{Data: r.stdout.kept, Digest: r.stdout.hash.Digest()}
	effect := evidence.Effect{Kind: grant.EffectProcess, Program: r.vetted.Tool, Digest: out.Digest}
	stderr := r.stderr.hash.Digest()
	effect.BytesIn = out.Digest.Size + stderr.Size
	out.Truncated = effect.BytesIn > int64(len(r.stdout.kept)+len(r.stderr.kept))
	timedOut := context.Cause(r.ctx) == errTimeout
	if err == nil {
		code := exit.Code
		effect.ExitCode = &code
		out.Exit = &Exit{
			Code: exit.Code, Signal: exit.Signal, TimedOut: timedOut, Limit: exit.Limit, Stderr: r.stderr.kept, StderrDigest: stderr,
		}
	}
	r.call.Effect(effect)
	switch {
	case timedOut:
		return out, programLate(r.vetted)
	case r.ctx.Err() != nil:
		return out, stopped(r.ctx)
	case err != nil:
		return out, known(err)
	case ofSecondLine(exit.Limit, r.call.Guard.Profile().Budget):
		return out, usedUp(r.vetted.Tool)
	}
	return out, nil
}

// ofSecondLine reports whether the limit that was reached is the one that the
// guest enforces above the budget.
func ofSecondLine(hit *sandbox.LimitHit, b budget.Amount) bool {
	return hit != nil && hit.Limit == sandbox.LimitCPUSeconds && hit.Bound == secondLine(b)
}

// usedUp is the end at a budget that the meter did not see in time.
func usedUp(program string) error {
	return &sandbox.Error{
		Code: sandbox.CodeBudgetExceeded, Op: "execute", Field: "budget.cpuMs", Resource: program,
		Message: "the program has used more cpuMs than its budget has, and was ended", Hint: "ask for a larger budget",
	}
}

// programLate is the end by the operation's own timeout.
func programLate(v grant.Vetted) error {
	return &sandbox.Error{
		Code: sandbox.CodeTimeout, Op: "execute", Field: "op.timeout", Resource: v.Tool, Retryable: true,
		Message: "the program was ended after the " + v.Timeout.String() + " that it was given", Hint: "allow more time, or have it do less",
	}
}

// stopped returns the cause of a context's end as a *sandbox.Error.
func stopped(ctx context.Context) error {
	cause := context.Cause(ctx)
	var e *sandbox.Error
	switch {
	case errors.Is(cause, &sandbox.Error{Code: sandbox.CodeUnsupported}):
		return budget.Unmetered(budget.CPUMs) // the clock said so, to the meter
	case errors.As(cause, &e):
		return cause
	case cause == errTimeout, errors.Is(cause, context.DeadlineExceeded):
		return &sandbox.Error{Code: sandbox.CodeTimeout, Op: "execute", Message: "the program was ended at its time limit", Err: cause}
	}
	return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "execute", Message: "the caller has given up, and the program was ended", Err: cause}
}

// known returns every error as a *sandbox.Error.
func known(err error) error {
	var e *sandbox.Error
	if errors.As(err, &e) {
		return err
	}
	return &sandbox.Error{Code: sandbox.CodeExecution, Op: "execute", Message: "the program could not be run", Err: err}
}
