//go:build linux

package manager_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/workspace/checkpoint"
)

// A keeper runs lines in sandboxes of sessions, on a kind of provider.
type keeper struct {
	*manager.Manager
	t    *testing.T
	kind string // docker or local
}

// onKeepers runs a test with the real engine and with local sandboxes.
func onKeepers(t *testing.T, test func(*keeper)) {
	for _, kind := range []string{"docker", "local"} {
		t.Run(kind, func(t *testing.T) {
			k := &keeper{t: t, kind: kind}
			testenv.UnmountBelow(t, filepath.Dir(t.TempDir())) // the state folder lies below it, too
			if kind == "local" {
				k.Manager = newSandboxed(t).Manager
			} else {
				k.Manager = newRig(t).manager("")
			}
			test(k)
		})
	}
}

func (k *keeper) context() context.Context {
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	k.t.Cleanup(done)
	return ctx
}

// run runs a line in the sandbox of a session and returns what it wrote.
func (k *keeper) run(session, line string) string {
	k.t.Helper()
	r, err := k.Capture(k.context(), manager.Request{Who: who(session), Command: sandbox.Command{Args: []string{"sh", "-c", line}}})
	must(k.t, err)
	if r.ExitCode != 0 {
		k.t.Fatalf("%s: status %d: %s%s", line, r.ExitCode, r.Stdout, r.Stderr)
	}
	return strings.TrimSpace(string(r.Stdout))
}

func (k *keeper) checkpoint(session, name string) string {
	k.t.Helper()
	rec, err := k.Checkpoint(k.context(), manager.Request{Who: who(session)}, manager.CheckpointOptions{Name: name})
	must(k.t, err)
	return rec.ID
}

// TestCheckpoints goes through the life of checkpoints: a state is kept, the
// sandbox goes back to it and forward again, and other sandboxes begin with it.
func TestCheckpoints(t *testing.T) {
	onKeepers(t, func(k *keeper) {
		t := k.t
		k.run("s", "echo one >file; mkdir -p deep/er; echo two >deep/er/file; ln -s file link; echo h >~/at-home; chmod 640 file")
		first := k.checkpoint("s", "first")
		if got := k.run("s", "cat file deep/er/file link ~/at-home"); got != "one\ntwo\none\nh" {
			t.Fatalf("a checkpoint changed the sandbox: %q", got)
		}
		k.run("s", "rm -r deep; echo three >file; echo new >added; echo i >~/at-home; echo more >~/more")
		second := k.checkpoint("s", "second")

		done, err := k.Rollback(k.context(), manager.Request{Who: who("s")}, "first")
		must(t, err)
		if done.Checkpoint.ID != first || done.Recreated && k.kind == "docker" {
			t.Errorf("rolled back: %+v", done)
		}
		if got := k.run("s", "cat file deep/er/file link ~/at-home; stat -c %a file; ls -A ~ | grep -c more; test -e added && echo added; true"); got != "one\ntwo\none\nh\n640\n0" {
			t.Errorf("after a rollback: %q", got)
		}
		_, err = k.Rollback(k.context(), manager.Request{Who: who("s")}, second)
		must(t, err)
		if got := k.run("s", "cat file added ~/more; ls"); got != "three\nnew\nmore\nadded\nfile\nlink" {
			t.Errorf("after a rollback forward: %q", got)
		}

		forks, err := k.Fork(k.context(), manager.Request{Who: who("s")}, manager.ForkOptions{From: "first", Sessions: []string{"f1", "f2"}})
		must(t, err)
		for _, f := range forks {
			must(t, f.Err)
			if got := k.run(f.Session, "cat file deep/er/file ~/at-home; echo "+f.Session+" >file; echo x >deep/er/"+f.Session); got != "one\ntwo\nh" {
				t.Errorf("the fork %s has %q", f.Session, got)
			}
		}
		if got := k.run("f1", "cat file; ls deep/er") + k.run("f2", "cat file; ls deep/er") + k.run("s", "cat file"); got != "f1\nf1\nfilef2\nf2\nfilethree" {
			t.Errorf("forks and parent have %q", got)
		}
		if _, err := k.Fork(k.context(), manager.Request{Who: who("s")}, manager.ForkOptions{From: "nothing", Sessions: []string{"f3"}}); !sandbox.IsNotFound(err) {
			t.Errorf("a fork of nothing: %v", err)
		}
		again, err := k.Fork(k.context(), manager.Request{Who: who("s")}, manager.ForkOptions{From: "first", Sessions: []string{"f1"}})
		must(t, err)
		if sandbox.CodeOf(again[0].Err) != sandbox.CodeBusy {
			t.Errorf("a fork onto a session with a sandbox: %v", again[0].Err)
		}

		must(t, k.RemoveCheckpoint(k.context(), "", "first"))
		if got := k.run("f1", "cat file deep/er/file"); got != "f1\ntwo" {
			t.Errorf("without its checkpoint a fork has %q", got)
		}
		list, err := k.Checkpoints(k.context(), manager.CheckpointFilter{})
		must(t, err)
		if len(list) != 1 || list[0].ID != second {
			t.Errorf("checkpoints: %+v", list)
		}
	})
}

