package manager_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/manager"
)

// judged runs args for someone and returns the error.
func (g *guarded) judged(m *manager.Manager, args []string, change ...func(*manager.Request)) error {
	g.t.Helper()
	req := manager.Request{Who: someone, Command: sandbox.Command{Args: args, Stdout: io.Discard, Stderr: io.Discard}}
	for _, c := range change {
		c(&req)
	}
	_, err := m.Run(context.Background(), req)
	return err
}

func settingsWith(more string) string {
	return `{"agents": {"defaults": {"sandbox": {"provider": "local", ` + more + `}}}}`
}

// TestRefusedCommandMakesNothing holds that a command which the policy denies
// leaves no trace but the refusal, whichever way it comes.
func TestRefusedCommandMakesNothing(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, sandbox.AllowOnce)
	m := g.manager(settingsWith(`"commands": {"block": ["reach forbidden:*"], "subagentBlock": ["reach:*"]}, "tools": {"deny": ["process"]}`))
	with := func(set func(*manager.Request)) []func(*manager.Request) { return []func(*manager.Request){set} }
	tests := []struct {
		name   string
		args   []string
		change []func(*manager.Request)
		says   string
	}{
		{"a rule of the settings", []string{"reach", "forbidden", "x"}, nil, "commands.block"},
		{"a danger", []string{"rm", "-rf", "/"}, nil, "removal"},
		{"a danger behind a shell", []string{"sh", "-c", "true; rm -rf /"}, nil, "removal"},
		{"a sub-agent", []string{"reach", "x"}, with(func(r *manager.Request) { r.Subagent = true }), "commands.subagentBlock"},
		{"a denied tool", []string{"reach", "x"}, with(func(r *manager.Request) { r.Tool = "process" }), "tools.deny"},
		{"an unknown tool", []string{"reach", "x"}, with(func(r *manager.Request) { r.Tool = "no such tool" }), "name"},
		{"asking does not help", []string{"rm", "-rf", "/"}, with(func(r *manager.Request) { r.Ask = true }), "removal"},
		{"leaving does not help", []string{"rm", "-rf", "/"}, with(func(r *manager.Request) { r.Unsandboxed = true }), "removal"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := g.judged(m, tt.args, tt.change...)
			var e *sandbox.Error
			if !errors.As(err, &e) || e.Code != sandbox.CodeDenyTool || e.Hint == "" || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v", err)
			}
		})
	}
	if err := g.judged(m, []string{"reach"}); err != nil {
		t.Errorf("a harmless one: %v", err)
	}
	if len(g.asked) != 0 || g.runs != 1 {
		t.Errorf("asked %+v, %d runs", g.asked, g.runs)
	}
	l, err := m.List(context.Background(), manager.ListOptions{})
	if err != nil || len(l.Containers) != 1 {
		t.Errorf("%+v, %v", l.Containers, err)
	}
}

// TestShellLinesAreJudged holds that the line of a shell passes the same gate.
func TestShellLinesAreJudged(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	m := g.manager(guardedSettings)
	for _, args := range [][]string{{"-c", "rm -rf /"}, {"-e", "-c", "rm -rf /"}, {"-c", "rm -rf \"$1\"", "sh", "/"}} {
		_, err := m.Shell(context.Background(), manager.Request{Who: someone, Command: sandbox.Command{Args: args}})
		if sandbox.CodeOf(err) != sandbox.CodeDenyTool {
			t.Errorf("%q: %v", args, err)
		}
	}
	_, err := m.Capture(context.Background(), manager.Request{Who: someone, Command: sandbox.Command{Args: []string{"rm", "-rf", "/"}}})
	if sandbox.CodeOf(err) != sandbox.CodeDenyTool {
		t.Errorf("captured: %v", err)
	}
}

