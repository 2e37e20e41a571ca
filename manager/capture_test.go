package manager_test

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/violation"
	"github.com/bulkhead-dev/sandbox/manager"
)

func TestCapture(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, sandbox.AllowOnce, sandbox.Deny)
	m := g.manager(`{"agents": {"defaults": {"sandbox": {"provider": "local", "limits": {"maxOutputBytes": 10}}}}}`)
	capture := func(ask bool, args ...string) sandbox.Result {
		t.Helper()
		r, err := m.Capture(context.Background(), manager.Request{Who: someone, Ask: ask, Command: sandbox.Command{Args: args}})
		must(t, err)
		return r
	}
	r := capture(false, "sh", "-c", "echo 123456789; echo more; echo err >&2; exit 3")
	if string(r.Stdout) != "123456789\n" || r.StdoutBytes != 15 || !r.Truncated || string(r.Stderr) != "err\n" || r.StderrBytes != 4 || r.ExitCode != 3 || r.Blocked {
		t.Errorf("%+v", r)
	}
	r = capture(false, "reach", "HOST/x")
	if !r.Blocked || r.BlockedResource != g.host+"/x" || len(r.Violations) != 1 || !strings.Contains(string(r.Stderr), "<sandbox_violations>") || string(violation.Strip(r.Stderr)) != "touch: can" {
		t.Errorf("%+v: %s", r, r.Stderr)
	}
	r = capture(true, "reach", "HOST/x")
	if r.Blocked || string(r.Stdout) != "done" || len(r.Stderr) != 0 || r.StderrBytes != 0 {
		t.Errorf("run again: %+v: %s", r, r.Stderr)
	}
	r = capture(true, "reach", "HOST/x")
	if !r.Blocked || !strings.Contains(r.BlockedReason, "asked for and denied") {
		t.Errorf("denied: %+v", r)
	}
	if _, err := m.Capture(context.Background(), manager.Request{Who: someone, Command: sandbox.Command{Args: []string{"true"}, Stdout: io.Discard}}); sandbox.CodeOf(err) != sandbox.CodeValidation {
		t.Errorf("output that goes elsewhere: %v", err)
	}
}

// TestInteractiveShellsAreNotBlocked holds that how a person leaves a shell
// says nothing about rules.
func TestInteractiveShellsAreNotBlocked(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	m := g.manager(guardedSettings)
	line := "reach HOST/x; exit 1"
	o, err := m.Shell(context.Background(), manager.Request{Who: someone, Command: sandbox.Command{TTY: &sandbox.TTY{Rows: 2, Cols: 20}, Stdin: strings.NewReader(line + "\n")}})
	if err != nil || o.Blocked || o.Exit.Code == 0 {
		t.Errorf("%+v, %v", o, err)
	}
	o, err = m.Shell(context.Background(), manager.Request{Who: someone, Command: sandbox.Command{Args: []string{"-c", line}}})
	if err != nil || !o.Blocked {
		t.Errorf("of a line: %+v, %v", o, err)
	}
}
