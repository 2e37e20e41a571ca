package providertest

import "github.com/bulkhead-dev/sandbox"

// startChecks hold how OnStart lines are run.
func startChecks() []Check {
	return []Check{
		{Name: "onStart lines run once per start", run: onStartOnce},
		{Name: "a failing onStart line is an error", run: onStartFails},
		{Name: "onStart lines run again after a restart", needs: needStop, run: onStartAgain},
	}
}

func onStartOnce(r *rig) {
	s := r.spec("a")
	s.OnStart = []string{r.h.Programs.Note(), r.h.Programs.Note()}
	r.create(s)
	for range 3 {
		sb := r.open(s)
		if got := r.output(sb, r.h.Programs.Notes()); got != "2" {
			r.Errorf("two OnStart lines left %s traces", got)
		}
		if err := sb.Close(); err != nil {
			r.Errorf("Close: %v", err)
		}
	}
}

// onStartFails holds that a line that fails is not passed over. A provider
// may run the lines in Create already; then nothing must be left behind.
func onStartFails(r *rig) {
	s := r.spec("a")
	good := s
	s.OnStart = []string{r.h.Programs.Fail()}
	if _, err := r.p.Create(r.ctx, s); err != nil {
		r.wantCode("Create", err, sandbox.CodeExecution, sandbox.CodeValidation)
		r.absent(s.Name)
		return
	}
	for range 2 { // not run with success, so the next open must not skip them
		sb, err := r.p.Open(r.ctx, s)
		r.wantCode("Open", err, sandbox.CodeExecution, sandbox.CodeValidation)
		if sb != nil && err != nil {
			r.Error("Open gave a handle beside its error")
		}
	}
	r.works(r.open(good))
}

func onStartAgain(r *rig) {
	s := r.spec("a")
	s.OnStart = []string{r.h.Programs.Note()}
	r.create(s)
	r.open(s).Close()
	r.h.Behind.Stop(r, r.p, s.Name)
	if got := r.output(r.open(s), r.h.Programs.Notes()); got != "1" {
		r.Errorf("after a restart the OnStart line left %s traces, want 1", got)
	}
}

func needStop(h Harness) string {
	if h.Behind.Stop == nil {
		return "Behind.Stop"
	}
	return ""
}

// behindChecks check what happens when another client changes a sandbox.
func behindChecks() []Check {
	needPause := func(h Harness) string {
		if h.Behind.Pause == nil {
			return "Behind.Pause"
		}
		return ""
	}
	needRestart := func(h Harness) string {
		if h.Behind.Restart == nil {
			return "Behind.Restart"
		}
		return ""
	}
	needDestroy := func(h Harness) string {
		if h.Behind.Destroy == nil {
			return "Behind.Destroy"
		}
		return ""
	}
	return []Check{
		{Name: "stopped behind our back", needs: needStop, run: stoppedBehind},
		{Name: "paused behind our back", needs: needPause, run: pausedBehind},
		{Name: "restarted behind our back", needs: needRestart, run: restartedBehind},
		{Name: "destroyed behind our back", needs: needDestroy, run: destroyedBehind},
	}
}

// lost checks that p, whose sandbox failed, says so and does not make up a
// result.
func (r *rig) lost(p sandbox.Process) {
	r.Helper()
	exit, err := r.wait(p)
	if err == nil && exit.Signal == "KILL" {
		return // it saw its program killed before the sandbox was gone
	}
	r.wantCode("Wait of a command whose sandbox fell", err, sandbox.CodeUnavailable)
}

func stoppedBehind(r *rig) {
	s, sb := r.box("a")
	marker := newMarker()
	p := r.tree(r.ctx, sb, marker)
	r.h.Behind.Stop(r, r.p, s.Name)
	r.lost(p)
	info, err := r.p.Inspect(r.ctx, s.Name)
	if err != nil || info.Status != sandbox.StatusStopped || info.PID != 0 {
		r.Errorf("Inspect = %+v, %v; want it stopped, without a process id", info, err)
	}
	_, err = sb.Start(r.ctx, r.h.Programs.True())
	r.wantCode("Start through the old handle", err, sandbox.CodeUnavailable, sandbox.CodeNotFound)
	again := r.open(s)
	r.works(again)
	if n := r.count(again, marker); n != 0 {
		r.Errorf("%d processes of the time before run", n)
	}
	if st := r.status(s.Name); st != sandbox.StatusRunning {
		r.Errorf("after Open the sandbox is %s", st)
	}
	// Creating over a stopped one is as busy as over a running one.
	r.h.Behind.Stop(r, r.p, s.Name)
	_, err = r.p.Create(r.ctx, s)
	r.wantCode("Create over a stopped sandbox", err, sandbox.CodeBusy)
	if err := r.p.Remove(r.ctx, s.Name); err != nil {
		r.Errorf("Remove of a stopped sandbox: %v", err)
	}
	r.absent(s.Name)
}

func pausedBehind(r *rig) {
	s, sb := r.box("a")
	marker := newMarker()
	p := r.start(r.ctx, sb, r.h.Programs.Sleep(marker))
	r.awaitCount(sb, marker, 1)
	r.h.Behind.Pause(r, r.p, s.Name)
	if st := r.status(s.Name); st != sandbox.StatusPaused {
		r.Errorf("Inspect says %s", st)
	}
	again := r.open(s)
	if n := r.count(again, marker); n != 1 {
		r.Errorf("%d processes came through, want 1", n)
	}
	if err := p.Kill(r.ctx); err != nil {
		r.Fatalf("Kill: %v", err)
	}
	r.killed(again, p, marker)
}

func restartedBehind(r *rig) {
	s, sb := r.box("a")
	p := r.tree(r.ctx, sb, newMarker())
	r.h.Behind.Restart(r, r.p, s.Name)
	r.lost(p)
	if st := r.status(s.Name); st != sandbox.StatusRunning {
		r.Errorf("Inspect says %s", st)
	}
	r.works(r.open(s))
}

func destroyedBehind(r *rig) {
	s, sb := r.box("a")
	p := r.tree(r.ctx, sb, newMarker())
	r.h.Behind.Destroy(r, r.p, s.Name)
	r.lost(p)
	r.absent(s.Name)
	_, err := r.p.Open(r.ctx, s)
	r.wantCode("Open", err, sandbox.CodeNotFound)
	if err := r.p.Remove(r.ctx, s.Name); err != nil {
		r.Errorf("Remove: %v", err)
	}
	r.create(s)
	r.works(r.open(s))
}
