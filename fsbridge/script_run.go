package fsbridge

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// A call is one script with its arguments.
type call struct {
	op, path string // for errors
	script   string
	args     []string
	stdin    io.Reader
	stdout   io.Writer
	grace    time.Duration

	complaints *tail // receives stderr when not nil
}

// run runs c to its end. A nil result means that the script has succeeded,
// also when ctx ended at the same moment.
func (f *scriptFiles) run(ctx context.Context, c call) error {
	_, err := f.runExit(ctx, c)
	return err
}

// runExit is like run and also reports whether the script ended by itself,
// that is, whether it has cleaned up.
func (f *scriptFiles) runExit(ctx context.Context, c call) (byItself bool, err error) {
	if ctx.Err() != nil {
		return true, gaveUp(ctx, c)
	}
	stderr := c.complaints
	if stderr == nil {
		stderr = &tail{}
	}
	p, err := f.starter.Start(ctx, sandbox.Command{
		Args:  argv(f.mode()+c.script, c.args),
		Dir:   "/",
		Stdin: c.stdin, Stdout: c.stdout, Stderr: stderr,
		Grace: c.grace,
	})
	if err != nil {
		return false, broken(ctx, c, err)
	}
	exit, err := p.Wait()
	switch {
	case err != nil:
		return false, broken(ctx, c, err)
	case exit.Code == 0:
		return true, nil
	case ctx.Err() != nil:
		return false, gaveUp(ctx, c)
	}
	return exit.Signal == "" && exit.Code < 128, explain(c, exit, stderr.String())
}

// broken is the error of a command that could not be run. A sandbox that is
// gone must not look like a file that is not there, so that code is changed.
func broken(ctx context.Context, c call, err error) error {
	if ctx.Err() != nil {
		return gaveUp(ctx, c)
	}
	if code := sandbox.CodeOf(err); code != sandbox.CodeNotFound && code != sandbox.CodeInternal {
		return err
	}
	return &sandbox.Error{
		Code: sandbox.CodeUnavailable, Op: c.op, Resource: termsafe.Line(c.path),
		Message: "the file script could not be run", Hint: "see whether the sandbox still exists and its image has sh", Err: err,
	}
}

func gaveUp(ctx context.Context, c call) error {
	code := sandbox.CodeUnavailable
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		code = sandbox.CodeTimeout
	}
	return &sandbox.Error{
		Code: code, Op: c.op, Resource: termsafe.Line(c.path),
		Message: "gave up", Retryable: true, Err: errors.Join(ctx.Err(), causeBeyond(ctx)),
	}
}

// causeBeyond is the cause of ctx's end where it says more than ctx.Err.
func causeBeyond(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != ctx.Err() {
		return cause
	}
	return nil
}

// confused is the error for an answer that no script of ours gives.
func confused(op, path, message string) error {
	return &sandbox.Error{
		Code: sandbox.CodeUnavailable, Op: op, Resource: termsafe.Line(path),
		Message: message, Hint: "the sandbox's shell or utilities do not work as they should; recreate it",
	}
}

// safeText makes what a sandbox said fit for people.
func safeText(s string) string {
	const most = 400
	if len(s) > most {
		s = s[len(s)-most:]
	}
	return termsafe.Line(s)
}
