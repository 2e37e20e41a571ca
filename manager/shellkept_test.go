package manager_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/policy"
)

// openShell opens a shell that stays, which ends with the test.
func openShell(t testing.TB, m *manager.Manager, who config.Who) *manager.Shell {
	t.Helper()
	ctx, done := context.WithTimeout(context.Background(), 2*time.Minute)
	defer done()
	s, err := m.OpenShell(ctx, manager.Request{Who: who}, sandbox.ShellOptions{})
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// typed runs a line in s.
func typed(t testing.TB, s *manager.Shell, line string) (string, manager.Outcome) {
	t.Helper()
	var out logBuffer // both outputs come at the same time
	ctx, done := context.WithTimeout(context.Background(), 2*time.Minute)
	defer done()
	o, err := s.Run(ctx, manager.Line{Text: line, Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatalf("%s: %q, %v", line, out.String(), err)
	}
	return strings.TrimSpace(out.String()), o
}

// expect runs a line and holds what it says, and whether the shell was opened
// anew for it.
func expect(t testing.TB, s *manager.Shell, line, want string, restarted bool) {
	t.Helper()
	got, o := typed(t, s, line)
	if got != want || o.Exit.Restarted != restarted {
		t.Errorf("%s: %q, restarted %v; want %q, %v", line, got, o.Exit.Restarted, want, restarted)
	}
}

func TestShellStays(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.manager("")
	s := openShell(t, m, who("kept"))
	expect(t, s, "cd /tmp; x=1; f() { echo f$x; }; export Y=2", "", false)
	expect(t, s, "pwd; f; sh -c 'echo $Y'", "/tmp\nf1\n2", false)
	if _, o := typed(t, s, "false"); o.Exit.Code != 1 || o.Name != s.Name() {
		t.Errorf("false: %+v in %s", o, s.Name())
	}

	t.Run("between lines it holds nobody up", func(t *testing.T) {
		rows, err := m.Select(context.Background(), "", manager.Selector{Session: "kept"}, false)
		must(t, err)
		if got := m.Recreate(context.Background(), rows); len(got.Removed) != 1 {
			t.Fatalf("recreate: %+v", got)
		}
		expect(t, s, "pwd; echo $x$Y", "/workspace", true)
		expect(t, s, "z=3; echo $z", "3", false)
	})
	t.Run("while a line runs it does", func(t *testing.T) {
		started := make(chan struct{})
		ended := make(chan error, 1)
		ctx, stop := context.WithCancel(context.Background())
		go func() {
			_, err := s.Run(ctx, manager.Line{Text: "sleep 1000", Started: func(sandbox.Process) { close(started) }})
			ended <- err
		}()
		<-started
		rows, err := m.Select(context.Background(), "", manager.Selector{Session: "kept"}, false)
		must(t, err)
		if got := m.Recreate(context.Background(), rows); len(got.Failed) != 1 || got.Failed[0].Code != sandbox.CodeBusy {
			t.Errorf("recreate: %+v", got)
		}
		stop()
		if err := <-ended; sandbox.CodeOf(err) != sandbox.CodeExecution {
			t.Errorf("a line whose caller gave up: %v", err)
		}
		expect(t, s, "echo $z; pgrep -x sleep", "3", false) // the result of the line before was reported
	})
	t.Run("a limit of time", func(t *testing.T) {
		o, err := s.Run(context.Background(), manager.Line{Text: "sleep 1000", Timeout: 50 * time.Millisecond})
		if err != nil || !o.TimedOut {
			t.Errorf("%+v, %v", o, err)
		}
	})
	t.Run("closed under a line", func(t *testing.T) {
		for range testenv.Rounds(5, 5, 20) {
			s, err := m.OpenShell(context.Background(), manager.Request{Who: who("closed")}, sandbox.ShellOptions{})
			must(t, err)
			_, err = s.Run(context.Background(), manager.Line{Text: "sleep 1000", Started: func(sandbox.Process) {
				go s.Close()
			}})
			if !sandbox.IsNotFound(err) {
				t.Fatalf("a line that Close has ended: %v", err)
			}
		}
	})
	t.Run("closed", func(t *testing.T) {
		must(t, s.Close())
		must(t, s.Close())
		if _, err := s.Run(context.Background(), manager.Line{Text: "true"}); !sandbox.IsNotFound(err) {
			t.Errorf("a line after the end: %v", err)
		}
		if s.Name() != "" || s.Program() != "" {
			t.Error("it is still somewhere")
		}
	})
}

// TestKeptShellIsJudged holds that no line comes around the gate, whose
// settings may change from line to line.
func TestKeptShellIsJudged(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	settings, err := config.Parse("test", []byte("{}"))
	must(t, err)
	var mu sync.Mutex
	r.change = func(o *manager.Options) {
		o.Reload = func() (*config.Settings, error) {
			mu.Lock()
			defer mu.Unlock()
			return settings, nil
		}
	}
	m := r.manager("")
	s := openShell(t, m, who("judged"))
	if _, err := s.Run(context.Background(), manager.Line{Text: "echo a; rm -rf /"}); sandbox.CodeOf(err) != sandbox.CodeDenyTool {
		t.Errorf("rm -rf /: %v", err)
	}
	expect(t, s, "id=7", "", false)
	mu.Lock()
	settings, err = config.Parse("test", []byte(`{"agents": {"defaults": {"sandbox": {"commands": {"block": ["env *", "env"]}}}}}`))
	mu.Unlock()
	must(t, err)
	if _, err := s.Run(context.Background(), manager.Line{Text: "env"}); sandbox.CodeOf(err) != sandbox.CodeDenyTool {
		t.Errorf("env, which is blocked now: %v", err)
	}
	expect(t, s, "echo $id", "7", false) // the sandbox is as it was, and so is the shell
}

func TestShellOfATool(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.manager(`{"agents": {"defaults": {"sandbox": {"tools": {"deny": ["exec"]}}}}}`)
	_, err := m.OpenShell(context.Background(), manager.Request{Who: who("s"), Tool: "exec"}, sandbox.ShellOptions{})
	if sandbox.CodeOf(err) != sandbox.CodeDenyTool {
		t.Errorf("a tool that is denied: %v", err)
	}
	_, err = m.OpenShell(context.Background(), manager.Request{Who: who("s"), Command: sandbox.Command{Args: []string{"x"}}}, sandbox.ShellOptions{})
	if sandbox.CodeOf(err) != sandbox.CodeValidation {
		t.Errorf("with a command: %v", err)
	}
	u, err := m.Usable(who("s"), nil)
	must(t, err)
	if u.Place != manager.Sandboxed || u.Tool("exec").Verdict != policy.Deny || u.Tool("read").Verdict != policy.Allow {
		t.Errorf("usable: %+v", u)
	}
}

// TestShellTakesTurns holds that lines of many callers do not mix.
func TestShellTakesTurns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := openShell(t, r.manager(""), who("turns"))
	typed(t, s, "n=0")
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { typed(t, s, "m=$n; sleep 0.01; n=$((m + 1))") })
	}
	wg.Wait()
	expect(t, s, "echo $n", "20", false)
}
