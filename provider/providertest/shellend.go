package providertest

import (
	"context"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// shellEndChecks hold what ends a shell and what the next line finds.
func shellEndChecks() []Check {
	return []Check{
		{Name: "a line with which the shell ends says so", run: shellEnds},
		{Name: "a line that finds the shell gone says so", run: shellGone},
		{Name: "the end of a line's context ends the whole shell", run: lineCancelled},
		{Name: "a line's deadline ends the whole shell", run: lineDeadline},
		{Name: "kill of a line ends the whole shell", run: lineKilled},
		{Name: "grace of a line sends TERM first", run: lineGrace},
		{Name: "signal reaches what a line runs", run: lineSignal},
	}
}

func shellEnds(r *rig) {
	sb, sh := r.shellBox()
	marker := newMarker()
	r.says(sh, "cd /tmp; x=kept", "")
	for _, tt := range []struct {
		line   string
		code   int // -1 is any but 0
		signal string
	}{
		{"exit 3", 3, ""},
		{"exit 0", 0, ""},
		{"exec sh -c 'exit 4'", 4, ""},
		{"set -e; false; echo went on", 1, ""},
		{`set -u; echo "$never_set"; echo went on`, -1, ""},
		{"kill -9 $$", 137, "KILL"},
	} {
		p := r.line(r.ctx, sh, sleeper(marker)+" & cd /; x=lost; y=lost; echo before; "+tt.line, sandbox.Command{})
		exit := r.exit(p)
		if exit.Code != tt.code && (tt.code >= 0 || exit.Code == 0) || exit.Signal != tt.signal || !exit.Restarted {
			r.Errorf("%s: %+v, want status %d by %q, restarted", tt.line, exit, tt.code, tt.signal)
		}
		if out := p.stdout.String(); out != "before\n" {
			r.Errorf("%s: stdout %q", tt.line, out)
		}
		r.awaitCount(sb, marker, 0)
		r.keptOnly(sh)
	}
}

// keptOnly holds that the shell is in the state "x=kept" in /tmp, without y, and
// that this line does not count as the one that found it gone.
func (r *rig) keptOnly(sh sandbox.Shell) {
	r.Helper()
	r.says(sh, `echo "$x ${y-unset} $PWD"`, "kept unset /tmp\n")
}

func shellGone(r *rig) {
	sb, sh := r.shellBox()
	marker := newMarker()
	r.says(sh, "cd /tmp; x=kept", "")
	// The last line that came to its end: its state counts.
	r.says(sh, sleeper(marker)+" & ("+until("${TMPDIR:-/tmp}/go")+"; kill -9 $$) & z=kept", "")
	r.awaitCount(sb, marker, 1)
	r.output(sb, script(": >${TMPDIR:-/tmp}/go"))
	r.awaitCount(sb, marker, 0) // what it left running goes with the shell
	exit, stdout, _ := r.runLine(sh, `echo "$z"`)
	if exit.Code != 0 || !exit.Restarted || stdout != "kept\n" {
		r.Errorf("the next line: %+v, stdout %q; want it restarted, with the state before", exit, stdout)
	}
	r.keptOnly(sh)
}

// plant leaves a process of an earlier line running.
func (r *rig) plant(sb sandbox.Sandbox, sh sandbox.Shell, marker int) {
	r.Helper()
	r.says(sh, "cd /tmp; x=kept; "+sleeper(marker)+" &", "")
	r.awaitCount(sb, marker, 1)
}

// doomed is a line with two more processes, one in a session of its own.
func doomed(marker int) string {
	return "cd /; x=lost; y=lost; setsid " + sleeper(marker) + " & " + sleeper(marker) + "; echo went on"
}

// shellKilled holds that a line was killed with its whole shell.
func (r *rig) shellKilled(sb sandbox.Sandbox, sh sandbox.Shell, p running, marker int) {
	r.Helper()
	r.killed(sb, p, marker)
	if exit := r.exit(p); !exit.Restarted {
		r.Errorf("%+v, want it restarted", exit)
	}
	if out := p.stdout.String(); out != "" {
		r.Errorf("the line went on: %q", out)
	}
	r.keptOnly(sh)
}

func lineCancelled(r *rig) {
	sb, sh := r.shellBox()
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	marker := newMarker()
	r.plant(sb, sh, marker)
	p := r.line(ctx, sh, doomed(marker), sandbox.Command{})
	r.awaitCount(sb, marker, 3)
	cancel()
	r.shellKilled(sb, sh, p, marker)
}

func lineDeadline(r *rig) {
	sb, sh := r.shellBox()
	marker := newMarker()
	r.plant(sb, sh, marker)
	p, ctx := r.intoDeadline(func(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
		return sh.Run(ctx, doomed(marker), c)
	}, sandbox.Command{})
	r.shellKilled(sb, sh, p, marker)
	if ctx.Err() == nil {
		r.Error("the line ended before its deadline")
	}
}

func lineKilled(r *rig) {
	sb, sh := r.shellBox()
	marker := newMarker()
	r.plant(sb, sh, marker)
	p := r.line(r.ctx, sh, doomed(marker), sandbox.Command{})
	r.awaitCount(sb, marker, 3)
	if err := p.Kill(r.ctx); err != nil {
		r.Fatalf("Kill: %v", err)
	}
	r.shellKilled(sb, sh, p, marker)
	// Once a line has ended, Kill, Signal and Resize do nothing.
	done := r.line(r.ctx, sh, "cd /tmp", sandbox.Command{})
	r.exit(done)
	r.within(r.h.Patience, "Kill, Signal and Resize after the end", func() {
		if err := done.Kill(r.ctx); err != nil {
			r.Errorf("Kill after the end: %v", err)
		}
		done.Signal(r.ctx, "KILL")
		done.Resize(r.ctx, sandbox.TTY{Rows: 1, Cols: 1})
	})
	r.keptOnly(sh)
}

func lineGrace(r *rig) {
	sb, sh := r.shellBox()
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	marker := newMarker()
	p := r.line(ctx, sh, "trap 'echo term; exit 7' TERM; echo ready; "+sleeper(marker)+"; echo went on", sandbox.Command{Grace: r.h.Patience})
	r.await(p.stdout, "ready")
	r.awaitCount(sb, marker, 1)
	cancel()
	if exit := r.exit(p); exit.Code != 7 || exit.Signal != "" || !exit.Restarted {
		r.Errorf("%+v, want the status 7 of the line's own choice, restarted", exit)
	}
	r.await(p.stdout, "term") // its reader may be slower than its end
	if out := p.stdout.String(); out != "ready\nterm\n" {
		r.Errorf("stdout %q", out)
	}
	if n := r.count(sb, marker); n != 0 {
		r.Errorf("%d processes run on", n)
	}
	ctx, cancel = context.WithCancel(r.ctx)
	defer cancel()
	began := time.Now()
	const grace = 300 * time.Millisecond
	p = r.line(ctx, sh, "trap '' TERM; echo ready; "+sleeper(marker), sandbox.Command{Grace: grace})
	r.await(p.stdout, "ready")
	cancel()
	r.killed(sb, p, marker)
	if took := time.Since(began); took < grace {
		r.Errorf("killed after %v, before the grace of %v was over", took, grace)
	}
}

func lineSignal(r *rig) {
	sb, sh := r.shellBox()
	marker := newMarker()
	p := r.line(r.ctx, sh, sleeper(marker), sandbox.Command{})
	r.awaitCount(sb, marker, 1)
	for _, name := range []string{"", "NOSUCH", "TERM; true"} {
		r.wantCode("Signal "+name, p.Signal(r.ctx, name), sandbox.CodeValidation)
	}
	if err := p.Signal(r.ctx, "TERM"); err != nil {
		r.Fatalf("Signal: %v", err)
	}
	if exit := r.exit(p); exit.Code != 143 {
		r.Errorf("%+v, want status 143", exit)
	}
	r.awaitCount(sb, marker, 0)
	if exit, stdout, _ := r.runLine(sh, "echo next"); exit.Code != 0 || stdout != "next\n" {
		r.Errorf("the next line: %+v, %q", exit, stdout)
	}
}
