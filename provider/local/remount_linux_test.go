package local_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// another mounts a folder with one file at the place of the workspace on the host,
// as a store of checkpoints does, and returns a detached clone of it.
func another(t testing.TB, s sandbox.Spec, name, content string) *os.File {
	t.Helper()
	testenv.Require(t, "root")
	dir := t.TempDir()
	give(t, s, filepath.Join(dir, name), content)
	must(t, os.Chown(dir, s.UID, s.GID))
	must(t, unix.Mount(dir, workspaceOf(s), "", unix.MS_BIND, ""))
	t.Cleanup(func() { must(t, unix.Unmount(workspaceOf(s), unix.MNT_DETACH)) })
	return cloneOf(t, workspaceOf(s))
}

func cloneOf(t testing.TB, dir string) *os.File {
	t.Helper()
	fd, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	must(t, err)
	f := os.NewFile(uintptr(fd), "clone")
	t.Cleanup(func() { f.Close() })
	return f
}

func remount(sb sandbox.Sandbox, mount *os.File) error {
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	return sb.(sandbox.Remounter).Remount(ctx, sandbox.WorkspaceDir, mount)
}

func TestRemount(t *testing.T) {
	r := newRig(t)
	s := r.spec("a")
	p := r.provider(t)
	sb := r.open(p, s)
	ctx := context.Background()
	second, err := p.Open(ctx, s)
	must(t, err)
	defer second.Close()
	files, err := second.(sandbox.FileServer).Files(ctx)
	must(t, err)
	if out, code := sh(t, sb, "mkdir sub; echo old >n"); code != 0 {
		t.Fatal(out)
	}
	shell, err := sb.OpenShell(ctx, sandbox.ShellOptions{ID: "one"})
	must(t, err)
	defer shell.Close()
	line(t, shell, "x=1; cd sub")
	watch, err := files.(fsbridge.ChangeWatcher).Changes(ctx, "/workspace", true)
	must(t, err)
	defer watch.Close()
	listener, err := sb.(sandbox.Listener).Listen(ctx, "tcp", "127.0.0.1:0")
	must(t, err)
	defer listener.Close()
	accepted := make(chan error, 1)
	go func() { _, err := listener.Accept(); accepted <- err }()
	before := sb.Info().PID

	mount := another(t, s, "n", "new")
	if err := remount(sb, cloneOf(t, t.TempDir())); sandbox.CodeOf(err) != sandbox.CodeValidation {
		t.Errorf("a mount that does not lie on the host: %v", err)
	}
	must(t, remount(sb, mount))
	if err := sb.(interface{ Ping(context.Context) error }).Ping(ctx); err != nil {
		t.Errorf("Ping: %v", err)
	}
	start := time.Now()
	if out, code := sh(t, sb, "cat n"); out != "new" || code != 0 {
		t.Errorf("a command sees %q", out)
	}
	t.Logf("the next command took %v", time.Since(start))
	if sb.Info().PID == before {
		t.Error("the sandbox is the same")
	}
	content, err := files.Read(ctx, "/workspace/n", 0, -1)
	must(t, err)
	text, err := io.ReadAll(content)
	must(t, errors.Join(err, content.Close()))
	if string(text) != "new" {
		t.Errorf("files of another handle see %q", text)
	}
	if out, code := sh(t, second, "cat n"); out != "new" || code != 0 {
		t.Errorf("a command of another handle sees %q", out)
	}
	if out, exit := line(t, shell, "echo $x; cat /workspace/n"); out != "1\nnew" || !exit.Restarted {
		t.Errorf("the shell: %q, %+v", out, exit)
	}
	if out, exit := line(t, shell, "echo $x"); out != "1" || exit.Restarted {
		t.Errorf("its next line: %q, %+v", out, exit)
	}
	if _, err := watch.Next(); err == nil {
		t.Error("the watch goes on")
	}
	if err := <-accepted; err == nil {
		t.Error("the listener goes on")
	}
}

