package tools

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/tools/schema"
)

func TestExecKeepsTheShell(t *testing.T) {
	r := newRig(t, plain)
	a := r.call("exec", obj{"command": "mkdir -p sub; cd sub; x=1; echo out; echo err >&2"})
	d := data[schema.ExecResult](t, a)
	if d.State != "ended" || d.Stdout.Text != "out\n" || d.Stderr.Text != "err\n" || d.ExitCode != 0 || a.Failed || d.Sandbox == "" {
		t.Errorf("%+v", d)
	}
	if a.Text != "out\n[stderr]\nerr\n" {
		t.Errorf("%q", a.Text)
	}
	a = r.call("exec", obj{"command": "pwd; echo $x; (exit 3)"})
	d = data[schema.ExecResult](t, a)
	if d.Stdout.Text != "/workspace/sub\n1\n" || d.ExitCode != 3 || !a.Failed || !strings.HasSuffix(a.Text, "[exit status 3]") {
		t.Errorf("%+v %q", d, a.Text)
	}
	if d := data[schema.ExecResult](t, r.call("exec", obj{"command": "read line; echo got $line", "stdin": "it\n"})); d.Stdout.Text != "got it\n" {
		t.Errorf("%+v", d)
	}
	if a := r.call("exec", obj{"restart": true}); data[schema.ExecResult](t, a).State != "restarted" {
		t.Errorf("%+v", a)
	}
	d = data[schema.ExecResult](t, r.call("exec", obj{"command": "pwd; echo [$x]"}))
	if d.Stdout.Text != "/workspace\n[]\n" || d.Restarted {
		t.Errorf("after a restart: %+v", d)
	}
	r.call("exec", obj{"command": "cd /tmp; y=2"})
	a = r.call("exec", obj{"command": "pwd; echo [$y]", "restart": true})
	if d := data[schema.ExecResult](t, a); d.Restarted || d.Stdout.Text != "/workspace\n[]\n" || !strings.Contains(a.Text, "as asked") {
		t.Errorf("%+v %q", d, a.Text)
	}
	if a := r.call("exec", obj{"command": "true"}); a.Text != "[no output, exit status 0]" {
		t.Errorf("%q", a.Text)
	}
}

// TestLinesTakeTurns holds that lines which come at the same time are run one
// after another, each in the state that the one before has left.
func TestLinesTakeTurns(t *testing.T) {
	r := newRig(t, plain)
	takeTurns(t, r)
}

func takeTurns(t *testing.T, r *rig) {
	t.Helper()
	r.call("exec", obj{"command": "n=0"})
	const lines = 16
	errs := make(chan error, lines)
	ctx, input := deadline(t), in(t, obj{"command": "m=$n; n=$((m+1))"})
	for range lines {
		k := r.kit(Session{Who: someone("a")})
		go func() {
			_, err := k.Call(ctx, "exec", input, nil)
			errs <- err
		}()
	}
	for range lines {
		must(t, <-errs)
	}
	if d := data[schema.ExecResult](t, r.call("exec", obj{"command": "echo $n"})); d.Stdout.Text != "16\n" {
		t.Errorf("%+v", d)
	}
}

// TestSessionsHaveShellsOfTheirOwn holds that nothing of one session is found by
// another one.
func TestSessionsHaveShellsOfTheirOwn(t *testing.T) {
	r := newRig(t, plain)
	r.call("exec", obj{"command": "secret=1"})
	id := data[schema.ExecResult](t, r.call("exec", obj{"command": "sleep 600", "background": true})).ID
	r.Kit = r.kit(Session{Who: someone("b")})
	if d := data[schema.ExecResult](t, r.call("exec", obj{"command": "echo [$secret]"})); d.Stdout.Text != "[]\n" {
		t.Errorf("%+v", d)
	}
	if d := data[schema.ProcessResult](t, r.call("process", obj{"action": "list"})); len(d.Commands) != 0 {
		t.Errorf("%+v", d)
	}
	there := r.refused(sandbox.CodeNotFound, "process", obj{"action": "kill", "id": id})
	never := r.refused(sandbox.CodeNotFound, "process", obj{"action": "kill", "id": strings.Repeat("a", len(id))})
	if there.Message != never.Message || there.Hint != never.Hint {
		t.Errorf("what is there and what is not differ: %v, %v", there, never)
	}
}

