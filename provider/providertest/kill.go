package providertest

import (
	"context"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// killChecks hold that what was started can be stopped, completely. Each
// looks inside to see that it is so.
func killChecks() []Check {
	return []Check{
		{Name: "start under an ended context runs nothing", run: startCancelled},
		{Name: "the end of the context kills the whole tree", run: cancelKillsTree},
		{Name: "a deadline kills the whole tree", run: deadlineKillsTree},
		{Name: "kill ends the whole tree", run: killKillsTree},
		{Name: "killing one command spares the others", run: killSparesOthers},
		{Name: "a child that holds the output does not hold up the end", run: orphanHoldsOutput},
		{Name: "grace sends TERM first", run: graceTerm},
		{Name: "grace ends with KILL", run: graceKill},
		{Name: "signal reaches the program", run: signalReaches},
		{Name: "an unknown signal is an error", run: signalUnknown},
	}
}

func startCancelled(r *rig) {
	_, sb := r.box("a")
	ctx, cancel := contextEnding(r.ctx, 0)
	defer cancel()
	marker := newMarker()
	_, err := sb.Start(ctx, r.h.Programs.Sleep(marker))
	r.wantCode("Start", err, sandbox.CodeTimeout, sandbox.CodeUnavailable)
	if n := r.count(sb, marker); n != 0 {
		r.Errorf("%d processes run", n)
	}
}

// tree starts the process tree and waits until it is complete.
func (r *rig) tree(ctx context.Context, sb sandbox.Sandbox, marker int) running {
	r.Helper()
	p := r.start(ctx, sb, r.h.Programs.Tree(marker))
	r.await(p.stdout, "ready")
	r.awaitCount(sb, marker, TreeSize)
	return p
}

// killed holds that p was ended by KILL and that nothing of its tree is left
// at the moment when Wait returns.
func (r *rig) killed(sb sandbox.Sandbox, p sandbox.Process, marker int) {
	r.Helper()
	exit := r.exit(p)
	if n := r.count(sb, marker); n != 0 {
		r.Errorf("Wait returned and %d processes of the tree run on", n)
	}
	if exit.Code != 137 || exit.Signal != "KILL" {
		r.Errorf("a killed command ended with %+v, want status 137 by KILL", exit)
	}
}

func cancelKillsTree(r *rig) {
	_, sb := r.box("a")
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	marker := newMarker()
	p := r.tree(ctx, sb, marker)
	cancel()
	r.killed(sb, p, marker)
	r.works(sb)
}

func deadlineKillsTree(r *rig) {
	_, sb := r.box("a")
	marker := newMarker()
	p, ctx := r.intoDeadline(sb.Start, r.h.Programs.Tree(marker))
	r.killed(sb, p, marker)
	if ctx.Err() == nil {
		r.Error("the command ended before its deadline")
	}
	r.works(sb)
}

func killKillsTree(r *rig) {
	_, sb := r.box("a")
	marker := newMarker()
	p := r.tree(r.ctx, sb, marker)
	if err := p.Kill(r.ctx); err != nil {
		r.Fatalf("Kill: %v", err)
	}
	r.killed(sb, p, marker)
	r.works(sb)
}

func killSparesOthers(r *rig) {
	_, sb := r.box("a")
	doomed, spared := newMarker(), newMarker()
	other := r.tree(r.ctx, sb, spared)
	p := r.tree(r.ctx, sb, doomed)
	if err := p.Kill(r.ctx); err != nil {
		r.Fatalf("Kill: %v", err)
	}
	r.killed(sb, p, doomed)
	if n := r.count(sb, spared); n != TreeSize {
		r.Errorf("%d of the other command's %d processes are left", n, TreeSize)
	}
	if err := other.Kill(r.ctx); err != nil {
		r.Fatalf("Kill: %v", err)
	}
	r.killed(sb, other, spared)
}

func orphanHoldsOutput(r *rig) {
	_, sb := r.box("a")
	marker := newMarker()
	p := r.start(r.ctx, sb, r.h.Programs.Orphan(marker))
	exit := r.exit(p)
	if exit.Code != 0 || p.stdout.String() != "left\n" {
		r.Errorf("%+v, stdout %q", exit, p.stdout.String())
	}
	if n := r.count(sb, marker); n != 0 {
		r.Errorf("Wait returned and %d children run on", n)
	}
}

func graceTerm(r *rig) {
	_, sb := r.box("a")
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	marker := newMarker()
	c := r.h.Programs.OnTerm(marker, 7)
	c.Grace = r.h.Patience
	p := r.start(ctx, sb, c)
	r.await(p.stdout, "ready")
	cancel()
	if exit := r.exit(p); exit.Code != 7 || exit.Signal != "" {
		r.Errorf("%+v, want the status 7 of the program's own choice", exit)
	}
	r.await(p.stdout, "term") // Wait has returned, so all output is there
	if n := r.count(sb, marker); n != 0 {
		r.Errorf("%d processes run on", n)
	}
}

func graceKill(r *rig) {
	_, sb := r.box("a")
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	marker := newMarker()
	c := r.h.Programs.Deaf(marker)
	c.Grace = 300 * time.Millisecond
	p := r.start(ctx, sb, c)
	r.await(p.stdout, "ready")
	r.awaitCount(sb, marker, 1)
	began := time.Now()
	cancel()
	r.killed(sb, p, marker)
	if took := time.Since(began); took < c.Grace {
		r.Errorf("killed after %v, before the grace of %v was over", took, c.Grace)
	}
}

func signalReaches(r *rig) {
	_, sb := r.box("a")
	marker := newMarker()
	p := r.start(r.ctx, sb, r.h.Programs.OnTerm(marker, 9))
	r.await(p.stdout, "ready")
	if err := p.Signal(r.ctx, "TERM"); err != nil {
		r.Fatalf("Signal: %v", err)
	}
	if exit := r.exit(p); exit.Code != 9 {
		r.Errorf("%+v, want status 9", exit)
	}
	if n := r.count(sb, marker); n != 0 {
		r.Errorf("%d processes run on", n)
	}

	p = r.start(r.ctx, sb, r.h.Programs.Sleep(marker))
	r.awaitCount(sb, marker, 1)
	if err := p.Signal(r.ctx, "INT"); err != nil {
		r.Fatalf("Signal: %v", err)
	}
	if exit := r.exit(p); exit.Code != 130 || exit.Signal != "INT" {
		r.Errorf("%+v, want status 130 by INT", exit)
	}
}

func signalUnknown(r *rig) {
	_, sb := r.box("a")
	marker := newMarker()
	p := r.start(r.ctx, sb, r.h.Programs.Sleep(marker))
	for _, name := range []string{"", "NOSUCH", "-1", "TERM; true"} {
		r.wantCode("Signal "+name, p.Signal(r.ctx, name), sandbox.CodeValidation)
	}
	r.awaitCount(sb, marker, 1)
	if err := p.Kill(r.ctx); err != nil {
		r.Fatalf("Kill: %v", err)
	}
	r.exit(p)
}