// TestRemountBusy holds that nothing that runs is ended.
func TestRemountBusy(t *testing.T) {
	r := newRig(t)
	s := r.spec("a")
	p := r.provider(t)
	sb := r.open(p, s)
	ctx := context.Background()
	mount := another(t, s, "n", "new")
	busy := func(what string) {
		t.Helper()
		if err := remount(sb, mount); sandbox.CodeOf(err) != sandbox.CodeBusy {
			t.Errorf("%s: %v", what, err)
		}
	}
	var out bytes.Buffer
	in, feed := io.Pipe()
	cat, err := sb.Start(ctx, sandbox.Command{Args: []string{"cat"}, Stdin: in, Stdout: &out})
	must(t, err)
	busy("a command")
	_, err = io.WriteString(feed, "goes on")
	must(t, err)
	feed.Close()
	if exit, err := cat.Wait(); err != nil || exit.Code != 0 || out.String() != "goes on" {
		t.Errorf("the command: %+v, %v, %q", exit, err, out.String())
	}
	shell, err := sb.OpenShell(ctx, sandbox.ShellOptions{})
	must(t, err)
	defer shell.Close()
	p2, err := shell.Run(ctx, "x=1; sleep 1000", sandbox.Command{})
	must(t, err)
	busy("a line")
	must(t, p2.Kill(ctx))
	_, _ = p2.Wait()
	line(t, shell, "sleep 1000 & echo")
	busy("what a line has left")
	line(t, shell, "kill %1; wait")
	other, err := r.provider(t).Open(ctx, s) // as another program
	must(t, err)
	busy("another program")
	must(t, other.Close())
}

// TestRemountRace exchanges the workspace while commands and lines are begun: each
// sees one that was there while it ran, and none is ended.
func TestRemountRace(t *testing.T) {
	r := newRig(t)
	s := r.spec("a")
	sb := r.open(r.provider(t), s)
	testenv.Require(t, "root")
	give(t, s, filepath.Join(workspaceOf(s), "n"), "0")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	failed := make(chan string, 2)
	go func() {
		for ctx.Err() == nil {
			p, err := sb.Start(context.Background(), sandbox.Command{Args: []string{"cat", "n"}})
			if err == nil {
				var exit sandbox.Exit
				if exit, err = p.Wait(); err == nil && exit.Code == 0 {
					continue
				}
				err = errors.Join(err, errors.New("status "+strconv.Itoa(exit.Code)))
			}
			failed <- "a command: " + err.Error()
			return
		}
		failed <- ""
	}()
	done := 0
	for i := 1; done < 3 && i < 300; i++ {
		dir := t.TempDir()
		give(t, s, filepath.Join(dir, "n"), strconv.Itoa(i))
		must(t, os.Chown(dir, s.UID, s.GID))
		must(t, unix.Mount(dir, workspaceOf(s), "", unix.MS_BIND, ""))
		t.Cleanup(func() { must(t, unix.Unmount(workspaceOf(s), unix.MNT_DETACH)) })
		switch err := remount(sb, cloneOf(t, workspaceOf(s))); sandbox.CodeOf(err) {
		case "":
			done++
		case sandbox.CodeBusy:
		default:
			t.Fatal(err)
		}
	}
	cancel()
	if why := <-failed; why != "" {
		t.Error(why)
	}
	if out, code := sh(t, sb, "cat n"); code != 0 || strings.TrimSpace(out) == "" {
		t.Errorf("%q", out)
	}
	if done == 0 {
		t.Error("the workspace was never exchanged")
	}
}

// TestTree packs the home of an instance, which is in memory, and makes it again what
// it was in the next one.
func TestTree(t *testing.T) {
	r := newRig(t)
	s := r.spec("a")
	sb := r.open(r.provider(t), s)
	ctx := context.Background()
	const list = `cd ~ && find . -mindepth 1 -printf '%p %y %m %n %l %T@\n' | sort; cat .ssh/id run`
	if out, code := sh(t, sb, "cd ~ && mkdir -p .ssh a/b && chmod 700 .ssh && echo key >.ssh/id && chmod 600 .ssh/id && echo x >run && chmod 755 run && ln run hard && ln -s /usr soft && mkfifo pipe && chmod 500 a/b"); code != 0 {
		t.Fatal(out)
	}
	want, _ := sh(t, sb, list)
	var archive bytes.Buffer
	left, err := client.PackTree(ctx, sb, sandbox.HomeDir, &archive)
	must(t, err)
	if len(left) != 0 {
		t.Errorf("left out: %q", left)
	}
	if out, code := sh(t, sb, "cd ~ && rm -rf .ssh hard && echo y >run && chmod 000 a/b && mkdir new && echo z >new/z"); code != 0 {
		t.Fatal(out)
	}
	must(t, client.UnpackTree(ctx, sb, sandbox.HomeDir, &archive))
	if got, _ := sh(t, sb, list); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