// killedWorkspace names, in a child process, the workspace whose checkpoint it makes
// until it is killed.
const killedWorkspace = "SANDBOX_TEST_KILLED_WORKSPACE"

// killedRollback names the checkpoint that the child rolls back to instead.
const killedRollback = "SANDBOX_TEST_KILLED_ROLLBACK"

// TestCheckpointIsKilledChild is the process that is killed, when it is started as
// such.
func TestCheckpointIsKilledChild(t *testing.T) {
	path := os.Getenv(killedWorkspace)
	if path == "" {
		return
	}
	s, err := checkpoint.Open(filepath.Dir(path), checkpoint.Options{})
	must(t, err)
	_, w, err := s.Create(t.Context(), filepath.Base(path), checkpoint.CreateOptions{Name: "killed"})
	if ref := os.Getenv(killedRollback); ref != "" {
		must(t, err)
		must(t, w.Abort())
		_, w, err = s.Rollback(t.Context(), filepath.Base(path), ref)
	}
	must(t, err)
	_, err = w.Mount()
	must(t, err)
	must(t, syscall.Kill(os.Getpid(), syscall.SIGKILL))
	select {}
}

// killed runs the child, which is killed.
func (k *keeper) killed(env ...string) {
	k.t.Helper()
	self, err := os.Executable()
	must(k.t, err)
	c := exec.CommandContext(k.context(), self, "-test.run=^TestCheckpointIsKilledChild$")
	c.Env = append(os.Environ(), env...)
	out, err := c.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		k.t.Fatalf("%v: %s", err, out)
	}
}

// TestRollbackIsKilled holds that the next command finds all of the state that the
// sandbox is rolled back to, the home too, after the process that did so was killed.
func TestRollbackIsKilled(t *testing.T) {
	onKeepers(t, func(k *keeper) {
		t := k.t
		k.run("s", "echo one >a; echo h >~/at-home; mkdir ~/d; echo x >~/d/x")
		id := k.checkpoint("s", "")
		k.run("s", "echo two >a; echo i >~/at-home; echo more >~/more; rm -r ~/d")
		ready, err := k.Ready(k.context(), manager.Request{Who: who("s")})
		must(t, err)
		k.killed(killedWorkspace+"="+ready.Workspace, killedRollback+"="+id)
		if got := k.run("s", "cat a ~/at-home ~/d/x; ! test -e ~/more; echo later >>a; echo later >>~/at-home"); got != "one\nh\nx" {
			t.Errorf("after the kill there is %q", got)
		}
		if got := k.run("s", "cat a ~/at-home"); got != "one\nlater\nh\nlater" { // it is restored once
			t.Errorf("later there is %q", got)
		}
		_, err = k.Rollback(k.context(), manager.Request{Who: who("s")}, id)
		must(t, err)
		if got := k.run("s", "cat a ~/at-home"); got != "one\nh" {
			t.Errorf("after a rollback there is %q", got)
		}
	})
}

