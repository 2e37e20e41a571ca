package providertest

import "github.com/bulkhead-dev/sandbox"

// closeChecks hold what letting go of a sandbox means.
func closeChecks() []Check {
	return []Check{
		{Name: "close ends the commands of its handle", run: closeEnds},
		{Name: "close spares the commands of other handles", run: closeSpares},
		{Name: "close spares detached commands", run: closeDetached},
		{Name: "close twice is harmless and start after it fails", run: closeTwice},
		{Name: "close keeps the sandbox", run: closeKeeps},
	}
}

func closeEnds(r *rig) {
	s, sb := r.box("a")
	watcher := r.open(s)
	marker := newMarker()
	p := r.tree(r.ctx, sb, marker)
	if err := sb.Close(); err != nil {
		r.Errorf("Close: %v", err)
	}
	if exit, err := r.wait(p); err != nil {
		r.wantCode("Wait after Close", err, sandbox.CodeUnavailable)
	} else if exit.Code == 0 {
		r.Errorf("Wait after Close says %+v", exit)
	}
	r.awaitCount(watcher, marker, 0)
}

func closeSpares(r *rig) {
	s, first := r.box("a")
	second := r.open(s)
	marker := newMarker()
	p := r.tree(r.ctx, first, marker)
	if err := second.Close(); err != nil {
		r.Errorf("Close: %v", err)
	}
	if n := r.count(first, marker); n != TreeSize {
		r.Errorf("%d of %d processes are left", n, TreeSize)
	}
	if err := p.Kill(r.ctx); err != nil {
		r.Fatalf("Kill: %v", err)
	}
	r.killed(first, p, marker)
}

func closeDetached(r *rig) {
	s, sb := r.box("a")
	marker := newMarker()
	c := r.h.Programs.Sleep(marker)
	c.Detach = true
	// Not gathered: a detaching client does not read on.
	if _, err := sb.Start(r.ctx, c); err != nil {
		r.Fatalf("Start: %v", err)
	}
	r.awaitCount(sb, marker, 1)
	if err := sb.Close(); err != nil {
		r.Errorf("Close: %v", err)
	}
	watcher := r.open(s)
	r.works(watcher)
	if n := r.count(watcher, marker); n != 1 {
		r.Errorf("%d detached processes are left, want 1", n)
	}
}

func closeTwice(r *rig) {
	_, sb := r.box("a")
	for range 2 {
		r.within(r.h.Patience, "Close", func() {
			if err := sb.Close(); err != nil {
				r.Errorf("Close: %v", err)
			}
		})
	}
	_, err := sb.Start(r.ctx, r.h.Programs.True())
	r.wantCode("Start after Close", err, sandbox.CodeUnavailable)
}

func closeKeeps(r *rig) {
	s, sb := r.box("a")
	if err := sb.Close(); err != nil {
		r.Errorf("Close: %v", err)
	}
	if st := r.status(s.Name); st != sandbox.StatusRunning {
		r.Errorf("after Close the sandbox is %s", st)
	}
	r.works(r.open(s))
}
