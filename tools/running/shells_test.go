package running_test

import (
	"context"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/provider/fake"
	"github.com/bulkhead-dev/sandbox/tools/running"
)

// says holds what a line writes.
func (r *rig) says(session, id, text, want string) {
	r.t.Helper()
	got, o, err := r.line(session, id, text)
	if err != nil || got != want {
		r.t.Errorf("%s: %q, want %q (%+v, %v)", text, got, want, o.Exit, err)
	}
}

func TestShellsStay(t *testing.T) {
	r := newRig(t, plain)
	r.says("s", "", "x=1; echo $x", "1")
	r.says("s", running.Main, "echo $x", "1")
	r.says("other", "", "echo none$x", "none")
	info, err := r.OpenShell(deadline(t), manager.Request{Who: someone("s")}, sandbox.ShellOptions{ID: "second", Env: map[string]string{"E": "v"}})
	must(t, err)
	if info.Label != "second" || len(info.ID) < 26 || info.Program == "" || info.Sandbox == "" {
		t.Errorf("%+v", info)
	}
	r.says("s", info.ID, "echo $E$x", "v")
	if all := r.Shells(someone("s")); len(all) != 2 || all[0].ID != running.Main || all[1].ID != info.ID {
		t.Errorf("%+v", all)
	}
	must(t, r.CloseShell(someone("s"), info.ID))
	_, _, err = r.line("s", info.ID, "true")
	codeIs(t, err, sandbox.CodeNotFound)
	codeIs(t, r.CloseShell(someone("s"), info.ID), sandbox.CodeNotFound)
	must(t, r.CloseShell(someone("s"), ""))
	r.says("s", "", "echo anew$x", "anew")
}

// TestJudgedOtherwise holds that a sub-agent does not come into the shell of
// its parent, nor the other way round: what one has left there the other would
// run under its own rules.
func TestJudgedOtherwise(t *testing.T) {
	r := newRig(t, plain)
	r.says("s", "", "x=parent", "")
	req := manager.Request{Who: someone("s"), Subagent: true}
	var out strings.Builder
	_, err := r.Line(deadline(t), req, "", manager.Line{Text: "echo child$x", Stdout: &out})
	if err != nil || out.String() != "child\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
	info, err := r.OpenShell(deadline(t), manager.Request{Who: someone("s")}, sandbox.ShellOptions{})
	must(t, err)
	_, err = r.Line(deadline(t), req, info.ID, manager.Line{Text: "true"})
	codeIs(t, err, sandbox.CodeNotFound)
	must(t, r.CloseShell(someone("s"), running.Main)) // both of them
	if all := r.Shells(someone("s")); len(all) != 1 {
		t.Errorf("%+v", all)
	}
}

func TestIdleShellsAreClosed(t *testing.T) {
	r := newRig(t, plain)
	r.says("s", "", "x=1", "")
	r.clock.advance(29 * time.Minute)
	r.Sweep()
	r.says("s", "", "echo $x", "1")
	r.clock.advance(29 * time.Minute)
	r.Sweep()
	r.says("s", "", "echo $x", "1")
	// One that runs something is not idle.
	began, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := r.Line(deadline(t), manager.Request{Who: someone("s")}, "", manager.Line{Text: "cat", Stdin: silent(t), Started: func(sandbox.Process) { close(began) }})
		ended <- err
	}()
	<-began
	r.clock.advance(time.Hour)
	r.Sweep()
	if all := r.Shells(someone("s")); len(all) != 1 || !all[0].Busy {
		t.Errorf("%+v", all)
	}
	// Closing ends the line, and that is no success.
	must(t, r.CloseShell(someone("s"), ""))
	codeIs(t, <-ended, sandbox.CodeNotFound)
	r.says("s", "", "x=2", "")
	r.clock.advance(31 * time.Minute)
	r.Sweep()
	if _, sessions, tenants := r.Held(); sessions != 0 || tenants != 0 || len(r.Shells(someone("s"))) != 0 {
		t.Errorf("%d sessions, %d tenants are still known", sessions, tenants)
	}
	r.says("s", "", "echo anew$x", "anew")
}

