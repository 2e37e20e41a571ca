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
	"github.com/bulkhead-dev/sandbox/provider/docker"
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
	testenv.Require(t, "root")
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

// TestSnapshot holds what is known of what runs, and that shells begin again from
// it in another sandbox with that one's environment, over both transports.
func TestSnapshot(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := dockertest.New(t)
	sb, s := w.Open("snapshot")
	spec := w.Spec("snapshot-fork")
	spec.Env["TOKEN"] = "it's fresh"
	fork := w.Create(spec)
	forks := map[string]sandbox.Sandbox{"socket": fork, "relay": w.Reopen(withoutSocket(spec))}
	for _, one := range []sandbox.Sandbox{sb, fork} {
		if out, code := sh(t, one, "mkdir -p /workspace/a/b /tmp/sh && ln -s /bin/sh /bin/cat /bin/sleep /tmp/sh"); code != 0 {
			t.Fatal(out)
		}
	}
	p, err := sb.Start(ctx, sandbox.Command{Args: []string{"sleep", "1000"}, Dir: "/tmp"})
	must(t, err)
	defer p.Kill(ctx)
	d, err := sb.Start(ctx, sandbox.Command{Args: []string{"sh", "-c", "sleep 1001 & echo"}, Detach: true})
	must(t, err)
	_, err = d.Wait()
	must(t, err)
	open := func(id, path string) sandbox.Shell {
		o := sandbox.ShellOptions{ID: id, Env: map[string]string{"TOKEN": "of the parent"}}
		if path != "" {
			o.Env["PATH"] = path
		}
		shell, err := sb.OpenShell(ctx, o)
		must(t, err)
		t.Cleanup(func() { shell.Close() })
		return shell
	}
	bash, posix := open("one", ""), open("two", "/tmp/sh")
	shellLine(t, bash, "cd a/b; x=' 1\n2'; export y=\"it's\"; f() { echo f $x; }; alias g='echo g'; set -f; shopt -s extglob; umask 027; TOKEN=x$TOKEN; trap 'echo bye' EXIT; sleep 1002 &")
	shellLine(t, posix, "cd a; x=3; export y=4; alias g='echo g'; umask 027")
	busy := open("three", "")
	shellLine(t, busy, "z=1")
	line, err := busy.Run(ctx, "z=2; sleep 1003", sandbox.Command{})
	must(t, err)
	defer line.Kill(ctx)

	got, err := w.Reopen(withoutSocket(s)).(sandbox.Snapshotter).Snapshot(ctx) // another connection
	must(t, err)
	if len(got.Shells) != 3 || got.Shells[0].ID != "one" || got.Shells[0].Program != "bash" || got.Shells[0].Dir != "/workspace/a/b" ||
		got.Shells[0].Processes != 1 || got.Shells[0].Stale || got.Shells[0].Line != "" ||
		got.Shells[1].ID != "three" || got.Shells[1].Line != "z=2; sleep 1003" || !got.Shells[1].Stale ||
		got.Shells[2].ID != "two" || got.Shells[2].Program != "sh" || got.Shells[2].Dir != "/workspace/a" || got.Shells[2].Stale {
		t.Fatalf("shells: %+v", got.Shells)
	}
	if len(got.Running) != 2 || got.Running[0].PID != p.(sandbox.Identified).PID() || strings.Join(got.Running[0].Args, " ") != "sleep 1000" ||
		got.Running[0].Dir != "/tmp" || got.Running[0].Detached || time.Since(got.Running[0].Started) > 10*time.Minute ||
		got.Running[1].PID != 0 || !got.Running[1].Detached {
		t.Fatalf("commands: %+v", got.Running)
	}
	for name, to := range forks {
		t.Run(name, func(t *testing.T) {
			for i, tt := range []struct{ line, out string }{
				{"echo \"$x|$y|$TOKEN\"; f; g; umask; echo *; pwd; env | while read -r l; do case $l in TOKEN=*|y=*) echo $l; esac; done", " 1\n2|it's|it's fresh\nf 1 2\ng\n0027\n*\n/workspace/a/b\n"},
				{"echo $z; pwd", "1\n/workspace\n"},
				{"echo $x $y; g; umask; pwd; cat /dev/null", "3 4\ng\n0027\n/workspace/a\n"},
			} {
				shell, err := to.OpenShell(ctx, sandbox.ShellOptions{ID: got.Shells[i].ID, From: &got.Shells[i]})
				must(t, err)
				defer shell.Close()
				out, errOut, exit := shellLine(t, shell, tt.line)
				if i == 0 {
					// The order of the environment is the shell's.
					for _, want := range []string{"TOKEN=it's fresh\n", "y=it's\n"} {
						if !strings.Contains(out, want) {
							t.Errorf("%d: %q lacks %q", i, out, want)
						}
						out = strings.Replace(out, want, "", 1)
					}
				}
				if out != tt.out || errOut != "" || !exit.Restarted || shell.ID() != got.Shells[i].ID || shell.Program() != got.Shells[i].Program {
					t.Errorf("%d: got %q, %q, %+v", i, out, errOut, exit)
				}
				if _, _, exit := shellLine(t, shell, "true"); exit.Restarted {
					t.Errorf("%d: the next line says so too", i)
				}
			}
			for _, bad := range []sandbox.ShellState{{Program: "zsh", Content: []byte("x")}, {Program: "bash"}, {Program: "bash", Content: []byte("x=1\n")}} {
				if _, err := to.OpenShell(ctx, sandbox.ShellOptions{From: &bad}); sandbox.CodeOf(err) != sandbox.CodeValidation {
					t.Errorf("%+v: %v", bad, err)
				}
			}
		})
	}
}

