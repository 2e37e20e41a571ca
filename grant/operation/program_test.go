package operation_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/grant/budget"
	"github.com/bulkhead-dev/sandbox/provider/fake"
)

// programs returns the programs of the in-memory sandbox.
func programs() map[string]fake.Program {
	return map[string]fake.Program{
		"burn": func(p *fake.Proc) int {
			for {
				p.Work(10 * time.Millisecond)
				p.Sleep(time.Millisecond)
			}
		},
		"write": func(p *fake.Proc) int {
			io.WriteString(p.Stdout, p.Args[1])
			io.WriteString(p.Stderr, p.Args[2])
			return 3
		},
		"args": func(p *fake.Proc) int { io.WriteString(p.Stdout, strings.Join(p.Args, "|")+" in "+p.Dir); return 0 },
	}
}

func run(tool string, args ...string) grant.Operation {
	return grant.Operation{Tool: tool, Args: args}
}

// TestEnvironment checks that a program gets four variables at most, whatever the
// sandbox and the caller have, and no folder of PATH that is not absolute.
func TestEnvironment(t *testing.T) {
	r := programNewRig(memory(t, nil))
	r.env = map[string]string{"PATH": ".:/bin::bin:/usr/bin", "HOME": "/h", "LANG": "C", "TMPDIR": "/t", "LD_PRELOAD": "x.so", "AWS_SECRET": "x"}
	d := r.do(t, t.Context(), run("env"))
	programMust(t, d.err)
	if got := string(d.out.Data); got != "HOME=/h\nLANG=C\nPATH=/bin:/usr/bin\nTMPDIR=/t\n" {
		t.Errorf("%q", got)
	}
	r.env = map[string]string{"HOME": "/h"}
	if d := r.do(t, t.Context(), run("env")); string(d.out.Data) != "HOME=/h\n" {
		t.Errorf("%q, %v", d.out.Data, d.err)
	}
}

// TestNoShell checks that arguments arrive as they were vetted, in the workspace,
// and that there is no input.
func TestNoShell(t *testing.T) {
	all := programs()
	all["echo"] = all["args"]
	r := programNewRig(memory(t, all))
	args := []string{"$(id)", "a b", "", ";", "*", "-n", "`x`"}
	d := r.do(t, t.Context(), run("echo", args...))
	programMust(t, d.err)
	if want := "echo|" + strings.Join(args, "|") + " in " + sandbox.WorkspaceDir; string(d.out.Data) != want {
		t.Errorf("%q, want %q", d.out.Data, want)
	}
	if d := r.do(t, t.Context(), run("cat")); d.err != nil || len(d.out.Data) != 0 {
		t.Errorf("there is an input: %q, %v", d.out.Data, d.err)
	}
}

// TestResult checks the result of an operation whose program has ended by
// itself.
func TestResult(t *testing.T) {
	r := programNewRig(memory(t, programs()))
	for _, keep := range []int64{100, 5, 3, 0} {
		r.keep = keep
		d := r.do(t, t.Context(), run("write", "hello", "wrong!"))
		programMust(t, d.err)
		e := d.out.Exit
		if e == nil || e.Code != 3 || e.Signal != "" || e.TimedOut || e.Limit != nil {
			t.Fatalf("exit %+v", e)
		}
		if string(d.out.Data) != "hello"[:min(5, keep)] || string(e.Stderr) != "wrong!"[:min(6, keep)] || d.out.Truncated != (keep < 6) {
			t.Errorf("with %d: %q, %q, truncated %v", keep, d.out.Data, e.Stderr, d.out.Truncated)
		}
		if d.out.Digest != evidence.DigestOf([]byte("hello")) || e.StderrDigest != evidence.DigestOf([]byte("wrong!")) {
			t.Errorf("digests %+v, %+v", d.out.Digest, e.StderrDigest)
		}
		if d.effects != 1 || d.code == nil || *d.code != 3 || d.used.BytesIn != 11 || d.used.Calls != 1 || d.used.BytesOut != 0 {
			t.Errorf("%d effects, used %+v", d.effects, d.used)
		}
	}
}

