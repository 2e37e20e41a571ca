package running_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/provider/fake"
	"github.com/bulkhead-dev/sandbox/tools/running"
)

func TestCommandFromStartToEnd(t *testing.T) {
	r := newRig(t, plain)
	s := r.start("s", "sh", "-c", "echo out; echo err >&2; read x; echo got $x; exit 7")
	if s.State != running.StateRunning || s.Outcome != nil || s.Err != nil || len(s.ID) < 26 || !strings.Contains(s.Text, "echo out") {
		t.Fatalf("%+v", s)
	}
	p := r.until("s", s.ID, func(p running.Poll) bool { return len(p.Text(0)) == 8 })
	if string(p.Text(running.Stdout)) != "out\n" || string(p.Text(running.Stderr)) != "err\n" {
		t.Errorf("%+v", p)
	}
	must(t, r.Write(deadline(t), someone("s"), s.ID, []byte("it\n"), false))
	p = r.until("s", s.ID, nil)
	if p.Status.State != running.StateEnded || p.Status.Outcome == nil || p.Status.Outcome.Exit.Code != 7 || p.Dropped != 0 || p.Status.Bytes != 15 || p.Status.Lines != 3 {
		t.Errorf("%+v %+v", p.Status, p.Status.Outcome)
	}
	if string(p.Text(running.Stdout)) != "out\ngot it\n" {
		t.Errorf("%q", p.Text(running.Stdout))
	}
	codeIs(t, r.Write(deadline(t), someone("s"), s.ID, []byte("more"), false), sandbox.CodeNotFound)
	codeIs(t, r.Signal(deadline(t), someone("s"), s.ID, "TERM"), sandbox.CodeNotFound)
	r.clock.advance(9 * time.Minute)
	r.Sweep()
	if list := r.List(someone("s")); len(list) != 1 || list[0].State != running.StateEnded {
		t.Errorf("%+v", list)
	}
	r.clock.advance(2 * time.Minute)
	r.Sweep()
	if bytes, sessions, tenants := r.Held(); bytes != 0 || sessions != 0 || tenants != 0 {
		t.Errorf("%d bytes, %d sessions, %d tenants are still held", bytes, sessions, tenants)
	}
	_, err := r.Poll(deadline(t), someone("s"), s.ID, running.PollOptions{})
	codeIs(t, err, sandbox.CodeNotFound)
}

func TestPollCursors(t *testing.T) {
	r := newRig(t, plain)
	s := r.start("s", "cat")
	ctx := deadline(t)
	last := func(want string) {
		t.Helper()
		p, err := r.Poll(ctx, someone("s"), s.ID, running.PollOptions{From: running.SinceLast, Wait: 20 * time.Second})
		must(t, err)
		if string(p.Text(0)) != want {
			t.Errorf("%q, want %q", p.Text(0), want)
		}
	}
	must(t, r.Write(ctx, someone("s"), s.ID, []byte("one"), false))
	last("one")
	must(t, r.Write(ctx, someone("s"), s.ID, []byte("two"), false))
	last("two")
	p, err := r.Poll(ctx, someone("s"), s.ID, running.PollOptions{Max: 2})
	must(t, err)
	if string(p.Text(0)) != "on" || !p.More || p.Next != 2 {
		t.Errorf("%+v", p)
	}
	p, err = r.Poll(ctx, someone("s"), s.ID, running.PollOptions{From: p.Next})
	must(t, err)
	if string(p.Text(0)) != "etwo" || p.More {
		t.Errorf("%+v", p)
	}
	p, err = r.Poll(ctx, someone("s"), s.ID, running.PollOptions{From: 1 << 60})
	must(t, err)
	if len(p.Chunks) != 0 || p.Next != 6 {
		t.Errorf("beyond the end: %+v", p)
	}
	must(t, r.Write(ctx, someone("s"), s.ID, nil, true))
	if p := r.until("s", s.ID, nil); p.Status.Outcome == nil || p.Status.Outcome.Exit.Code != 0 {
		t.Errorf("%+v", p.Status)
	}
	// A wait that ends with its context is no error.
	s = r.start("s", "cat")
	short, done := context.WithCancel(ctx)
	done()
	p, err = r.Poll(short, someone("s"), s.ID, running.PollOptions{Wait: time.Hour})
	must(t, err)
	if p.Status.State != running.StateRunning {
		t.Errorf("%+v", p)
	}
}

// TestOthersFindNothing checks that an id is of use to its own session only,
// and that the answer to others is that for an id which never existed.
func TestOthersFindNothing(t *testing.T) {
	r := newRig(t, plain)
	s := r.start("s", "cat")
	shell, err := r.OpenShell(deadline(t), manager.Request{Who: someone("s")}, sandbox.ShellOptions{})
	must(t, err)
	ctx := deadline(t)
	others := map[string]running.PollOptions{"other": {}, "s2": {}}
	for session := range others {
		who := someone(session)
		tries := map[string]func(id string) error{
			"poll":   func(id string) error { _, err := r.Poll(ctx, who, id, running.PollOptions{}); return err },
			"write":  func(id string) error { return r.Write(ctx, who, id, []byte("x"), true) },
			"signal": func(id string) error { return r.Signal(ctx, who, id, "KILL") },
			"resize": func(id string) error { return r.Resize(ctx, who, id, sandbox.TTY{Rows: 1, Cols: 1}) },
			"kill":   func(id string) error { _, err := r.Kill(ctx, who, id); return err },
			"attach": func(id string) error { return r.Attach(ctx, who, id, nil) },
			"close":  func(id string) error { return r.CloseShell(who, id) },
			"line": func(id string) error {
				_, err := r.Line(ctx, manager.Request{Who: who}, id, manager.Line{Text: "true"})
				return err
			},
		}
		for name, try := range tries {
			for _, id := range []string{s.ID, shell.ID} {
				real, none := try(id), try(strings.Repeat("a", len(id)))
				codeIs(t, real, sandbox.CodeNotFound)
				if strings.Replace(real.Error(), id, "", -1) != strings.Replace(none.Error(), strings.Repeat("a", len(id)), "", -1) {
					t.Errorf("%s tells %q from %q", name, real, none)
				}
			}
		}
		tenant := who
		tenant.Tenant, tenant.Session = "rival", "s"
		_, err := r.Poll(ctx, tenant, s.ID, running.PollOptions{})
		codeIs(t, err, sandbox.CodeNotFound)
	}
	if list := r.List(someone("s")); len(list) != 1 || list[0].State != running.StateRunning {
		t.Errorf("%+v", list)
	}
}