// refusedRemount holds that err has the code and that the workspace is as it was.
func refusedRemount(t *testing.T, sb sandbox.Sandbox, what string, err error, code sandbox.Code, word string) {
	t.Helper()
	if sandbox.CodeOf(err) != code || !strings.Contains(err.Error(), word) {
		t.Errorf("%s: got %v, want %s with %q", what, err, code, word)
	}
	if out, status := sh(t, sb, "cat /workspace/mark"); out != "here" || status != 0 {
		t.Fatalf("%s: afterwards the workspace holds %q", what, out)
	}
}

// TestRemountRefuses holds that nothing but a detached mount of a folder goes to
// nothing but a folder that the Spec mounts, where code inside cannot move it.
func TestRemountRefuses(t *testing.T) {
	testenv.Require(t, "root")
	t.Parallel()
	w := dockertest.New(t)
	shared := t.TempDir()
	must(t, os.Chmod(shared, 0o777))
	must(t, os.MkdirAll(filepath.Join(shared, "deep", "ws"), 0o777))
	must(t, os.Chmod(filepath.Join(shared, "deep"), 0o777))
	ws := t.TempDir()
	must(t, os.Chmod(ws, 0o777))
	s := w.Spec("refuses")
	s.Mounts = append(s.Mounts,
		sandbox.Mount{Source: shared, Target: "/shared", Role: sandbox.RoleBind},
		sandbox.Mount{Source: ws, Target: "/shared/deep/ws", Role: sandbox.RoleBind},
		sandbox.Mount{Source: ws, Target: "/run/deep/ws", Role: sandbox.RoleBind},
	)
	sb := w.Create(s)
	if out, code := sh(t, sb, "echo -n here >/workspace/mark"); code != 0 {
		t.Fatal(out)
	}
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	good := detachedClone(t, dir)
	file := detachedClone(t, filepath.Join(dir, "file"))
	plain, err := os.Open(dir)
	must(t, err)
	defer plain.Close()
	var pipe [2]int
	must(t, unix.Pipe2(pipe[:], unix.O_CLOEXEC))
	reader := os.NewFile(uintptr(pipe[0]), "pipe")
	defer reader.Close()
	defer unix.Close(pipe[1])
	root, err := os.Open("/")
	must(t, err)
	defer root.Close()
	before, err := os.ReadFile("/proc/self/mountinfo")
	must(t, err)
	for what, tt := range map[string]struct {
		target string
		mount  *os.File
		code   sandbox.Code
		word   string
	}{
		"no mount of the Spec":         {"/etc", good, sandbox.CodeValidation, "target"},
		"a folder of it":               {"/workspace/sub", good, sandbox.CodeValidation, "target"},
		"not clean":                    {"/workspace/", good, sandbox.CodeValidation, "target"},
		"above":                        {"/workspace/..", good, sandbox.CodeValidation, "target"},
		"memory":                       {"/tmp", good, sandbox.CodeValidation, "target"},
		"the guest's own":              {sandbox.GuestDir + "/bin", good, sandbox.CodeValidation, "target"},
		"a mount of a file":            {sandbox.WorkspaceDir, file, sandbox.CodeValidation, "mount"},
		"a folder that is not mounted": {sandbox.WorkspaceDir, plain, sandbox.CodeValidation, "not the root of a mount"},
		"a mount of this machine":      {sandbox.WorkspaceDir, root, sandbox.CodeValidation, "mounted on this machine"},
		"a pipe":                       {sandbox.WorkspaceDir, reader, sandbox.CodeValidation, "mount"},
		"nothing":                      {sandbox.WorkspaceDir, nil, sandbox.CodeValidation, "mount"},
		"below a writable folder":      {"/shared/deep/ws", good, sandbox.CodeUnsupported, `"/shared"`},
		"below memory of the sandbox":  {"/run/deep/ws", good, sandbox.CodeUnsupported, `"/run"`},
		"another mount lies below":     {"/shared", good, sandbox.CodeUnsupported, "/shared/deep"},
	} {
		refusedRemount(t, sb, what, remount(t, sb, tt.target, tt.mount), tt.code, tt.word)
	}
	if after, err := os.ReadFile("/proc/self/mountinfo"); err != nil || !bytes.Equal(optionsOf(before, " / / "), optionsOf(after, " / / ")) {
		t.Errorf("the mounts of this machine have changed: %v", err)
	}
	// A name above it is moved, and a link put in its place: the mount goes where
	// its folder goes, and nothing is mounted behind the link.
	if out, code := sh(t, sb, "cd /run && mv deep moved && mkdir /tmp/trap && mkdir /tmp/trap/ws && ln -s /tmp/trap deep"); code != 0 {
		t.Fatal(out)
	}
	refusedRemount(t, sb, "a link", remount(t, sb, "/run/deep/ws", good), sandbox.CodeUnavailable, "not mounted")
	if out, _ := sh(t, sb, "ls -A /tmp/trap/ws /tmp/trap"); strings.Contains(out, "file") {
		t.Errorf("it was mounted behind the link: %s", out)
	}
	if err := remount(t, sb, sandbox.WorkspaceDir, good); err != nil { // it was used by none
		t.Error(err)
	}
}