// TestNotThere checks that a program which cannot be started is no result, and
// leaves no side effect.
func TestNotThere(t *testing.T) {
	r := programNewRig(memory(t, nil))
	d := r.do(t, t.Context(), run("nothing"))
	codeIs(t, d.err, sandbox.CodeExecution)
	if !errors.Is(d.err, fs.ErrNotExist) || d.effects != 0 || d.out.Exit != nil {
		t.Errorf("%v, %d effects, %+v", d.err, d.effects, d.out)
	}
}

// TestByteBudget checks that exactly the bytes of the budget are delivered, of
// both streams together, and that the program ends then.
func TestByteBudget(t *testing.T) {
	r := programNewRig(memory(t, programs()))
	for _, tt := range []struct {
		bytes int64
		op    grant.Operation
		over  bool
	}{
		{11, run("write", "hello", "wrong!"), false}, {10, run("write", "hello", "wrong!"), true},
		{0, run("write", "", ""), false}, {0, run("write", "a", ""), true}, {100_000, run("yes"), true},
	} {
		r.budget = bound(budget.BytesIn, tt.bytes)
		d := r.do(t, t.Context(), tt.op)
		size := d.out.Digest.Size
		if d.out.Exit != nil {
			size += d.out.Exit.StderrDigest.Size
		}
		if !tt.over {
			programMust(t, d.err)
			continue
		}
		codeIs(t, d.err, sandbox.CodeBudgetExceeded)
		if size != tt.bytes || d.used.BytesIn != tt.bytes {
			t.Errorf("%d bytes: delivered %d, used %d", tt.bytes, size, d.used.BytesIn)
		}
		if d.effects != 1 {
			t.Errorf("%d effects", d.effects)
		}
	}
}

// TestTooMuchOutput checks the profile's own bound.
func TestTooMuchOutput(t *testing.T) {
	r := programNewRig(memory(t, programs()))
	r.limits.MaxBytesIn = 10
	d := r.do(t, t.Context(), run("write", "hello", "wrong!"))
	codeIs(t, d.err, sandbox.CodeCapabilityBlocked)
	if d.used.BytesIn != 10 {
		t.Errorf("used %+v", d.used)
	}
	r.limits.MaxBytesIn = 11
	programMust(t, r.do(t, t.Context(), run("write", "hello", "wrong!")).err)
	r.limits.MaxBytesIn = 1 << 20
	d = r.do(t, t.Context(), run("yes"))
	codeIs(t, d.err, sandbox.CodeCapabilityBlocked)
	if d.out.Digest.Size != 1<<20 {
		t.Errorf("%d bytes", d.out.Digest.Size)
	}
}

// TestCPUBudget checks that processor time ends a program, and is charged.
func TestCPUBudget(t *testing.T) {
	r := programNewRig(memory(t, programs()))
	r.budget = bound(budget.CPUMs, 500)
	d := r.do(t, t.Context(), run("burn"))
	codeIs(t, d.err, sandbox.CodeBudgetExceeded)
	if d.used.CPUMs < 500 || d.out.Exit == nil || d.out.Exit.Signal != "KILL" {
		t.Errorf("used %+v, exit %+v", d.used, d.out.Exit)
	}
	r.budget = bound(budget.CPUMs, 0)
	d = r.do(t, t.Context(), run("burn"))
	codeIs(t, d.err, sandbox.CodeBudgetExceeded)
	if d.effects != 0 {
		t.Error("it was begun with nothing left")
	}
}

// dark is a sandbox whose processes do not report usage.
type dark struct{ sandbox.Sandbox }

func (d dark) Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	p, err := d.Sandbox.Start(ctx, c)
	if err != nil {
		return nil, err
	}
	return struct{ sandbox.Process }{p}, nil
}

// mute is a sandbox whose processes return an error when asked for usage.
type mute struct{ sandbox.Sandbox }

type muted struct{ sandbox.Process }

func (muted) Used(context.Context) (sandbox.Rusage, error) {
	return sandbox.Rusage{}, &sandbox.Error{Code: sandbox.CodeUnsupported}
}

