//go:build linux

package local_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// workspaceOf is the host folder behind the workspace of s.
func workspaceOf(s sandbox.Spec) string {
	for _, m := range s.Mounts {
		if m.Role == sandbox.RoleWorkspace {
			return m.Source
		}
	}
	return ""
}

// line runs a line of a shell.
func line(t testing.TB, s sandbox.Shell, text string) (string, sandbox.Exit) {
	t.Helper()
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	var out bytes.Buffer
	p, err := s.Run(ctx, text, sandbox.Command{Stdout: &out, Stderr: &out})
	must(t, err)
	exit, err := p.Wait()
	must(t, err)
	return strings.TrimSpace(out.String()), exit
}

// give makes a file of the sandbox's user.
func give(t testing.TB, s sandbox.Spec, path, content string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(content), 0o600))
	must(t, os.Chown(path, s.UID, s.GID))
}

func TestFileThatAppearsIsClosedForTheNextCommand(t *testing.T) {
	r := newRig(t)
	s := r.spec("a")
	sb := r.open(r.provider(t), s)
	first := sb.Info().PID
	env := filepath.Join(workspaceOf(s), "sub", ".env")
	give(t, s, filepath.Join(workspaceOf(s), "sub", "other"), "fine")
	give(t, s, env, "secret")
	must(t, os.Chown(filepath.Dir(env), s.UID, s.GID))
	if out, code := sh(t, sb, "cat sub/.env"); code == 0 || strings.Contains(out, "secret") {
		t.Errorf("status %d, %q", code, out)
	}
	if out, code := sh(t, sb, "cat sub/other && echo x >sub/new && cat sub/new"); code != 0 || out != "finex" && out != "fine\nx" {
		t.Errorf("status %d, %q", code, out)
	}
	for _, attempt := range []string{"echo x >sub/.env", "rm sub/.env", "mv sub sub2", "mv sub/.env sub/x", "ln sub/.env sub/y", "chmod 777 sub/.env"} {
		if out, code := sh(t, sb, attempt); code == 0 {
			t.Errorf("%s succeeded: %s", attempt, out)
		}
	}
	if b, _ := os.ReadFile(env); string(b) != "secret" {
		t.Errorf("the file holds %q", b)
	}
	if sb.Info().PID == first {
		t.Error("the sandbox is the same")
	}
	v := sb.(sandbox.Judge).Judge(sandbox.OpRead, "/workspace/sub/.env")
	if v.Allowed || !v.Builtin || !strings.Contains(v.Rule, "**/.env") {
		t.Errorf("the verdict is %+v", v)
	}
}

// TestCommandsOfOneMoment holds that a command that counts changes on the host
// from before the start of its instance on leaves nothing open for the next one.
func TestCommandsOfOneMoment(t *testing.T) {
	r := newRig(t)
	s := r.spec("a")
	asOf := time.Now()
	sb := r.open(r.provider(t), s)
	run := func(asOf time.Time, text string) (string, int) {
		t.Helper()
		ctx, done := context.WithTimeout(context.Background(), time.Minute)
		defer done()
		var out bytes.Buffer
		p, err := sb.Start(ctx, sandbox.Command{Args: []string{"sh", "-c", text}, Stdout: &out, Stderr: &out, AsOf: asOf})
		must(t, err)
		exit, err := p.Wait()
		must(t, err)
		return out.String(), exit.Code
	}
	if out, code := run(asOf, "true"); code != 0 {
		t.Fatalf("status %d: %s", code, out)
	}
	give(t, s, filepath.Join(workspaceOf(s), ".env"), "secret")
	if out, code := run(asOf, "cat .env"); code == 0 || strings.Contains(out, "secret") {
		t.Errorf("status %d, %q", code, out)
	}
}

func TestOldCommandsEndWithTheOldSandbox(t *testing.T) {
	r := newRig(t)
	s := r.spec("a")
	sb := r.open(r.provider(t), s)
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	var out bytes.Buffer
	p, err := sb.Start(ctx, sandbox.Command{Args: []string{"sh", "-c", "until test -e go; do sleep 0.01; done; echo done"}, Stdout: &out})
	must(t, err)
	give(t, s, filepath.Join(workspaceOf(s), ".env"), "secret")
	if _, code := sh(t, sb, "cat .env"); code == 0 {
		t.Error("it is open")
	}
	if _, code := sh(t, sb, "touch go"); code != 0 {
		t.Error("the workspace is not writable")
	}
	if exit, err := p.Wait(); err != nil || exit.Code != 0 || out.String() != "done\n" {
		t.Errorf("the old command: %+v, %v, %q", exit, err, out.String())
	}
	testenv.Until(t, "the old sandbox goes", func() bool { return len(r.processes(t)) == 1 })
}

