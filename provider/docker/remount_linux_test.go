package docker_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
)

// detachedOverlay returns an overlay over the folder lower, which is mounted
// nowhere; upper is where it keeps what is changed.
func detachedOverlay(t testing.TB, s sandbox.Spec, lower string) (mount *os.File, upper string) {
	t.Helper()
	dir := t.TempDir()
	upper = filepath.Join(dir, "upper")
	must(t, os.Mkdir(upper, 0o700))
	must(t, os.Chown(upper, s.UID, s.GID))
	must(t, os.Mkdir(filepath.Join(dir, "work"), 0o700))
	fd, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	must(t, err)
	defer unix.Close(fd)
	must(t, unix.FsconfigSetString(fd, "lowerdir+", lower))
	must(t, unix.FsconfigSetString(fd, "upperdir", upper))
	must(t, unix.FsconfigSetString(fd, "workdir", filepath.Join(dir, "work")))
	must(t, unix.FsconfigCreate(fd))
	m, err := unix.Fsmount(fd, unix.FSMOUNT_CLOEXEC, 0)
	must(t, err)
	mount = os.NewFile(uintptr(m), "overlay")
	t.Cleanup(func() { mount.Close() })
	return mount, upper
}

// detachedClone returns a detached mount of the folder dir.
func detachedClone(t testing.TB, dir string) *os.File {
	t.Helper()
	fd, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	must(t, err)
	f := os.NewFile(uintptr(fd), "clone")
	t.Cleanup(func() { f.Close() })
	return f
}

func remount(t testing.TB, sb sandbox.Sandbox, target string, mount *os.File) error {
	t.Helper()
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	return sb.(sandbox.Remounter).Remount(ctx, target, mount)
}

// inside returns the path of the host's /proc by which the container's folder is
// reached.
func inside(sb sandbox.Sandbox, dir string) string {
	return "/proc/" + strconv.Itoa(sb.Info().PID) + "/root" + dir
}