// silent has nothing to read until the test is over.
func silent(t *testing.T) io.Reader {
	r, w := io.Pipe()
	t.Cleanup(func() { w.Close() })
	return r
}

// TestManyOpenOne checks that concurrent lines find one shell, and that a
// caller that gives up while it is opened does not affect the others.
func TestManyOpenOne(t *testing.T) {
	r := newRig(t, plain)
	heal := r.engine.Inject(fake.HangAt(fake.StepOpenShell))
	ctx, giveUp := context.WithCancel(deadline(t))
	first := make(chan error, 1)
	go func() {
		_, err := r.Line(ctx, manager.Request{Who: someone("s")}, "", manager.Line{Text: "true"})
		first <- err
	}()
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			if _, err := r.Line(deadline(t), manager.Request{Who: someone("s")}, "", manager.Line{Text: "v" + strconv.Itoa(i) + "=1"}); err != nil {
				t.Error(err)
			}
		})
	}
	heal()
	giveUp()
	<-first // an error or not: it may have been quick
	all.Wait()
	if shells := r.Shells(someone("s")); len(shells) != 1 {
		t.Errorf("%+v", shells)
	}
	r.says("s", "", "echo $v0$v1$v2$v3$v4$v5$v6$v7$v8$v9", "1111111111")
}

func TestShellsAreBounded(t *testing.T) {
	r := newRig(t, plain, func(o *running.Options) { o.ShellsPerSession, o.ShellsPerTenant = 2, 3 })
	open := func(session string) error {
		_, err := r.OpenShell(deadline(t), manager.Request{Who: someone(session)}, sandbox.ShellOptions{})
		return err
	}
	r.says("a", "", "echo 1", "1")
	must(t, open("a"))
	codeIs(t, open("a"), sandbox.CodeBudgetExceeded)
	must(t, open("b"))
	codeIs(t, open("b"), sandbox.CodeBudgetExceeded)
	must(t, r.EndSession(someone("a")))
	must(t, open("b"))
	// A shell that cannot be opened takes no room.
	must(t, r.EndSession(someone("b")))
	heal := r.engine.Inject(fake.FailAt(fake.StepOpenShell, &sandbox.Error{Code: sandbox.CodeUnavailable, Message: "broken"}))
	for range 5 {
		codeIs(t, open("a"), sandbox.CodeUnavailable)
	}
	heal()
	if _, sessions, tenants := r.Held(); sessions != 0 || tenants != 0 {
		t.Errorf("%d sessions, %d tenants are still known", sessions, tenants)
	}
}

// TestClose checks that a closed Supervisor accepts nothing new, and ends
// everything.
func TestClose(t *testing.T) {
	r := newRig(t, plain)
	s := r.start("s", "cat")
	r.says("s", "", "sleep 1000 &", "")
	began, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := r.Line(deadline(t), manager.Request{Who: someone("s")}, "", manager.Line{Text: "cat", Stdin: silent(t), Started: func(sandbox.Process) { close(began) }})
		ended <- err
	}()
	<-began
	gone, done := context.WithCancel(context.Background())
	done()
	if err := r.Close(gone); err != nil && sandbox.CodeOf(err) != sandbox.CodeTimeout {
		t.Error(err)
	}
	must(t, r.Close(deadline(t)))
	must(t, r.Close(deadline(t)))
	if err := <-ended; err == nil {
		t.Error("the line was ended, and that is told as a success")
	}
	_, err := r.Start(deadline(t), request("s", "cat"), running.StartOptions{})
	codeIs(t, err, sandbox.CodeUnavailable)
	_, _, err = r.line("s", "", "true")
	codeIs(t, err, sandbox.CodeUnavailable)
	_, err = r.OpenShell(deadline(t), manager.Request{Who: someone("s")}, sandbox.ShellOptions{})
	codeIs(t, err, sandbox.CodeUnavailable)
	if _, err := r.Poll(deadline(t), someone("s"), s.ID, running.PollOptions{}); sandbox.CodeOf(err) != sandbox.CodeNotFound {
		t.Error(err)
	}
	for _, name := range r.engine.Names() {
		if left := r.engine.Processes(name); len(left) != 0 {
			t.Errorf("%v are left", left)
		}
	}
}
