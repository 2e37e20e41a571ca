//go:build linux

package sandboxexec

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

func TestCommand(t *testing.T) {
	r := newRig(t)
	s := r.spec("a")
	h := r.open(s)
	must(t, os.Mkdir(filepath.Join(s.Mounts[0].Source, "sub"), 0o700))
	got := r.run(h, "sh", "-c", `pwd; echo "$FROM_SPEC $HOME $TMPDIR"; echo err >&2; exit 7`)
	home := filepath.Join(r.state, "local", "tmp", "a")
	if got.exit.Code != 7 || got.out != s.Mounts[0].Source+"\nspec "+home+" "+home+"\n" || got.err != "err\n" {
		t.Errorf("%+v", got)
	}
	var out bytes.Buffer
	p, err := h.Start(t.Context(), sandbox.Command{Args: []string{"sh", "-c", "pwd; cat"}, Dir: "/workspace/sub", Stdin: strings.NewReader("in"), Stdout: &out, Env: map[string]string{"A": "b"}})
	must(t, err)
	if exit, err := p.Wait(); err != nil || exit.Code != 0 || out.String() != s.Mounts[0].Source+"/sub\nin" {
		t.Errorf("%+v, %v, %q", exit, err, out.String())
	}
	if got := r.run(h, "no-such-program"); got.exit.Code != 127 {
		t.Errorf("%+v", got.exit)
	}
	if got := r.run(h, "sh", "-c", "kill -9 $$"); got.exit.Code != 137 || got.exit.Signal != "KILL" {
		t.Errorf("%+v", got.exit)
	}
	out.Reset()
	p, err = h.Start(t.Context(), sandbox.Command{Args: []string{"env"}, Bare: true, Env: map[string]string{"ONLY": "1"}, Stdout: &out})
	must(t, err)
	if _, err := p.Wait(); err != nil || !strings.Contains(out.String(), "ONLY=1\n") || strings.Contains(out.String(), "HOME") || strings.Contains(out.String(), "SPEC") {
		t.Errorf("a bare command has %q", out.String())
	}
	for name, c := range map[string]sandbox.Command{
		"terminal": {Args: []string{"true"}, TTY: &sandbox.TTY{Rows: 1, Cols: 1}}, "detached": {Args: []string{"true"}, Detach: true},
		"memory": {Args: []string{"true"}, Limits: sandbox.Limits{Memory: 1}},
	} {
		if _, err := h.Start(t.Context(), c); sandbox.CodeOf(err) != sandbox.CodeUnsupported {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTreesEnd holds that a command takes its process group with it, whatever
// ends it.
func TestTreesEnd(t *testing.T) {
	for _, end := range []string{"itself", "kill", "context", "handle"} {
		t.Run(end, func(t *testing.T) {
			r := newRig(t)
			s := r.spec("a")
			h := r.open(s)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			last := "wait"
			if end == "itself" {
				last = "exit 3"
			}
			p, err := h.Start(ctx, sandbox.Command{Args: []string{"sh", "-c", "sleep 300 & echo $! >pid; " + last}})
			must(t, err)
			pid := r.pidIn(filepath.Join(s.Mounts[0].Source, "pid"))
			switch end {
			case "kill":
				must(t, p.Kill(t.Context()))
			case "context":
				cancel()
			case "handle":
				must(t, h.Close())
			}
			exit, err := p.Wait()
			if err != nil || end == "itself" && exit.Code != 3 || end != "itself" && exit.Signal != "KILL" {
				t.Errorf("%+v, %v", exit, err)
			}
			testenv.Until(t, "the process ends", func() bool { return !alive(pid) })
		})
	}
}

func TestSignal(t *testing.T) {
	r := newRig(t)
	h := r.open(r.spec("a"))
	var out bytes.Buffer
	p, err := h.Start(t.Context(), sandbox.Command{Args: []string{"sh", "-c", "trap 'echo term; exit 4' TERM; >ready; while :; do sleep 0.05; done"}, Stdout: &out})
	must(t, err)
	testenv.Until(t, "the trap is set", func() bool { _, err := os.Stat(filepath.Join(r.workspaces, "a", "ready")); return err == nil })
	if err := p.Signal(t.Context(), "NONE"); sandbox.CodeOf(err) != sandbox.CodeValidation {
		t.Error(err)
	}
	must(t, p.Signal(t.Context(), "TERM"))
	if exit, err := p.Wait(); err != nil || exit.Code != 4 || out.String() != "term\n" {
		t.Errorf("%+v, %v, %q", exit, err, out.String())
	}
	if err := p.Signal(t.Context(), "TERM"); sandbox.CodeOf(err) != sandbox.CodeNotFound {
		t.Error(err)
	}
}

// TestGroupEndsWithUs holds that the leader ends the group when the pipe to it is
// closed, as it is when this program dies.
func TestGroupEndsWithUs(t *testing.T) {
	r := newRig(t)
	s := r.spec("a")
	h := r.open(s)
	p, err := h.Start(t.Context(), sandbox.Command{Args: []string{"sh", "-c", "echo $$ >pid; sleep 300"}})
	must(t, err)
	pid := r.pidIn(filepath.Join(s.Mounts[0].Source, "pid"))
	must(t, p.(*process).group.held.Close())
	testenv.Until(t, "the command ends", func() bool { return !alive(pid) })
	if exit, err := p.Wait(); err != nil || exit.Signal != "KILL" {
		t.Errorf("%+v, %v", exit, err)
	}
}

// TestTrial holds that nothing is opened whose profile is not taken, or does not
// hold.
func TestTrial(t *testing.T) {
	r := newRig(t)
	s := r.spec("a")
	secret, fixed := filepath.Join(r.home, "secret"), filepath.Join(r.home, "fixed")
	must(t, os.WriteFile(secret, []byte("x"), 0o600))
	must(t, os.WriteFile(fixed, []byte("x"), 0o600))
	r.file("broken", "")
	if _, err := r.p.Create(t.Context(), s); sandbox.CodeOf(err) != sandbox.CodeUnavailable || !strings.Contains(err.Error(), "profile is broken") {
		t.Errorf("a profile that is not taken: %v", err)
	}
	must(t, os.Remove(filepath.Join(r.dir, "broken")))
	r.open(s)
	r.file("hole", "")
	for path, rules := range map[string]sandbox.FilesystemRules{secret: {DenyRead: []string{secret}}, fixed: {DenyWrite: []string{fixed}}} {
		s.Filesystem = rules
		if _, err := r.p.Open(t.Context(), s); sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked || !strings.Contains(err.Error(), path) && !strings.Contains(err.Error(), "/etc/") {
			t.Errorf("a deny that does not hold: %v", err)
		}
	}
	if b, err := os.ReadFile(fixed); err != nil || string(b) != "x" {
		t.Errorf("the trial has written: %q, %v", b, err)
	}
	r.p.o.Exec = filepath.Join(r.dir, "missing")
	if _, err := r.p.Open(t.Context(), s); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("without sandbox-exec: %v", err)
	}
}

// TestTmpIsOpen holds that home and temporary files are not closed with the state
// folder that they lie in.
func TestTmpIsOpen(t *testing.T) {
	r := newRig(t)
	s := r.spec("a")
	own := filepath.Join(r.home, "project")
	must(t, os.Mkdir(own, 0o700))
	s.Mounts[0].Source = own
	h := r.open(s)
	tmp := filepath.Join(r.state, "local", "tmp", "a")
	if v := h.Judge(sandbox.OpWrite, filepath.Join(tmp, "x")); !v.Allowed {
		t.Errorf("%+v", v)
	}
	for _, p := range []string{r.state, filepath.Join(r.state, "local", "tmp", "b"), filepath.Join(r.state, "tokens")} {
		if v := h.Judge(sandbox.OpRead, p); v.Allowed || !v.Builtin {
			t.Errorf("%s: %+v", p, v)
		}
	}
	if v := h.Judge(sandbox.OpWrite, "/workspace/x"); !v.Allowed || v.HostPath != filepath.Join(own, "x") {
		t.Errorf("%+v", v)
	}
}

// TestGrant holds that a handle with a grant has a profile with it.
func TestGrant(t *testing.T) {
	r := newRig(t)
	s := r.spec("a")
	h := r.open(s)
	other := filepath.Join(r.home, "other")
	must(t, os.Mkdir(other, 0o700))
	r.run(h, "true")
	if v := h.Judge(sandbox.OpWrite, other); v.Allowed || v.Builtin || v.HostPath != other || strings.Contains(r.profile(), other) {
		t.Errorf("before: %+v", v)
	}
	s.Grants = []sandbox.Grant{{Operation: sandbox.OpWrite, Path: other}}
	h = r.reopen(s)
	r.run(h, "true")
	if v := h.Judge(sandbox.OpWrite, other); !v.Allowed || !strings.Contains(r.profile(), `(subpath "`+other+`")`) {
		t.Errorf("after: %+v\n%s", v, r.profile())
	}
}

// TestOutputIsNotWaitedFor holds that what has left the group does not hold a
// command up for long.
func TestOutputIsNotWaitedFor(t *testing.T) {
	r := newRig(t)
	s := r.spec("a")
	h := r.open(s)
	began := time.Now()
	got := r.run(h, "sh", "-c", "setsid sh -c 'echo $$ >pid; sleep 300' & while ! [ -s pid ]; do sleep 0.01; done; echo out")
	if got.out != "out\n" || time.Since(began) > 30*time.Second {
		t.Errorf("%+v after %v", got, time.Since(began))
	}
	pid := r.pidIn(filepath.Join(s.Mounts[0].Source, "pid"))
	if p, err := os.FindProcess(pid); err == nil { // the test's own
		p.Kill()
	}
}