// optionsOf returns the lines of a mountinfo with a word.
func optionsOf(table []byte, word string) (lines []byte) {
	for line := range bytes.Lines(table) {
		if bytes.Contains(line, []byte(word)) {
			lines = append(lines, line...)
		}
	}
	return lines
}

// TestRemountKeepsOptions holds that the new mount allows no more than the old one.
func TestRemountKeepsOptions(t *testing.T) {
	testenv.Require(t, "root")
	t.Parallel()
	w := dockertest.New(t)
	s := w.Spec("options")
	agent := t.TempDir()
	must(t, os.Chmod(agent, 0o777))
	s.Mounts = append(s.Mounts, sandbox.Mount{Source: agent, Target: sandbox.AgentDir, ReadOnly: true, Role: sandbox.RoleAgent})
	sb := w.Create(s)
	next := t.TempDir()
	must(t, os.Chmod(next, 0o777))
	must(t, os.WriteFile(filepath.Join(next, "a"), []byte("new"), 0o666))
	must(t, remount(t, sb, sandbox.AgentDir, detachedClone(t, next)))
	if out, code := sh(t, sb, "cat /agent/a; echo x >/agent/a"); code == 0 || !strings.HasPrefix(out, "new") {
		t.Errorf("got %q, %d", out, code)
	}
	if b, err := os.ReadFile(filepath.Join(next, "a")); string(b) != "new" {
		t.Errorf("the file holds %q, %v", b, err)
	}
	must(t, os.WriteFile(filepath.Join(next, "a"), []byte("x"), 0o666)) // the host may
}

// TestRemountOther holds that a process that the engine names, and that is none of
// the container, is not entered.
func TestRemountOther(t *testing.T) {
	testenv.Require(t, "root")
	t.Parallel()
	w := dockertest.New(t)
	first, s := w.Open("first")
	second, other := w.Open("second")
	if out, code := sh(t, second, "echo -n here >/workspace/mark"); code != 0 {
		t.Fatal(out)
	}
	dir := t.TempDir()
	for what, pid := range map[string]int{"another container's": second.Info().PID, "one of the host": os.Getpid(), "none": 1 << 22} {
		info := first.Info()
		info.PID = pid
		liar, err := w.P.Bind(w.Reopen(s), s, info)
		must(t, err)
		err = remount(t, liar, sandbox.WorkspaceDir, detachedClone(t, dir))
		refusedRemount(t, second, what, err, sandbox.CodeUnsupported, "process")
		must(t, liar.Close())
	}
	if b, err := os.ReadFile(filepath.Join(dockertest.Workspace(other), "mark")); string(b) != "here" {
		t.Errorf("%q, %v", b, err)
	}
}

