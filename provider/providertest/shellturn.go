package providertest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// shellTurnChecks hold that lines run one after another.
func shellTurnChecks() []Check {
	return []Check{
		{Name: "lines of one shell take turns", run: lineTurns},
		{Name: "lines of two shells do not wait for each other", run: lineIndependent},
		{Name: "a line waits for its turn until its context ends", run: lineWaits},
		{Name: "a line cannot have what it can say itself", run: lineFields},
	}
}

func lineTurns(r *rig) {
	sb, sh := r.shellBox()
	const callers = 8
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			p, err := sh.Run(r.ctx, fmt.Sprintf("n=$((n+1)); echo %[1]d >>${TMPDIR:-/tmp}/turns; sleep 0.01; echo %[1]d >>${TMPDIR:-/tmp}/turns", i), sandbox.Command{})
			if err != nil {
				r.Errorf("Run: %v", err)
				return
			}
			// Bounded by the check's context, which kills.
			if exit, err := p.Wait(); err != nil || exit.Code != 0 || exit.Restarted {
				r.Errorf("%+v, %v", exit, err)
			}
		})
	}
	r.within(2*r.h.Patience, "running lines side by side", wg.Wait)
	r.says(sh, `echo "$n"`, fmt.Sprintln(callers))
	turns := strings.Fields(r.output(sb, script("cat ${TMPDIR:-/tmp}/turns")))
	if len(turns) != 2*callers {
		r.Fatalf("the lines wrote %v", turns)
	}
	for i := 0; i < len(turns); i += 2 {
		if turns[i] != turns[i+1] {
			r.Fatalf("the lines mixed: %v", turns)
		}
	}
}

func lineIndependent(r *rig) {
	sb, one := r.shellBox()
	two := r.shell(sb, sandbox.ShellOptions{})
	p := r.line(r.ctx, one, until("${TMPDIR:-/tmp}/release"), sandbox.Command{})
	r.says(two, "echo free", "free\n")
	r.works(sb)
	r.says(two, ": >${TMPDIR:-/tmp}/release", "")
	if exit := r.exit(p); exit.Code != 0 {
		r.Errorf("%+v", exit)
	}
}

func lineWaits(r *rig) {
	sb, sh := r.shellBox()
	first := r.line(r.ctx, sh, "x=first; "+until("${TMPDIR:-/tmp}/release"), sandbox.Command{})
	ctx, cancel := context.WithTimeout(r.ctx, 300*time.Millisecond)
	defer cancel()
	r.within(r.h.Patience, "Run under a deadline", func() {
		p, err := sh.Run(ctx, ": >${TMPDIR:-/tmp}/never", sandbox.Command{})
		r.wantCode("Run while another line runs", err, sandbox.CodeTimeout, sandbox.CodeUnavailable)
		if p != nil && err != nil {
			r.Error("Run gave a process beside its error")
		}
	})
	if ctx.Err() == nil {
		r.Error("Run gave up before its context ended")
	}
	r.output(sb, script(": >${TMPDIR:-/tmp}/release"))
	if exit := r.exit(first); exit.Code != 0 || exit.Restarted {
		r.Errorf("the line that had the turn: %+v", exit)
	}
	r.says(sh, `[ -e ${TMPDIR:-/tmp}/never ] || echo "$x"`, "first\n")

	ended, end := context.WithCancel(r.ctx)
	end()
	_, err := sh.Run(ended, ": >${TMPDIR:-/tmp}/never", sandbox.Command{})
	r.wantCode("Run under an ended context", err, sandbox.CodeTimeout, sandbox.CodeUnavailable)
	r.says(sh, `[ -e ${TMPDIR:-/tmp}/never ] || echo "$x"`, "first\n")
}

func lineFields(r *rig) {
	_, sh := r.shellBox()
	for field, c := range map[string]sandbox.Command{
		"args":   {Args: []string{"true"}},
		"env":    {Env: map[string]string{"A": "b"}},
		"dir":    {Dir: "/"},
		"tty":    {TTY: &sandbox.TTY{Rows: 24, Cols: 80}},
		"limits": {Limits: sandbox.Limits{OpenFiles: 10}},
		"detach": {Detach: true},
	} {
		p, err := sh.Run(r.ctx, ": >${TMPDIR:-/tmp}/never", c)
		r.wantCode("Run with "+field, err, sandbox.CodeValidation)
		r.wantField("Run with "+field, err, field)
		if p != nil && err != nil {
			r.Errorf("Run with %s gave a process beside its error", field)
		}
	}
	_, err := sh.Run(r.ctx, "echo a\x00b >${TMPDIR:-/tmp}/never", sandbox.Command{})
	r.wantCode("Run of a NUL", err, sandbox.CodeValidation)
	r.says(sh, "[ -e ${TMPDIR:-/tmp}/never ] || echo nothing ran", "nothing ran\n")
	p := r.line(r.ctx, sh, ":", sandbox.Command{})
	r.wantCode("Resize", p.Resize(r.ctx, sandbox.TTY{Rows: 1, Cols: 1}), sandbox.CodeValidation, sandbox.CodeUnsupported)
	r.exit(p)
}