// TestRemount exchanges the file system of the workspace while a command, a shell
// and a watch of it run.
func TestRemount(t *testing.T) {
	t.Parallel()
	w := dockertest.New(t)
	sb, s := w.Open("remount")
	ctx := context.Background()
	files, err := sb.(sandbox.FileServer).Files(ctx)
	must(t, err)
	must(t, files.Write(ctx, "/workspace/a", strings.NewReader("old"), sandbox.WriteOptions{}))
	must(t, files.Mkdir(ctx, "/workspace/only-old", 0o755))
	must(t, files.Mkdir(ctx, "/workspace/sub", 0o755))

	in, feed := io.Pipe()
	var out syncBuffer
	p, err := sb.Start(ctx, sandbox.Command{
		Args:  []string{"sh", "-c", "exec 3>>/workspace/log; echo begun; while read -r l; do echo $l >&3; echo said $l; done"},
		Stdin: in, Stdout: &out, Stderr: &out,
	})
	must(t, err)
	testenv.Until(t, "the command runs", func() bool { return out.String() == "begun\n" })
	shells := map[string]sandbox.Shell{}
	for name, path := range map[string]string{"bash": "", "sh": "/tmp/sh"} {
		o := sandbox.ShellOptions{Dir: "/workspace/sub"}
		if path != "" {
			if out, code := sh(t, sb, "mkdir /tmp/sh && ln -s /bin/sh /bin/cat /bin/ls /tmp/sh"); code != 0 {
				t.Fatal(out)
			}
			o.Env = map[string]string{"PATH": path}
		}
		shells[name], err = sb.OpenShell(ctx, o)
		must(t, err)
		defer shells[name].Close()
		if shells[name].Program() != name {
			t.Fatal(shells[name].Program())
		}
		shellLine(t, shells[name], "cd /tmp; cd /workspace/sub; false")
	}
	gone, err := sb.OpenShell(ctx, sandbox.ShellOptions{Dir: "/workspace/only-old"})
	must(t, err)
	defer gone.Close()
	elsewhere, err := sb.OpenShell(ctx, sandbox.ShellOptions{Dir: "/tmp"})
	must(t, err)
	defer elsewhere.Close()
	shellLine(t, elsewhere, "mkdir /tmp/removed && cd /tmp/removed && rmdir /tmp/removed")

	lower := t.TempDir()
	must(t, os.Mkdir(filepath.Join(lower, "sub"), 0o777))
	must(t, os.Chmod(filepath.Join(lower, "sub"), 0o777))
	must(t, os.WriteFile(filepath.Join(lower, "a"), []byte("new"), 0o644))
	mount, upper := detachedOverlay(t, s, lower)
	must(t, remount(t, sb, sandbox.WorkspaceDir, mount))

	// By files, a new command and docker exec.
	r, err := files.Read(ctx, "/workspace/a", 0, -1)
	must(t, err)
	content, err := io.ReadAll(r)
	must(t, err)
	r.Close()
	if string(content) != "new" {
		t.Errorf("files read %q", content)
	}
	if out, _ := sh(t, sb, "cat a; ls"); out != "newa\nsub" {
		t.Errorf("a command sees %q", out)
	}
	var seen bytes.Buffer
	e, err := sb.(sandbox.Execer).Exec(ctx, sandbox.Command{Args: []string{"cat", "/workspace/a"}, Stdout: &seen})
	must(t, err)
	if _, err := e.Wait(); err != nil || seen.String() != "new" {
		t.Errorf("docker exec sees %q, %v", seen.String(), err)
	}
	must(t, files.Write(ctx, "/workspace/b", strings.NewReader("b"), sandbox.WriteOptions{}))
	if b, err := os.ReadFile(filepath.Join(upper, "b")); string(b) != "b" {
		t.Errorf("what files write is not in the new file system: %q, %v", b, err)
	}

	// What ran goes on with what it had open.
	_, err = io.WriteString(feed, "hello\n")
	must(t, err)
	testenv.Until(t, "the command answers", func() bool { return out.String() == "begun\nsaid hello\n" })
	feed.Close()
	if exit, err := p.Wait(); err != nil || exit.Code != 0 {
		t.Errorf("the command ended with %+v, %v", exit, err)
	}
	if log, err := os.ReadFile(filepath.Join(dockertest.Workspace(s), "log")); string(log) != "hello\n" {
		t.Errorf("the open file holds %q, %v", log, err)
	}

	// Shells go on in the folder of the same path.
	for name, shell := range shells {
		text, errOut, exit := shellLine(t, shell, `echo $? $PWD $OLDPWD; cat ../a; echo x >here-`+name+`; ls`)
		if want := "1 /workspace/sub /tmp\nnew"; !strings.HasPrefix(text, want) || errOut != "" || exit.Code != 0 || exit.LostDir != "" || exit.Restarted {
			t.Errorf("%s: got %q, %q, %+v", name, text, errOut, exit)
		}
		if _, err := os.Stat(filepath.Join(upper, "sub", "here-"+name)); err != nil {
			t.Errorf("%s: what the shell writes is not in the new file system: %v", name, err)
		}
		if text, _, exit := shellLine(t, shell, "pwd"); text != "/workspace/sub\n" || exit.LostDir != "" {
			t.Errorf("%s: next line: %q, %+v", name, text, exit)
		}
	}
	text, errOut, exit := shellLine(t, gone, "pwd; cat a")
	if text != "/workspace\nnew" || errOut != "" || exit.LostDir != "/workspace/only-old" || exit.Code != 0 {
		t.Errorf("the shell whose folder is gone: %q, %q, %+v", text, errOut, exit)
	}
	if text, _, exit := shellLine(t, gone, "exit 3"); exit.LostDir != "" || exit.Code != 3 {
		t.Errorf("its next line: %q, %+v", text, exit)
	}
	if text, _, exit := shellLine(t, gone, "pwd"); text != "/workspace\n" || exit.LostDir != "" {
		t.Errorf("started again: %q, %+v", text, exit)
	}
	if text, _, exit := shellLine(t, elsewhere, "echo $PWD"); text != "/tmp/removed\n" || exit.LostDir != "" {
		t.Errorf("a shell elsewhere: %q, %+v", text, exit)
	}

	// The options of the old mount hold, and nothing of it is left.
	table, err := os.ReadFile("/proc/" + strconv.Itoa(sb.Info().PID) + "/mountinfo")
	must(t, err)
	if n := strings.Count(string(table), " /workspace "); n != 1 {
		t.Errorf("%d mounts at the workspace:\n%s", n, table)
	}
	// Many times.
	for i := range 20 {
		dir := t.TempDir()
		must(t, os.Chmod(dir, 0o755))
		must(t, os.WriteFile(filepath.Join(dir, "n"), []byte(strconv.Itoa(i)), 0o644))
		must(t, remount(t, sb, sandbox.WorkspaceDir, detachedClone(t, dir)))
		if out, _ := sh(t, sb, "cat n"); out != strconv.Itoa(i) {
			t.Fatalf("%d: %q", i, out)
		}
	}
	if text, _, _ := shellLine(t, elsewhere, "cd /workspace && cat n"); text != "19" {
		t.Errorf("the shell elsewhere sees %q", text)
	}
}

// syncBuffer is a buffer that is read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
