package providertest

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/bulkhead-dev/sandbox"
)

// exitChecks check how the end of a program is reported.
func exitChecks() []Check {
	return []Check{
		{Name: "every exit status comes through", run: exitStatuses},
		{Name: "a signal ends with 128+n and its name", run: exitSignals},
		{Name: "a missing program is an error that is fs.ErrNotExist", run: missingProgram},
		{Name: "what cannot be executed is an error that is fs.ErrPermission", run: notExecutable},
		{Name: "wait answers many callers alike", run: waitMany},
		{Name: "the cost of a command is reported", run: rusageReported},
		{Name: "a command has a number of its own", run: processNumbers},
	}
}

func exitStatuses(r *rig) {
	_, sb := r.box("a")
	const workers = 4
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for code := w; code < 256; code += workers {
				p, err := sb.Start(r.ctx, r.h.Programs.Exit(code))
				if err != nil {
					r.Errorf("status %d: Start: %v", code, err)
					continue
				}
				// Bounded by the check's context, which kills.
				if exit, err := p.Wait(); err != nil || exit.Code != code || exit.Signal != "" {
					r.Errorf("status %d came through as %+v, %v", code, exit, err)
				}
			}
		})
	}
	wg.Wait()
}

func exitSignals(r *rig) {
	_, sb := r.box("a")
	for _, tt := range []struct {
		signal string
		number int
	}{{"HUP", 1}, {"INT", 2}, {"QUIT", 3}, {"ABRT", 6}, {"KILL", 9}, {"USR1", 10}, {"PIPE", 13}, {"ALRM", 14}, {"TERM", 15}} {
		exit := r.exit(r.start(r.ctx, sb, r.h.Programs.Raise(tt.signal)))
		if exit.Code != 128+tt.number || exit.Signal != tt.signal {
			r.Errorf("signal %s: %+v, want status %d", tt.signal, exit, 128+tt.number)
		}
	}
}

func missingProgram(r *rig) {
	_, sb := r.box("a")
	inEmptyPath := r.h.Programs.True()
	inEmptyPath.Env = map[string]string{"PATH": "/nonexistent"}
	for name, c := range map[string]sandbox.Command{
		"by name":         {Args: []string{"no-such-program-here"}},
		"by path":         {Args: []string{"/no/such/program"}},
		"not in its PATH": inEmptyPath,
	} {
		p, err := sb.Start(r.ctx, c)
		startFailure(r, name, p, err, fs.ErrNotExist)
	}
	r.works(sb)
}

func notExecutable(r *rig) {
	_, sb := r.box("a")
	for name, path := range map[string]string{"a plain file": "/etc/passwd", "a folder": "/etc"} {
		p, err := sb.Start(r.ctx, sandbox.Command{Args: []string{path}})
		startFailure(r, name, p, err, fs.ErrPermission)
	}
	r.works(sb)
}

// startFailure holds how a program that could not be started is reported:
// callers turn fs.ErrNotExist into status 127 and fs.ErrPermission into 126.
func startFailure(r *rig, name string, p sandbox.Process, err, want error) {
	r.Helper()
	r.wantCode(name, err, sandbox.CodeExecution)
	if !errors.Is(err, want) {
		r.Errorf("%s: %v is not %v", name, err, want)
	}
	if e, ok := errors.AsType[*sandbox.Error](err); ok && e.Field != "args" {
		r.Errorf("%s: the error names the field %q, want args", name, e.Field)
	}
	if p != nil && err != nil {
		r.Errorf("%s: a process came beside the error", name)
	}
}

func waitMany(r *rig) {
	_, sb := r.box("a")
	c := r.h.Programs.Exit(7)
	p := r.start(r.ctx, sb, c)
	const callers = 8
	answers := make([]string, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			exit, err := p.Wait()
			answers[i] = fmt.Sprint(exit, err)
		})
	}
	r.within(r.h.Patience, "waiting by many", wg.Wait)
	exit, err := r.wait(p)
	last := fmt.Sprint(exit, err)
	for i, a := range answers {
		if a != last {
			r.Errorf("caller %d got %s, a later one %s", i, a, last)
		}
	}
	if err != nil || exit.Code != 7 {
		r.Errorf("%+v, %v", exit, err)
	}
	// After the end nothing can be done to it, and trying does no harm.
	r.within(r.h.Patience, "Signal, Resize and Kill after the end", func() {
		p.Signal(r.ctx, "TERM")
		p.Resize(r.ctx, sandbox.TTY{Rows: 1, Cols: 1})
		if err := p.Kill(r.ctx); err != nil {
			r.Errorf("Kill after the end: %v", err)
		}
	})
	r.works(sb)
}

func processNumbers(r *rig) {
	_, sb := r.box("a")
	seen := map[int]bool{}
	for marker := range 3 {
		p := r.start(r.ctx, sb, r.h.Programs.Sleep(marker+1))
		i, ok := p.Process.(sandbox.Identified)
		if !ok {
			r.Fatal("the process has no number")
		}
		if n := i.PID(); n <= 0 || seen[n] {
			r.Errorf("the number %d is none, or another command that runs has it", n)
		} else {
			seen[n] = true
		}
		defer p.Kill(r.ctx)
	}
}

func rusageReported(r *rig) {
	_, sb := r.box("a")
	u := r.exit(r.start(r.ctx, sb, r.h.Programs.True())).Usage
	if u.MaxRSS <= 0 || u.MaxRSS > 1<<30 {
		r.Errorf("the largest process had %d bytes", u.MaxRSS)
	}
	if u.User < 0 || u.System < 0 || u.User+u.System > r.h.Patience {
		r.Errorf("processor time %v in user mode, %v in the kernel", u.User, u.System)
	}
}