// TestKillEndsTheTree holds that nothing is left inside.
func TestKillEndsTheTree(t *testing.T) {
	r := newRig(t, plain)
	s := r.start("s", "sh", "-c", "setsid sleep 1000 & sleep 1000")
	got, err := r.Kill(deadline(t), someone("s"), s.ID)
	must(t, err)
	if got.State == running.StateRunning || !got.Killed || got.Outcome != nil && got.Outcome.Exit.Code == 0 {
		t.Errorf("%+v", got)
	}
	for _, name := range r.engine.Names() {
		for _, p := range r.engine.Processes(name) {
			t.Errorf("%s: %v is left", name, p)
		}
	}
	again, err := r.Kill(deadline(t), someone("s"), s.ID)
	if err != nil || again.State != got.State {
		t.Errorf("again: %+v, %v", again, err)
	}
}

// TestNothingLooksLikeSuccess checks that a command whose end is unknown has
// failed, and that one that never ran leaves nothing.
func TestNothingLooksLikeSuccess(t *testing.T) {
	t.Run("the sandbox falls", func(t *testing.T) {
		r := newRig(t, plain)
		s := r.start("s", "cat")
		for _, name := range r.engine.Names() {
			must(t, r.engine.Destroy(name))
		}
		p := r.until("s", s.ID, nil)
		if p.Status.State != running.StateFailed || p.Status.Outcome != nil || p.Status.Err == nil || p.Status.Err.Message == "" {
			t.Errorf("%+v", p.Status)
		}
	})
	t.Run("it does not start", func(t *testing.T) {
		r := newRig(t, plain)
		heal := r.engine.Inject(fake.FailAt(fake.StepStart, &sandbox.Error{Code: sandbox.CodeUnavailable, Message: "broken"}))
		defer heal()
		_, err := r.Start(deadline(t), request("s", "cat"), running.StartOptions{})
		codeIs(t, err, sandbox.CodeUnavailable)
		if list := r.List(someone("s")); len(list) != 0 {
			t.Errorf("%+v", list)
		}
	})
	t.Run("it is refused", func(t *testing.T) {
		r := newRig(t, `{"agents": {"defaults": {"sandbox": {"provider": "local", "commands": {"block": ["cat"]}}}}}`)
		_, err := r.Start(deadline(t), request("s", "cat"), running.StartOptions{})
		if err == nil || r.List(someone("s")) == nil || len(r.List(someone("s"))) != 0 {
			t.Errorf("%v", err)
		}
	})
	t.Run("the caller gives up", func(t *testing.T) {
		r := newRig(t, plain)
		heal := r.engine.Inject(fake.HangAt(fake.StepStart))
		defer heal()
		ctx, done := context.WithTimeoutCause(context.Background(), 50*time.Millisecond, errors.New("enough"))
		defer done()
		_, err := r.Start(ctx, request("s", "cat"), running.StartOptions{})
		codeIs(t, err, sandbox.CodeExecution)
		if bytes, sessions, _ := r.Held(); bytes != 0 || sessions != 0 {
			t.Errorf("%d bytes and %d sessions are held", bytes, sessions)
		}
	})
}

func TestCommandsAreBounded(t *testing.T) {
	r := newRig(t, plain, func(o *running.Options) {
		o.CommandsPerSession, o.CommandsPerTenant, o.EndedPerSession = 2, 3, 2
	})
	try := func(session string) error {
		_, err := r.Start(deadline(t), request(session, "cat"), running.StartOptions{})
		return err
	}
	must(t, try("a"))
	must(t, try("a"))
	codeIs(t, try("a"), sandbox.CodeBudgetExceeded)
	must(t, try("b"))
	codeIs(t, try("b"), sandbox.CodeBudgetExceeded)
	for _, s := range r.List(someone("a")) {
		must(t, r.Write(deadline(t), someone("a"), s.ID, nil, true))
		r.until("a", s.ID, nil)
	}
	must(t, try("b"))
	for range 3 {
		s := r.start("a", "true")
		r.until("a", s.ID, nil)
	}
	if list := r.List(someone("a")); len(list) != 2 {
		t.Errorf("%d commands linger", len(list))
	}
	must(t, r.EndSession(someone("a")))
	must(t, r.EndSession(someone("b")))
	if bytes, sessions, tenants := r.Held(); bytes != 0 || sessions != 0 || tenants != 0 {
		t.Errorf("%d bytes, %d sessions, %d tenants are still held", bytes, sessions, tenants)
	}
}