func TestMissingPathThatIsClosedStaysMissing(t *testing.T) {
	r := newRig(t)
	s := r.spec("a")
	open := filepath.Join(r.home, "open")
	give(t, s, filepath.Join(open, "there"), "text")
	must(t, os.Chown(open, s.UID, s.GID))
	s.Filesystem.AllowWrite = []string{open}
	s.Filesystem.DenyWrite = append(s.Filesystem.DenyWrite, filepath.Join(open, "deploy"))
	s.Filesystem.DenyRead = append(s.Filesystem.DenyRead, filepath.Join(open, ".ssh"), filepath.Join(open, "a", "b", "key"))
	sb := r.open(r.provider(t), s)
	for _, line := range []string{
		"mkdir deploy", "echo x >deploy", "mkdir .ssh && echo x >.ssh/authorized_keys", "mkdir -p a/b && echo x >a/b/key",
		"echo x >x && mv x deploy", "mkdir d && mv d .ssh", "ln -s /tmp deploy", "rm -rf deploy && mkdir deploy", "mv a z && mkdir -p a/b && echo x >a/b/key",
	} {
		if out, code := sh(t, sb, "cd "+open+" && "+line); code == 0 {
			t.Errorf("%s succeeded: %s", line, out)
		}
	}
	if out, code := sh(t, sb, "cd "+open+" && echo new >new && cat there new"); code != 0 || out != "textnew" {
		t.Errorf("what is open: status %d, %q", code, out)
	}
	must(t, sb.Close())
	must(t, r.provider(t).Remove(t.Context(), s.Name))
	testenv.Until(t, "nothing is left behind", func() bool {
		for _, p := range []string{"deploy", ".ssh", "a"} {
			if _, err := os.Lstat(filepath.Join(open, p)); err == nil {
				return false
			}
		}
		return true
	})
}

func TestGrantOpensAPathForItsHandle(t *testing.T) {
	r := newRig(t)
	s := r.spec("a")
	p := r.provider(t)
	plain := r.open(p, s)
	outside := filepath.Join(r.home, "notes")
	give(t, s, filepath.Join(outside, "note"), "text")
	give(t, s, filepath.Join(r.home, ".ssh", "id"), "key")
	must(t, os.Chown(outside, s.UID, s.GID))
	if _, code := sh(t, plain, "cat "+outside+"/note"); code == 0 {
		t.Error("it can be read without a grant")
	}
	granted := s
	granted.Grants = []sandbox.Grant{{Operation: sandbox.OpWrite, Path: outside}, {Operation: sandbox.OpRead, Path: filepath.Join(r.home, ".ssh")}}
	sb := r.reopen(p, granted)
	if out, code := sh(t, sb, "cat "+outside+"/note; echo more >"+outside+"/more && cat "+outside+"/more"); code != 0 || out != "textmore" {
		t.Errorf("with a grant: status %d, %q", code, out)
	}
	if out, code := sh(t, sb, "cat "+r.home+"/.ssh/id"); code == 0 {
		t.Errorf("a grant has opened a deny: %q", out)
	}
	if _, code := sh(t, plain, "cat "+outside+"/note"); code == 0 {
		t.Error("the grant of one handle holds for another")
	}
}

func TestShellOutlivesItsSandbox(t *testing.T) {
	r := newRig(t)
	s := r.spec("a")
	p := r.provider(t)
	sb := r.open(p, s)
	shell, err := sb.OpenShell(context.Background(), sandbox.ShellOptions{ID: "s"})
	must(t, err)
	defer shell.Close()
	line(t, shell, "mkdir d; cd d; x=kept; f() { echo called $1; }")
	line(t, shell, "true") // which begins when the state after the one before is kept
	r.kill(t, p, s.Name)
	if _, err := sb.Start(context.Background(), sandbox.Command{Args: []string{"true"}}); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("a command finds its sandbox fallen: %v", err)
	}
	out, exit := line(t, shell, `echo $x $PWD; f me`)
	if out != "kept /workspace/d\ncalled me" || !exit.Restarted || exit.Code != 0 {
		t.Errorf("%q, %+v", out, exit)
	}
	if out, exit := line(t, shell, "echo again"); out != "again" || exit.Restarted {
		t.Errorf("%q, %+v", out, exit)
	}
	if shell.ID() != "s" {
		t.Errorf("it is called %q", shell.ID())
	}
}

