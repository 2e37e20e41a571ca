package providertest

import "github.com/bulkhead-dev/sandbox"

// shellCloseChecks hold how a shell is let go of.
func shellCloseChecks() []Check {
	return []Check{
		{Name: "close of a shell ends what it has left running", run: shellClose},
		{Name: "close of a shell ends the line that runs", run: shellCloseRunning},
		{Name: "close of a shell twice is harmless and a line after it fails", run: shellCloseTwice},
		{Name: "close of the handle closes its shells", run: shellCloseHandle},
		{Name: "a shell of a destroyed sandbox is lost", needs: needDestroyed, run: shellDestroyed},
	}
}

func needDestroyed(h Harness) string {
	if h.Behind.Destroy == nil {
		return "Behind.Destroy"
	}
	return ""
}

func shellClose(r *rig) {
	sb, sh := r.shellBox()
	other := r.shell(sb, sandbox.ShellOptions{})
	marker, spared := newMarker(), newMarker()
	r.says(sh, sleeper(marker)+" & (setsid "+sleeper(marker)+" &) ; :", "")
	r.says(other, sleeper(spared)+" &", "")
	r.awaitCount(sb, marker, 2)
	r.awaitCount(sb, spared, 1)
	if err := sh.Close(); err != nil {
		r.Errorf("Close: %v", err)
	}
	r.awaitCount(sb, marker, 0)
	if n := r.count(sb, spared); n != 1 {
		r.Errorf("%d processes of the other shell are left, want 1", n)
	}
}

func shellCloseRunning(r *rig) {
	sb, sh := r.shellBox()
	marker := newMarker()
	p := r.line(r.ctx, sh, sleeper(marker)+"; echo went on", sandbox.Command{})
	r.awaitCount(sb, marker, 1)
	r.within(r.h.Patience, "Close", func() {
		if err := sh.Close(); err != nil {
			r.Errorf("Close: %v", err)
		}
	})
	r.over(p)
	r.awaitCount(sb, marker, 0)
	if out := p.stdout.String(); out != "" {
		r.Errorf("the line went on: %q", out)
	}
}

// over holds that a line whose shell was closed has ended, and not well.
func (r *rig) over(p running) {
	r.Helper()
	if exit, err := r.wait(p); err != nil {
		r.wantCode("Wait after Close", err, sandbox.CodeUnavailable)
	} else if exit.Code == 0 {
		r.Errorf("Wait after Close says %+v", exit)
	}
}

func shellCloseTwice(r *rig) {
	sb, sh := r.shellBox()
	r.says(sh, ":", "")
	for range 2 {
		r.within(r.h.Patience, "Close", func() {
			if err := sh.Close(); err != nil {
				r.Errorf("Close: %v", err)
			}
		})
	}
	_, err := sh.Run(r.ctx, ": >${TMPDIR:-/tmp}/never", sandbox.Command{})
	r.wantCode("Run after Close", err, sandbox.CodeUnavailable, sandbox.CodeNotFound)
	if got := r.output(sb, script("[ -e ${TMPDIR:-/tmp}/never ] || echo nothing ran")); got != "nothing ran" {
		r.Error("a line ran in a closed shell")
	}
}

func shellCloseHandle(r *rig) {
	r.needShells()
	s, sb := r.box("a")
	watcher := r.open(s)
	sh := r.shell(sb, sandbox.ShellOptions{})
	marker := newMarker()
	r.says(sh, sleeper(marker)+" &", "")
	p := r.line(r.ctx, sh, sleeper(marker), sandbox.Command{})
	r.awaitCount(watcher, marker, 2)
	if err := sb.Close(); err != nil {
		r.Errorf("Close: %v", err)
	}
	r.over(p)
	r.awaitCount(watcher, marker, 0)
	_, err := sh.Run(r.ctx, ":", sandbox.Command{})
	r.wantCode("Run after Close of the handle", err, sandbox.CodeUnavailable, sandbox.CodeNotFound)
	_, err = sb.OpenShell(r.ctx, sandbox.ShellOptions{})
	r.wantCode("OpenShell after Close of the handle", err, sandbox.CodeUnavailable)
}

func shellDestroyed(r *rig) {
	r.needShells()
	s, sb := r.box("a")
	sh := r.shell(sb, sandbox.ShellOptions{})
	marker := newMarker()
	p := r.line(r.ctx, sh, sleeper(marker), sandbox.Command{})
	r.awaitCount(sb, marker, 1)
	r.h.Behind.Destroy(r, r.p, s.Name)
	r.lost(p)
	_, err := sh.Run(r.ctx, ":", sandbox.Command{})
	r.wantCode("Run in a destroyed sandbox", err, sandbox.CodeUnavailable)
	r.within(r.h.Patience, "Close", func() { sh.Close() })
}
