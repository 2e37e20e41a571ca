package manager_test

import (
	"context"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/manager"
)

// TestWarnings holds that what the gate warns about in a line comes with its
// result, by every way of running it, and that an everyday line has no warning.
func TestWarnings(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	m := g.manager(guardedSettings)
	const want = `"$(" puts in what a command prints`
	run := func(text string) string {
		t.Helper()
		r, err := m.Capture(context.Background(), manager.Request{Who: someone, Command: sandbox.Command{Args: []string{"sh", "-c", text}}})
		must(t, err)
		return strings.Join(r.Warnings, ", ")
	}
	for text, want := range map[string]string{
		"echo $(echo a)": want, "echo a; echo b | cat": "", "echo $(pwd)": "", "echo '$(echo a)'": "", "IFS=/ true": "IFS changes where the shell cuts words",
	} {
		if got := run(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	o, err := m.Run(context.Background(), manager.Request{Who: someone, Command: sandbox.Command{Args: []string{"sh", "-c", "echo $(echo a)"}}})
	if err != nil || strings.Join(o.Warnings, ", ") != want {
		t.Errorf("run: %q, %v", o.Warnings, err)
	}
	o, err = m.Shell(context.Background(), manager.Request{Who: someone, Command: sandbox.Command{Args: []string{"-c", "echo $(echo a)"}}})
	if err != nil || strings.Join(o.Warnings, ", ") != want {
		t.Errorf("a line of a shell: %q, %v", o.Warnings, err)
	}
}

// TestExplainWarns holds that explain shows each warning about a command, also
// where the line is simply allowed.
func TestExplainWarns(t *testing.T) {
	t.Parallel()
	e := explain(t, newMachine(t), manager.Questions{Command: "ls | wc"})
	for _, v := range e.Verdicts {
		if v.Operation == "warning" && v.Verdict == "warn" && strings.HasPrefix(v.Reason, `"|" pipes one command into another, which strictness strict refuses; instead: `) {
			return
		}
	}
	t.Errorf("no warning: %+v", e.Verdicts)
}