func TestShellMovesIntoANewSandbox(t *testing.T) {
	r := newRig(t)
	s := r.spec("a")
	sb := r.open(r.provider(t), s)
	shell, err := sb.OpenShell(context.Background(), sandbox.ShellOptions{})
	must(t, err)
	defer shell.Close()
	line(t, shell, "x=kept")
	give(t, s, filepath.Join(workspaceOf(s), ".env"), "secret")
	out, exit := line(t, shell, `echo $x; cat .env`)
	if !strings.HasPrefix(out, "kept\n") || strings.Contains(out, "secret") || exit.Code == 0 || !exit.Restarted {
		t.Errorf("%q, %+v", out, exit)
	}
	testenv.Until(t, "the old sandbox goes", func() bool { return len(r.processes(t)) == 1 })
}

func TestHangingBwrap(t *testing.T) {
	r := newRig(t)
	script := filepath.Join(t.TempDir(), "bwrap")
	must(t, os.WriteFile(script, []byte(`#!/bin/bash
while [ "$1" != --args ]; do shift; done
cat <&"$2" >/dev/null # all that a wall is built by
exec -a bwrap sleep 1000
`), 0o755))
	must(t, os.Chmod(filepath.Dir(script), 0o755))
	s := r.spec("a")
	s.Options = map[string]any{"bwrap": script}
	p := r.provider(t)
	ctx, giveUp := context.WithCancel(context.Background())
	defer giveUp()
	created := make(chan error, 1)
	go func() {
		_, err := p.Create(ctx, s)
		created <- err
	}()
	testenv.Until(t, "the program hangs", func() bool { return slices.Contains(r.processes(t), "bwrap 1000 ") })
	giveUp()
	if err := <-created; sandbox.CodeOf(err) != sandbox.CodeTimeout {
		t.Errorf("Create: %v", err)
	}
	if _, err := p.Inspect(context.Background(), s.Name); !sandbox.IsNotFound(err) {
		t.Errorf("something is left: %v", err)
	}
	r.leaks(t)
}

func TestMissingBwrap(t *testing.T) {
	r := newRig(t)
	t.Setenv("PATH", t.TempDir())
	p := r.provider(t)
	_, err := p.Create(context.Background(), r.spec("a"))
	if sandbox.CodeOf(err) != sandbox.CodeUnavailable || !strings.Contains(err.Error(), "install") {
		t.Errorf("Create: %v", err)
	}
	if err := p.Probe(context.Background()); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("Probe: %v", err)
	}
	r.leaks(t)
}

// TestReplacedFileStaysClosed has the host replace a closed file, as editors
// do, which takes the mask off in every instance that stands.
func TestReplacedFileStaysClosed(t *testing.T) {
	r := newRig(t)
	s := r.spec("a")
	env := filepath.Join(workspaceOf(s), ".env")
	give(t, s, env, "secret")
	sb := r.open(r.provider(t), s)
	if out, code := sh(t, sb, "cat .env"); code == 0 {
		t.Errorf("it reads %q", out)
	}
	give(t, s, env+".new", "new secret")
	must(t, os.Rename(env+".new", env))
	if out, code := sh(t, sb, "cat .env"); code == 0 {
		t.Errorf("after it was replaced it reads %q", out)
	}
}

// TestRenamedFileStaysClosed has the host rename what is closed, and make it
// anew, which takes the mask to the other name and changes no mount.
func TestRenamedFileStaysClosed(t *testing.T) {
	for _, what := range []string{"sub/.env", "sub", "locked"} {
		t.Run(strings.ReplaceAll(what, "/", "+"), func(t *testing.T) {
			r := newRig(t)
			s := r.spec("a")
			ws := workspaceOf(s)
			s.Filesystem.DenyWrite = append(s.Filesystem.DenyWrite, ws+"/locked")
			fill := func() {
				give(t, s, ws+"/sub/.env", "secret")
				give(t, s, ws+"/locked", "fixed")
			}
			fill()
			sb := r.open(r.provider(t), s)
			for range 4 { // until nobody looks at a calm host
				if out, code := sh(t, sb, "cat sub/.env || echo x >locked"); code == 0 {
					t.Fatalf("it reads %q", out)
				}
			}
			moved := what
			must(t, os.Rename(ws+"/"+moved, ws+"/moved"))
			fill()
			for _, try := range []string{"cat sub/.env", "echo x >locked"} {
				if out, code := sh(t, sb, try); code == 0 {
					t.Errorf("after %s was renamed, %s succeeds: %q", moved, try, out)
				}
			}
		})
	}
}