func TestExecBoundsItsOutput(t *testing.T) {
	r := newRig(t, plain)
	a := r.call("exec", obj{"command": "i=0; while [ $i -lt 20000 ]; do echo line $i äöü; i=$((i+1)); done"})
	d := data[schema.ExecResult](t, a)
	if !d.Truncated || d.Stdout.Bytes < 300_000 || len(d.Stdout.Text) > 66<<10 || d.Stdout.Omitted == 0 {
		t.Errorf("%d bytes, %d shown, %d left out", d.Stdout.Bytes, len(d.Stdout.Text), d.Stdout.Omitted)
	}
	if !strings.HasPrefix(d.Stdout.Text, "line 0 äöü\n") || !strings.HasSuffix(d.Stdout.Text, "line 19999 äöü\n") || strings.ContainsRune(d.Stdout.Text, '\ufffd') {
		t.Errorf("neither beginning nor end: %q … %q", d.Stdout.Text[:40], d.Stdout.Text[len(d.Stdout.Text)-40:])
	}
	if !strings.Contains(a.Text, "write the output to a file") {
		t.Errorf("it is not said how to see the rest: %q", a.Text[len(a.Text)-300:])
	}
	r = newRig(t, `{"agents": {"defaults": {"sandbox": {"provider": "local", "limits": {"maxOutputBytes": 10}}}}}`)
	d = data[schema.ExecResult](t, r.call("exec", obj{"command": "echo 0123456789abcdef"}))
	if d.Limit == nil || d.Limit.Limit != sandbox.LimitMaxOutputBytes || d.Stdout.Omitted != 7 || !strings.HasPrefix(d.Stdout.Text, "01234\n[… 7 bytes left out …]\n") {
		t.Errorf("%+v", d)
	}
}

func TestExecTimesOut(t *testing.T) {
	r := newRig(t, `{"agents": {"defaults": {"sandbox": {"provider": "local", "limits": {"timeout": "1s"}}}}}`)
	for name, v := range map[string]obj{
		"by the settings":               {"command": "sleep 600"},
		"with as much as they let":      {"command": "sleep 600", "timeout": 1},
		"with more than they let":       {"command": "sleep 600", "timeout": 86400},
		"on a terminal":                 {"command": "sleep 600", "tty": true},
		"with more, also on a terminal": {"command": "sleep 600", "tty": true, "timeout": 600},
	} {
		a := r.call("exec", v)
		if d := data[schema.ExecResult](t, a); !d.TimedOut || !a.Failed || !strings.Contains(a.Text, "time limit") {
			t.Errorf("%s: %+v", name, d)
		}
		if !strings.Contains(a.Text, "limits.timeout") || strings.Contains(a.Text, "with timeout") {
			t.Errorf("%s: it is told to ask for what it does not get: %q", name, a.Text)
		}
	}
	id := data[schema.ExecResult](t, r.call("exec", obj{"command": "sleep 600", "background": true, "timeout": 600})).ID
	a := r.call("process", obj{"action": "poll", "id": id, "wait": 60})
	if d := data[schema.ProcessResult](t, a); d.Commands[0].State != "ended" || !d.Commands[0].TimedOut || !a.Failed {
		t.Errorf("in the background: %+v", d)
	}
	for name, settings := range map[string]string{"less than the settings let": `"1h"`, "where they let all": `"0s"`} {
		r := newRig(t, `{"agents": {"defaults": {"sandbox": {"provider": "local", "limits": {"timeout": `+settings+`}}}}}`)
		a := r.call("exec", obj{"command": "sleep 600", "timeout": 1})
		if !strings.Contains(a.Text, "give it more with timeout") || strings.Contains(a.Text, "limits.timeout") {
			t.Errorf("%s: %q", name, a.Text)
		}
	}
}

func TestProgressIsReported(t *testing.T) {
	r := newRig(t, plain)
	var reported []Progress
	a, err := r.Call(deadline(t), "exec", in(t, obj{"command": "echo one; printf two"}), func(p Progress) { reported = append(reported, p) })
	must(t, err)
	if len(reported) == 0 || reported[0].Bytes < 3 || reported[0].Message == "" {
		t.Errorf("%+v, then %+v", reported, a)
	}
}