// TestCheckpointIsKilled holds that the next command finds the sandbox and its
// workspace with one file system, with all files, after the process that made a
// checkpoint was killed while it exchanged that of the sandbox.
func TestCheckpointIsKilled(t *testing.T) {
	onKeepers(t, func(k *keeper) {
		t := k.t
		k.run("s", "echo one >a; mkdir d; echo two >d/b")
		for i := range 2 { // the first checkpoint makes an overlay of a folder
			ready, err := k.Ready(k.context(), manager.Request{Who: who("s")})
			must(t, err)
			k.killed(killedWorkspace + "=" + ready.Workspace)
			line := fmt.Sprintf("cat a d/b; echo %d >after", i)
			if got := k.run("s", line); got != "one\ntwo" {
				t.Errorf("after the kill there is %q", got)
			}
			if got, err := os.ReadFile(filepath.Join(ready.Workspace, "after")); err != nil || string(got) != fmt.Sprintln(i) {
				t.Errorf("the workspace has %q of what the sandbox wrote: %v", got, err)
			}
			list, err := k.Checkpoints(k.context(), manager.CheckpointFilter{})
			must(t, err)
			if len(list) != 1 || list[0].Name != "killed" || !list[0].Busy {
				t.Fatalf("checkpoints: %+v", list)
			}
			must(t, k.RemoveCheckpoint(k.context(), "", "killed"))
		}
		id := k.checkpoint("s", "")
		k.run("s", "echo three >a")
		_, err := k.Rollback(k.context(), manager.Request{Who: who("s")}, id)
		must(t, err)
		if got := k.run("s", "cat a after"); got != "one\n1" {
			t.Errorf("after a rollback there is %q", got)
		}
	})
}

// TestCheckpointsKeepShells holds that a rollback and a fork begin shells in the
// folder, with the variables and functions that they had.
func TestCheckpointsKeepShells(t *testing.T) {
	onKeepers(t, func(k *keeper) {
		t := k.t
		open := func(session string) func(line string) string {
			s, err := k.OpenShell(k.context(), manager.Request{Who: who(session)}, sandbox.ShellOptions{ID: "main"})
			must(t, err)
			t.Cleanup(func() { s.Close() })
			return func(line string) string {
				t.Helper()
				var out bytes.Buffer
				_, err := s.Run(k.context(), manager.Line{Text: line, Stdout: &out, Stderr: &out})
				must(t, err)
				return strings.TrimSpace(out.String())
			}
		}
		shell := open("s")
		shell("mkdir deep; cd deep; X=1; say() { echo said $X; }; export Y='a b'")
		k.checkpoint("s", "kept")
		if got := shell("pwd; say; echo x >file"); !strings.HasSuffix(got, "/deep\nsaid 1") {
			t.Errorf("after a checkpoint the shell says %q", got)
		}
		shell("X=2; cd ..; rm -r deep; unset -f say")
		if _, err := k.Rollback(k.context(), manager.Request{Who: who("s")}, "kept"); err != nil {
			t.Fatal(err)
		}
		if got := shell("pwd; say; echo $Y; ls"); !strings.HasSuffix(got, "/deep\nsaid 1\na b") {
			t.Errorf("after a rollback the shell says %q", got)
		}
		forks, err := k.Fork(k.context(), manager.Request{Who: who("s")}, manager.ForkOptions{From: "kept", Sessions: []string{"f"}})
		must(t, err)
		must(t, forks[0].Err)
		if got := open("f")("pwd; say; echo $Y; ls"); !strings.HasSuffix(got, "/deep\nsaid 1\na b") {
			t.Errorf("the shell of a fork says %q", got)
		}
	})
}

// TestCheckpointWhileCommandsRun holds that a checkpoint stops nothing, and keeps
// what was there when it was made.
func TestCheckpointWhileCommandsRun(t *testing.T) {
	onKeepers(t, func(k *keeper) {
		t := k.t
		k.run("s", "mkdir -p some; for i in 1 2 3 4 5 6 7 8 9; do echo $i >some/$i; done")
		var out bytes.Buffer
		done := make(chan error, 1)
		started := make(chan struct{})
		ctx := k.context()
		go func() {
			_, err := k.Run(ctx, manager.Request{
				Who: who("s"), Started: func(sandbox.Process) { close(started) },
				Command: sandbox.Command{Args: []string{"sh", "-c", "exec 3>>open; for i in 1 2 3 4 5; do until test -e go$i; do sleep 0.01; done; echo line $i; echo $i >&3; done"}, Stdout: &out},
			})
			done <- err
		}()
		<-started
		var ids []string
		for i := range 5 {
			k.run("s", fmt.Sprintf("echo c%d >changed; echo >go%d", i, i+1))
			ids = append(ids, k.checkpoint("s", ""))
		}
		must(t, <-done)
		if got := out.String(); got != "line 1\nline 2\nline 3\nline 4\nline 5\n" {
			t.Errorf("the command wrote %q", got)
		}
		if got := k.run("s", "cat open | wc -l; cat changed"); got != "5\nc4" {
			t.Errorf("in the sandbox is %q", got)
		}
		forks, err := k.Fork(k.context(), manager.Request{Who: who("s")}, manager.ForkOptions{From: ids[1], Sessions: []string{"f"}})
		must(t, err)
		must(t, forks[0].Err)
		if got := k.run("f", "cat changed; ls some | wc -l"); got != "c1\n9" {
			t.Errorf("in a fork is %q", got)
		}
	})
}