// TestQuestionsAboutCommands holds who answers for a command that is to be
// asked about.
func TestQuestionsAboutCommands(t *testing.T) {
	t.Parallel()
	const asks = `"commands": {"autoAllowIfSandboxed": false, "strictness": "strict"}`
	ask := func(r *manager.Request) { r.Ask = true }
	for answer, want := range map[sandbox.Permission]struct{ first, second, elsewhere bool }{
		sandbox.AllowOnce:      {true, false, false},
		sandbox.AllowSession:   {true, true, false},
		sandbox.AllowPermanent: {true, true, false},
		sandbox.Deny:           {false, false, false},
		"perhaps":              {false, false, false},
	} {
		t.Run(string(answer), func(t *testing.T) {
			g := newGuarded(t, answer)
			m := g.manager(settingsWith(asks))
			check := func(what string, err error, allowed bool) {
				t.Helper()
				if (err == nil) != allowed || err != nil && (sandbox.CodeOf(err) != sandbox.CodeDenyTool || !strings.Contains(err.Error(), "commands.allow")) {
					t.Errorf("%s: %v", what, err)
				}
			}
			check("first", g.judged(m, []string{"reach", "/workspace/x"}, ask), want.first)
			if len(g.asked) != 1 || g.asked[0].Kind != sandbox.ResourceCommand || g.asked[0].Operation != sandbox.OpExecute || g.asked[0].Resource != "reach /workspace/x" || g.asked[0].Reason == "" {
				t.Errorf("asked %+v", g.asked)
			}
			check("again", g.judged(m, []string{"reach", "/workspace/x"}), want.second)
			check("another command", g.judged(m, []string{"reach", "/workspace/y"}), want.elsewhere)
			check("another folder", g.judged(m, []string{"reach", "/workspace/x"}, func(r *manager.Request) { r.Command.Dir = "/tmp" }), want.elsewhere)
			check("other variables", g.judged(m, []string{"reach", "/workspace/x"}, func(r *manager.Request) { r.Command.Env = map[string]string{"X": "1"} }), want.elsewhere)
			check("with input", g.judged(m, []string{"reach", "/workspace/x"}, func(r *manager.Request) { r.Command.Stdin = strings.NewReader("x") }), want.elsewhere)
			check("as a tool", g.judged(m, []string{"reach", "/workspace/x"}, func(r *manager.Request) { r.Tool = "exec" }), want.elsewhere)
			check("another agent", g.judged(m, []string{"reach", "/workspace/x"}, func(r *manager.Request) { r.Who.Agent = "b" }), want.elsewhere)
			check("a sub-agent", g.judged(m, []string{"reach", "/workspace/x"}, func(r *manager.Request) { r.Subagent = true }), want.elsewhere)
		})
	}
}

// TestInsideASandboxNobodyIsAsked holds the default: what a sandbox holds back
// anyway needs no question, and what has no sandbox does.
func TestInsideASandboxNobodyIsAsked(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, sandbox.Deny)
	line := []string{"sh", "-c", "reach $(reach)"}
	if err := g.judged(g.manager(guardedSettings), line, func(r *manager.Request) { r.Ask = true }); sandbox.CodeOf(err) == sandbox.CodeDenyTool || len(g.asked) != 0 {
		t.Errorf("%v; asked %+v", err, g.asked)
	}
}

// TestQuestionsTellOfTheCall holds that who is asked hears what else the call
// brings along.
func TestQuestionsTellOfTheCall(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, sandbox.Deny)
	m := g.manager(settingsWith(`"commands": {"autoAllowIfSandboxed": false, "strictness": "strict"}`))
	g.judged(m, []string{"reach"}, func(r *manager.Request) {
		r.Ask, r.Command.Stdin = true, strings.NewReader("x")
		r.Command.Env = map[string]string{"TOKEN": "secret", "ACCOUNT": "x"}
	})
	if len(g.asked) != 1 || !strings.Contains(g.asked[0].Reason, "ACCOUNT, TOKEN") || !strings.Contains(g.asked[0].Reason, "input") || strings.Contains(g.asked[0].Reason, "secret") {
		t.Errorf("asked %+v", g.asked)
	}
}