// TestRemountRace exchanges the mount again and again while code inside does what it
// can to the name of the workspace.
func TestRemountRace(t *testing.T) {
	testenv.Require(t, "root")
	t.Parallel()
	w := dockertest.New(t)
	sb, _ := w.Open("race")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	p, err := sb.Start(ctx, sandbox.Command{Args: []string{"sh", "-c", `while :; do mv /workspace /w2; rmdir /workspace; ln -sfn /tmp /workspace; mv /workspace/a /workspace/b; mkdir -p /workspace/a; done 2>/dev/null`}})
	must(t, err)
	host, err := os.ReadFile("/proc/self/mountinfo")
	must(t, err)
	for i := range 50 {
		dir := t.TempDir()
		must(t, os.Chmod(dir, 0o777))
		must(t, os.WriteFile(filepath.Join(dir, "n"), []byte(strconv.Itoa(i)), 0o644))
		must(t, remount(t, sb, sandbox.WorkspaceDir, detachedClone(t, dir)))
		if b, err := os.ReadFile(inside(sb, "/workspace/n")); string(b) != strconv.Itoa(i) {
			t.Fatalf("%d: %q, %v", i, b, err)
		}
	}
	must(t, p.Kill(ctx))
	table, err := os.ReadFile("/proc/" + strconv.Itoa(sb.Info().PID) + "/mountinfo")
	must(t, err)
	if n := len(bytes.Split(bytes.TrimSpace(optionsOf(table, " /workspace")), []byte("\n"))); n != 1 {
		t.Errorf("%d mounts:\n%s", n, table)
	}
	now, err := os.ReadFile("/proc/self/mountinfo")
	must(t, err)
	if bytes.Count(now, []byte("\n")) > bytes.Count(host, []byte("\n")) && bytes.Contains(now, []byte(t.TempDir())) {
		t.Errorf("something was mounted on this machine:\n%s", now)
	}
}

// TestRemountKilled holds that a workspace that is not mounted is found when the
// sandbox is opened, as after a program was killed between two steps of an exchange
// on a kernel that needs them, and that what a killed one has left beneath the old
// mount is taken away by the next.
func TestRemountKilled(t *testing.T) {
	testenv.Require(t, "root")
	t.Parallel()
	w := dockertest.New(t)
	sb, s := w.Open("killed")
	pid := strconv.Itoa(sb.Info().PID)
	beneath, last := t.TempDir(), t.TempDir()
	for _, dir := range []string{beneath, last} {
		must(t, os.Chmod(dir, 0o777))
		must(t, os.WriteFile(filepath.Join(dir, "n"), []byte(filepath.Base(dir)), 0o644))
	}
	if out, code := sh(t, sb, "echo -n here >/workspace/n"); code != 0 {
		t.Fatal(out)
	}
	docker.PutBeneath(t, sb, sandbox.WorkspaceDir, detachedClone(t, beneath))
	if out, _ := sh(t, w.Reopen(s), "cat n"); out != "here" {
		t.Errorf("with another mount beneath the workspace is %q", out)
	}
	must(t, remount(t, sb, sandbox.WorkspaceDir, detachedClone(t, last)))
	if out, _ := sh(t, sb, "cat n"); out != filepath.Base(last) {
		t.Errorf("the workspace is %q", out)
	}
	table, err := os.ReadFile("/proc/" + pid + "/mountinfo")
	must(t, err)
	if n := bytes.Count(table, []byte(" /workspace ")); n != 1 {
		t.Errorf("%d mounts are left:\n%s", n, table)
	}
	docker.TakeAway(t, sb, sandbox.WorkspaceDir, detachedClone(t, last))
	ctx := context.Background()
	if again, err := w.P.Open(ctx, s); sandbox.CodeOf(err) != sandbox.CodeUnavailable || !strings.Contains(err.Error(), "not mounted") {
		t.Errorf("Open of a sandbox without its workspace: %v, %v", again, err)
	}
	if err := remount(t, sb, sandbox.WorkspaceDir, detachedClone(t, last)); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("Remount of one: %v", err)
	}
}

// TestRemountSwap exchanges the mounts as kernels before 6.5 have to.
func TestRemountSwap(t *testing.T) {
	testenv.Require(t, "root")
	t.Parallel()
	w := dockertest.New(t)
	sb, _ := w.Open("swap")
	if out, code := sh(t, sb, "echo -n here >/workspace/mark"); code != 0 {
		t.Fatal(out)
	}
	// One that cannot be put there: the old one has to be put back.
	dir := t.TempDir()
	used := detachedClone(t, dir)
	target := filepath.Join(t.TempDir(), "m")
	must(t, os.Mkdir(target, 0o700))
	must(t, unix.MoveMount(int(used.Fd()), "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH))
	defer unix.Unmount(target, unix.MNT_DETACH)
	refusedRemount(t, sb, "one that is mounted", docker.Swap(sb, sandbox.WorkspaceDir, detachedClone(t, dir), used), sandbox.CodeUnavailable, "cannot be put")
	must(t, os.Chmod(dir, 0o777))
	must(t, os.WriteFile(filepath.Join(dir, "mark"), []byte("there"), 0o644))
	next := detachedClone(t, dir)
	must(t, docker.Swap(sb, sandbox.WorkspaceDir, next, next))
	if b, err := os.ReadFile(inside(sb, "/workspace/mark")); string(b) != "there" {
		t.Errorf("%q, %v", b, err)
	}
}