// TestAutomaticCheckpoints holds that a checkpoint is made before each command and
// each change of files where settings want that, that a bounded number is kept,
// and that each step can be taken back.
func TestAutomaticCheckpoints(t *testing.T) {
	onKeepers(t, func(k *keeper) {
		t := k.t
		auto, keep := config.AutoCommand, int64(3)
		flags := &config.SandboxSettings{Checkpoint: &config.CheckpointSettings{Auto: &auto, Keep: &keep}}
		req := manager.Request{Who: who("s"), Flags: flags}
		run := func(line string) string {
			t.Helper()
			r := req
			r.Command = sandbox.Command{Args: []string{"sh", "-c", line}}
			out, err := k.Capture(k.context(), r)
			must(t, err)
			return strings.TrimSpace(string(out.Stdout))
		}
		for i := range 6 {
			run(fmt.Sprintf("echo step %d >file", i))
		}
		changing := req
		changing.Changes = true
		must(t, k.Files(k.context(), changing, func(s manager.Share) error {
			return s.Write(k.context(), "/workspace/file", strings.NewReader("by a tool\n"), sandbox.WriteOptions{})
		}))
		list, err := k.Checkpoints(k.context(), manager.CheckpointFilter{})
		must(t, err)
		if len(list) != int(keep) {
			t.Fatalf("%d checkpoints are kept: %+v", len(list), list)
		}
		for i, want := range []string{"step 3", "step 4", "step 5"} { // before the commands 4 and 5 and the tool
			if !list[i].Auto {
				t.Errorf("checkpoint %d was asked for", i)
			}
			plain := manager.Request{Who: who("s")}
			_, err := k.Rollback(k.context(), plain, list[i].ID)
			must(t, err)
			if got := k.run("s", "cat file"); got != want {
				t.Errorf("after going back to checkpoint %d: %q, want %q", i, got, want)
			}
		}
	})
}

// TestForkThatFails holds that a fork that cannot have all of its checkpoint leaves
// nothing, and can be made later.
func TestForkThatFails(t *testing.T) {
	onKeepers(t, func(k *keeper) {
		t := k.t
		k.run("s", "echo one >file; echo h >~/at-home")
		ready, err := k.Ready(k.context(), manager.Request{Who: who("s")})
		must(t, err)
		rec, err := k.Checkpoint(k.context(), manager.Request{Who: who("s")}, manager.CheckpointOptions{})
		must(t, err)
		archive := ""
		for _, tree := range rec.Trees {
			if tree.Archive != "" {
				archive = filepath.Join(filepath.Dir(ready.Workspace), ".layers", "data", tree.Archive, "tar.zst")
			}
		}
		fork := func() error {
			forks, err := k.Fork(k.context(), manager.Request{Who: who("s")}, manager.ForkOptions{From: rec.ID, Sessions: []string{"f"}})
			must(t, err)
			return forks[0].Err
		}
		must(t, os.Rename(archive, archive+".away"))
		if err := fork(); err == nil {
			t.Fatal("a fork without its home is made")
		}
		if _, err := k.Capture(k.context(), manager.Request{Who: who("f"), MustExist: true, Command: sandbox.Command{Args: []string{"true"}}}); !sandbox.IsNotFound(err) {
			t.Errorf("something is left of the fork: %v", err)
		}
		must(t, os.Rename(archive+".away", archive))
		must(t, fork())
		if got := k.run("f", "cat file ~/at-home"); got != "one\nh" {
			t.Errorf("the fork has %q", got)
		}
	})
}