func (d mute) Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	p, err := d.Sandbox.Start(ctx, c)
	if err != nil {
		return nil, err
	}
	return muted{p}, nil
}

// TestUnmetered checks that an operation ends when its usage cannot be
// determined.
func TestUnmetered(t *testing.T) {
	for name, sb := range map[string]sandbox.Sandbox{"dark": dark{memory(t, programs())}, "mute": mute{memory(t, programs())}} {
		r := programNewRig(sb)
		r.budget = bound(budget.CPUMs, 1000)
		d := r.do(t, t.Context(), run("sleep", "1000"))
		codeIs(t, d.err, sandbox.CodeUnsupported)
		if d.effects != 1 || d.took > 30*time.Second {
			t.Errorf("%s: %d effects after %v", name, d.effects, d.took)
		}
	}
	r := programNewRig(memory(t, programs()))
	r.budget = bound(budget.GPUMs, 1000)
	d := r.do(t, t.Context(), run("env"))
	codeIs(t, d.err, sandbox.CodeUnsupported)
	if d.effects != 0 {
		t.Error("it was begun")
	}
}

// TestStops checks that a program ends with its context, and that the cause is
// what is returned; its own timeout is a result. Time passes only once it runs.
func TestStops(t *testing.T) {
	const afterStart = time.Second
	revoked := &sandbox.Error{Code: sandbox.CodePermissionDeny, Message: "revoked"}
	for _, tt := range []struct {
		name string
		end  func(context.Context) (context.Context, context.CancelFunc)
		code sandbox.Code
	}{
		{"revoked", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeoutCause(ctx, afterStart, revoked)
		}, sandbox.CodePermissionDeny},
		{"time limit", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, afterStart)
		}, sandbox.CodeTimeout},
		{"given up", func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(afterStart, cancel)
			return ctx, cancel
		}, sandbox.CodeUnavailable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := tt.end(t.Context())
				defer cancel()
				d := programNewRig(memory(t, nil)).do(t, ctx, run("sleep", "1000"))
				codeIs(t, d.err, tt.code)
				if d.out.Exit == nil || d.out.Exit.Signal != "KILL" || d.out.Exit.TimedOut || d.effects != 1 {
					t.Errorf("exit %+v, %d effects", d.out.Exit, d.effects)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		op := run("sleep", "1000")
		op.Timeout = afterStart
		d := programNewRig(memory(t, nil)).do(t, t.Context(), op)
		codeIs(t, d.err, sandbox.CodeTimeout)
		if e := new(sandbox.Error); !errors.As(d.err, &e) || e.Field != "op.timeout" || !e.Retryable {
			t.Errorf("%v", d.err)
		}
		if e := d.out.Exit; e == nil || !e.TimedOut || e.Signal != "KILL" || *d.code != e.Code {
			t.Errorf("exit %+v", e)
		}
	})
}

// full is a temporary space that is full after a moment.
type full struct{ ended atomic.Bool }

func (*full) Room(context.Context, string) (int64, bool, error) { return 0, false, nil }

func (f *full) Watch(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeoutCause(ctx, 50*time.Millisecond, &sandbox.Error{Code: sandbox.CodeBudgetExceeded, Field: "space"})
	return ctx, func() { f.ended.Store(true); cancel() }
}

// TestFullSpace checks that the temporary space is watched, and let go of.
func TestFullSpace(t *testing.T) {
	r := programNewRig(memory(t, nil))
	space := &full{}
	r.space = space
	d := r.do(t, t.Context(), run("sleep", "1000"))
	var e *sandbox.Error
	if !errors.As(d.err, &e) || e.Code != sandbox.CodeBudgetExceeded || e.Field != "space" {
		t.Errorf("%v", d.err)
	}
	if !space.ended.Load() {
		t.Error("it is watched on")
	}
}

// TestOtherOperations checks that nothing else is carried out.
func TestOtherOperations(t *testing.T) {
	r := programNewRig(memory(t, nil))
	codeIs(t, r.other(t), sandbox.CodeInternal)
}
