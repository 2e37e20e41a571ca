package manager

import (
	"bytes"
	"cmp"
	"context"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/violation"
	"github.com/bulkhead-dev/sandbox/policy/gate"
)

// Capture is Run for callers who want the output at the end: tools and remote
// ones. Of each stream limits.maxOutputBytes of the settings are kept, from
// its start, and the rest is counted. Stdout and Stderr of the request's
// command must be nil; it has no terminal.
//
// Stderr of the result tells of violations; see [violation.Annotate], and
// [violation.Strip] for showing it to people. Of a command that was run again
// it is the output of the last run.
func (m *Manager) Capture(ctx context.Context, req Request) (sandbox.Result, error) {
	return m.capture(ctx, req, callOf(req))
}

// CaptureLine is Capture for text that the sandbox's shell runs. The command of
// req has no arguments.
func (m *Manager) CaptureLine(ctx context.Context, req Request, line string) (sandbox.Result, error) {
	if len(req.Command.Args) > 0 {
		return sandbox.Result{}, &sandbox.Error{Code: sandbox.CodeValidation, Op: "capture", Field: "command", Message: "a line has no arguments"}
	}
	req.Command.Args = []string{"-c", line}
	req, call := shellCall(req, false)
	return m.capture(ctx, req, call)
}

func (m *Manager) capture(ctx context.Context, req Request, call gate.Call) (sandbox.Result, error) {
	if req.Command.Stdout != nil || req.Command.Stderr != nil || req.Command.TTY != nil {
		return sandbox.Result{}, &sandbox.Error{Code: sandbox.CodeValidation, Op: "capture", Field: "command", Message: "output that is captured cannot go elsewhere or to a terminal"}
	}
	var out Outcome
	var stdout, stderr captured
	err := m.pipeline(req, call).run(ctx, func(l *acquired) (err error) {
		stdout.limit, stderr.limit = l.spec.Limits.MaxOutputBytes, l.spec.Limits.MaxOutputBytes
		req.Command.Stdout, req.Command.Stderr = &stdout, &stderr
		again := req.Again
		req.Again = func() {
			stdout.reset()
			stderr.reset()
			if again != nil {
				again()
			}
		}
		out, err = m.executor.runAsking(ctx, l, req)
		return err
	})
	return sandbox.Result{
		Stdout: stdout.kept.Bytes(), Stderr: violation.Annotate(stderr.kept.Bytes(), out.Violations),
		StdoutBytes: stdout.written, StderrBytes: stderr.written, Truncated: stdout.cut() || stderr.cut(),
		Limit:    cmp.Or(out.Exit.Limit, stdout.hit(), stderr.hit()),
		Left:     out.Exit.Left,
		Waited:   out.Waited,
		Warnings: out.Warnings,
		ExitCode: out.Exit.Code, Signal: out.Exit.Signal, TimedOut: out.TimedOut, Restarted: out.Exit.Restarted, LostDir: out.Exit.LostDir,
		Blocked: out.Blocked, BlockedReason: out.BlockedReason, BlockedResource: out.BlockedResource, Violations: out.Violations,
		Duration: out.Duration, Usage: out.Exit.Usage,
	}, err
}

// captured keeps the start of what is written.
type captured struct {
	limit   int64 // bytes; 0 is unbounded
	kept    bytes.Buffer
	written int64
}

// Write implements io.Writer. It takes everything.
func (c *captured) Write(p []byte) (int, error) {
	c.written += int64(len(p))
	keep := p
	if c.limit > 0 {
		keep = p[:max(0, min(int64(len(p)), c.limit-int64(c.kept.Len())))]
	}
	c.kept.Write(keep)
	return len(p), nil
}

func (c *captured) cut() bool { return c.written > int64(c.kept.Len()) }

// hit tells of what was not kept. It has ended nothing.
func (c *captured) hit() *sandbox.LimitHit {
	if !c.cut() {
		return nil
	}
	return &sandbox.LimitHit{Limit: sandbox.LimitMaxOutputBytes, Current: c.written, Bound: c.limit, Unit: sandbox.UnitBytes}
}

func (c *captured) reset() {
	c.kept.Reset()
	c.written = 0
}