// TestCheckpointsOfPrivateViews holds that checkpoints, rollbacks and forks of a
// session with a private view have the view, also where the call does not name it.
func TestCheckpointsOfPrivateViews(t *testing.T) {
	onKeepers(t, func(k *keeper) {
		t := k.t
		folder := outsideFolder(t)
		must(t, os.Chmod(folder, 0o755))
		must(t, os.WriteFile(filepath.Join(folder, "a"), []byte("host\n"), 0o644))
		access := sandbox.AccessPrivate
		run := func(session, line string) string {
			t.Helper()
			r, err := k.Capture(k.context(), manager.Request{
				Who: who(session), Flags: &config.SandboxSettings{WorkspaceAccess: &access, Workspace: &folder}, Command: sandbox.Command{Args: []string{"sh", "-c", line}},
			})
			must(t, err)
			return strings.TrimSpace(string(r.Stdout) + string(r.Stderr))
		}
		run("s", "echo one >a; echo new >b")
		id := k.checkpoint("s", "")
		run("s", "echo two >a; rm b")
		_, err := k.Rollback(k.context(), manager.Request{Who: who("s")}, id)
		must(t, err)
		if got := run("s", "cat a b"); got != "one\nnew" {
			t.Errorf("after a rollback: %q", got)
		}
		forks, err := k.Fork(k.context(), manager.Request{Who: who("s")}, manager.ForkOptions{From: id, Sessions: []string{"f"}})
		must(t, err)
		must(t, forks[0].Err)
		if got := run("f", "cat a b; echo forked >a"); got != "one\nnew" {
			t.Errorf("the fork has %q", got)
		}
		if got, err := os.ReadFile(filepath.Join(folder, "a")); err != nil || string(got) != "host\n" {
			t.Errorf("the folder of the host has %q, %v", got, err)
		}
		done, err := k.Apply(k.context(), manager.Request{Who: who("f")}, manager.ApplyOptions{})
		must(t, err)
		if got, err := os.ReadFile(filepath.Join(folder, "a")); err != nil || string(got) != "forked\n" || len(done.Plan.Conflicts) > 0 {
			t.Errorf("applied: %q, %v", got, err)
		}
	})
}

// TestForkFromPool holds that forks are slots of the pool, which are started
// already, with all that their checkpoint keeps; also after a restart.
func TestForkFromPool(t *testing.T) {
	testenv.UnmountBelow(t, filepath.Dir(t.TempDir()))
	k := &keeper{t: t, kind: "docker", Manager: newRig(t).manager(pooled(3))}
	k.run("s", "mkdir deep; echo one >deep/file; echo h >~/at-home; chmod 640 deep/file")
	id := k.checkpoint("s", "")
	fillPool(t, k.Manager)
	forks, err := k.Fork(k.context(), manager.Request{Who: who("s")}, manager.ForkOptions{From: id, Sessions: []string{"f1", "f2"}})
	must(t, err)
	for _, f := range forks {
		must(t, f.Err)
		out, o := mustRun(t, k.Manager, f.Session, "cat deep/file ~/at-home; stat -c %a deep/file; echo "+f.Session+" >deep/file; id -u")
		if !strings.HasPrefix(out, "one\nh\n640\n") {
			t.Errorf("the fork %s has %q", f.Session, out)
		}
		if uid := strings.Fields(out)[3]; strings.Contains(k.run("s", "id -u"), uid) {
			t.Errorf("the fork %s runs as the user of its parent", f.Session)
		}
		at := row(t, k.Manager, f.Session)
		if !strings.Contains(at.Workspace, "pool-") {
			t.Errorf("the fork %s is no slot: %+v", f.Session, at)
		}
		if o.Name != f.Name {
			t.Errorf("the fork %s is called %s and %s", f.Session, f.Name, o.Name)
		}
		if out, err := exec.Command("docker", "kill", at.ID).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if got := k.run(f.Session, "cat deep/file"); got != f.Session {
			t.Errorf("after a restart the fork %s has %q", f.Session, got)
		}
	}
	if got := k.run("s", "cat deep/file"); got != "one" {
		t.Errorf("the parent has %q", got)
	}
}