func TestCancelEndsTheCall(t *testing.T) {
	r := newRig(t, plain)
	for name, v := range map[string]obj{"line": {"command": "echo up; sleep 600"}, "terminal": {"command": "echo up; sleep 600", "tty": true}} {
		ctx, cancel := context.WithCancel(deadline(t))
		_, err := r.Call(ctx, "exec", in(t, v), func(Progress) { cancel() })
		if sandbox.CodeOf(err) != sandbox.CodeExecution {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
	id := data[schema.ExecResult](t, r.call("exec", obj{"command": "sleep 600", "background": true})).ID
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := r.Call(ctx, "process", in(t, obj{"action": "poll", "id": id, "wait": 300}), nil); sandbox.CodeOf(err) != sandbox.CodeTimeout {
		t.Errorf("poll: %v", err)
	}
}

// poll collects what a command writes until it has written so much, or has
// ended.
func (r *rig) poll(id, until string) (text, errs string, last schema.ProcessResult) {
	r.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		last = data[schema.ProcessResult](r.t, r.call("process", obj{"action": "poll", "id": id, "wait": 10}))
		text, errs = text+last.Output.Text, errs+last.Errors.Text
		if until != "" && strings.Contains(text, until) || last.Commands[0].State != "running" && !last.More {
			return text, errs, last
		}
	}
	r.t.Fatalf("%s did not come: %q", until, text)
	return
}

func TestBackground(t *testing.T) {
	r := newRig(t, plain)
	if a := r.call("process", obj{"action": "list"}); a.Text == "" || len(data[schema.ProcessResult](t, a).Commands) != 0 {
		t.Errorf("%+v", a)
	}
	a := r.call("exec", obj{"command": "echo ready; read x; echo got $x; echo bad >&2; exit 4", "background": true, "env": obj{"A": "b"}})
	id := data[schema.ExecResult](t, a).ID
	if id == "" || !strings.Contains(a.Text, id) {
		t.Fatalf("%+v", a)
	}
	text, _, last := r.poll(id, "ready\n")
	if text != "ready\n" || last.Commands[0].State != "running" || last.Commands[0].ExitCode != nil {
		t.Errorf("%q, %+v", text, last)
	}
	if d := data[schema.ProcessResult](t, r.call("process", obj{"action": "write", "id": id, "data": "it\n"})); len(d.Commands) != 1 {
		t.Errorf("%+v", d)
	}
	text, errs, last := r.poll(id, "")
	if text != "got it\n" || errs != "bad\n" || last.Commands[0].ExitCode == nil || *last.Commands[0].ExitCode != 4 || last.Commands[0].Ended == nil {
		t.Errorf("%q, %q, %+v", text, errs, last)
	}
	r.refused(sandbox.CodeNotFound, "process", obj{"action": "poll", "id": "x"})
	if e := r.refused(sandbox.CodeValidation, "exec", obj{"command": "x", "tag": "a"}); e.Field != "tag" {
		t.Errorf("%v", e)
	}
	id = data[schema.ExecResult](t, r.call("exec", obj{"command": "sleep 600", "background": true, "tty": true, "tag": "long"})).ID
	d := data[schema.ProcessResult](t, r.call("process", obj{"action": "resize", "id": "long", "rows": 3, "cols": 4})).Commands[0]
	if d.ID != id || d.Tag != "long" || d.PID <= 0 {
		t.Errorf("%+v", d)
	}
	r.refused(sandbox.CodeNotFound, "process", obj{"action": "resize", "id": "none"})
	a = r.call("process", obj{"action": "kill", "id": id})
	if d := data[schema.ProcessResult](t, a); d.Commands[0].State == "running" {
		t.Errorf("%+v", d)
	}
	if d := data[schema.ProcessResult](t, r.call("process", obj{"action": "list"})); len(d.Commands) != 2 {
		t.Errorf("%+v", d)
	}
	if e := r.refused(sandbox.CodeValidation, "exec", obj{"command": "x", "env": obj{"A": "b"}}); e.Field != "env" {
		t.Errorf("%v", e)
	}
}
