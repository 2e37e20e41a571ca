//go:build linux

package manager_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
)

// A viewer makes managers whose sandboxes have private views.
type viewer struct {
	state   *statedir.Dir
	manager func(settings string) *manager.Manager // as a new start of the program
	stop    func(name string)                      // ends a sandbox as a restart of the machine does
	missed  bool                                   // what matches a pattern later stays open to commands
}

// viewers calls test for each provider.
func viewers(t *testing.T, test func(t *testing.T, v *viewer)) {
	t.Helper()
	t.Run("docker", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		unmountsAfter(t, r.state)
		test(t, &viewer{state: r.state, manager: r.manager, missed: true, stop: func(name string) {
			if out, err := exec.Command("docker", "stop", "-t", "0", name).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}})
	})
	t.Run("local", func(t *testing.T) {
		t.Parallel()
		testenv.Require(t, "root")
		v := &viewer{stop: func(string) {}}
		dir := filepath.Join(t.TempDir(), "state")
		var err error
		v.state, err = statedir.Open(dir)
		must(t, err)
		unmountsAfter(t, v.state)
		v.manager = func(settings string) *manager.Manager {
			parsed, err := config.Parse("test", []byte(strings.Replace(settings, `"sandbox": {`, `"sandbox": {"provider": "local", `, 1)))
			must(t, err)
			return newSandboxedIn(t, v.state, func(o *manager.Options, _ *statedir.Dir) { o.Settings = parsed }).Manager
		}
		test(t, v)
	})
}

// unmountsAfter takes the mounts below the workspaces away when the test ends.
func unmountsAfter(t *testing.T, state *statedir.Dir) {
	t.Cleanup(func() { unmountAll(t, state.Workspaces()) })
}

// unmountAll unmounts what is mounted below dir, and returns how much that was.
func unmountAll(t *testing.T, dir string) (n int) {
	t.Helper()
	f, err := os.Open("/proc/self/mountinfo")
	must(t, err)
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if at := strings.Fields(lines.Text())[4]; strings.HasPrefix(at, dir+"/") {
			must(t, unix.Unmount(at, unix.MNT_DETACH))
			n++
		}
	}
	return n
}

// privately are settings by which the agent has a private view of dir.
func privately(dir, more string) string {
	return fmt.Sprintf(`{"agents": {"defaults": {"sandbox": {"workspaceAccess": "private"%s}}, "list": [{"id": "main", "workspace": %q}]}}`, more, dir)
}

// seen makes a folder that belongs to uid, in which not all may be read by
// others.
func seen(t *testing.T, uid int) string {
	t.Helper()
	dir := tempDir(t, 0o755)
	for name, mode := range map[string]os.FileMode{
		"a": 0o600, "b": 0o644, "kept": 0o640, "d/f": 0o600, "d/g": 0o644, ".env": 0o600, "sub/.env.local": 0o644, "sub/key.txt": 0o644,
		".git/hooks/sample": 0o755,
	} {
		p := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(p), 0o700))
		must(t, os.WriteFile(p, []byte("text of "+name+"\n"), mode))
	}
	must(t, os.Symlink("a", filepath.Join(dir, "link")))
	must(t, os.Link(filepath.Join(dir, "b"), filepath.Join(dir, "hard")))
	must(t, filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(p, uid, uid))
	}))
	return dir
}

// photo describes all that is in a folder, except when it was read.
func photo(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	must(t, filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			return err
		}
		text := fmt.Sprintf("%o %d:%d links=%d size=%d mtime=%d ctime=%d ino=%d", st.Mode, st.Uid, st.Gid, st.Nlink, st.Size, st.Mtim.Nano(), st.Ctim.Nano(), st.Ino)
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			text += " " + string(b)
		case unix.S_IFLNK:
			to, err := os.Readlink(p)
			if err != nil {
				return err
			}
			text += " -> " + to
		}
		out[strings.TrimPrefix(p, dir)] = text
		return nil
	}))
	return out
}

// same holds that nothing in dir is otherwise than in before.
func same(t *testing.T, dir string, before map[string]string) {
	t.Helper()
	if d := cmp.Diff(before, photo(t, dir)); d != "" {
		t.Errorf("the host folder has changed (-before +now):\n%s", d)
	}
}

// TestPrivateWorkspace holds that a private view shows the host folder and
// takes every kind of change, that none of it reaches the folder, and that the
// changes outlast the program, the sandbox and a restart of the machine.
func TestPrivateWorkspace(t *testing.T) {
	t.Parallel()
	for _, uid := range []int{0, 1000} {
		t.Run(fmt.Sprint("uid ", uid), func(t *testing.T) {
			t.Parallel()
			viewers(t, func(t *testing.T, v *viewer) { testPrivateWorkspace(t, v, uid) })
		})
	}
}

func testPrivateWorkspace(t *testing.T, v *viewer, uid int) {
	dir := seen(t, uid)
	before := photo(t, dir)
	m := v.manager(privately(dir, ""))
	out, first := mustRun(t, m, "s", "id -u; cat a b d/f link; stat -c %u:%a a")
	if want := "text of a\ntext of b\ntext of d/f\ntext of a\n"; !strings.Contains(out, want) || uid != 0 && !strings.HasPrefix(out, fmt.Sprintln(uid)) || strings.HasPrefix(out, "0\n") {
		t.Fatalf("what is seen: %q", out)
	}
	lines := strings.Split(out, "\n")
	if lines[0]+":600" != lines[len(lines)-1] {
		t.Errorf("the user inside is %s, and the folder's files belong to %s", lines[0], lines[len(lines)-1])
	}
	mustRun(t, m, "s", "echo more >> a; rm b; mv d/f d/e; mv d d2; chmod 755 kept; mkdir -p new/er; echo n > new/er/file; ln -s /etc/passwd out; ln hard harder; echo x >> harder; rm -r sub/key.txt; touch -d @1 hard; truncate -s 0 d2/g")
	same(t, dir, before)
	const look = "cat a kept d2/e new/er/file hard; ls; stat -c %a kept; test ! -e b && test ! -e d"
	changed, _ := mustRun(t, m, "s", look)
	if want := "text of a\nmore\ntext of kept\ntext of d/f\nn\ntext of b\nx\n"; !strings.HasPrefix(changed, want) {
		t.Fatalf("what was changed: %q", changed)
	}
	again := func(when string, m *manager.Manager) {
		t.Helper()
		if now, _ := mustRun(t, m, "s", look); now != changed {
			t.Errorf("%s: %q, before %q", when, now, changed)
		}
		same(t, dir, before)
	}
	must(t, m.Close())
	again("in another process", v.manager(privately(dir, "")))

	v.stop(first.Name)
	if unmountAll(t, v.state.Workspaces()) == 0 {
		t.Error("no view was mounted")
	}
	again("after a restart of the machine", v.manager(privately(dir, "")))

	// Settings that make another sandbox of it.
	other := v.manager(privately(dir, `, "docker": {"env": {"X": "1"}}, "filesystem": {"denyWrite": ["/none"]}`))
	renew(t, other)
	again("in a sandbox of other settings", other)

	// An access that does not see the view leaves it alone.
	none := v.manager(strings.Replace(privately(dir, ""), `"private"`, `"none"`, 1))
	renew(t, none)
	if out, _ := mustRun(t, none, "s", "ls -A; echo own > own"); out != "" {
		t.Errorf("the scratch workspace shows %q", out)
	}
	back := v.manager(privately(dir, ""))
	// The sandbox was just used, and a command that is to have a view does not
	// begin in it.
	if _, _, err := run(back, "s", "true"); sandbox.CodeOf(err) != sandbox.CodeBusy || !strings.Contains(err.Error(), "recreate") {
		t.Errorf("in a sandbox without the view: %v", err)
	}
	renew(t, back)
	again("after another access", back)
}

// renew removes the sandbox of the session s; its workspace stays.
func renew(t *testing.T, m *manager.Manager) {
	t.Helper()
	if done := m.Recreate(t.Context(), []manager.Row{row(t, m, "s")}); len(done.Failed) > 0 {
		t.Fatalf("%+v", done)
	}
}

// TestPrivateWorkspaceHidesSecrets holds that what rules close for reading in the
// host folder is closed in a private view of it: files that were there, under any
// name, and what comes later, to the host folder or inside.
func TestPrivateWorkspaceHidesSecrets(t *testing.T) {
	t.Parallel()
	viewers(t, func(t *testing.T, v *viewer) {
		dir := seen(t, 1000)
		must(t, os.Link(filepath.Join(dir, ".env"), filepath.Join(dir, "alias")))
		must(t, os.WriteFile(filepath.Join(dir, "named"), []byte("text of named\n"), 0o644))
		must(t, os.WriteFile(filepath.Join(dir, "d/x.secret"), []byte("text of x.secret\n"), 0o644))
		more := fmt.Sprintf(`, "filesystem": {"denyRead": [%q, %q]}`, filepath.Join(dir, "named"), dir+"/**/*.secret")
		before := photo(t, dir)
		m := v.manager(privately(dir, more))
		closed := []string{".env", "sub/.env.local", "named", "d/x.secret", "alias"}
		refused := func(m *manager.Manager, names []string) {
			t.Helper()
			for _, name := range names {
				for _, line := range []string{
					"cat " + name, "mv " + name + " open; cat open", "ln " + name + " open; cat open", "cp " + name + " open; cat open",
					"mv " + filepath.Dir(name) + " moved; cat moved/" + filepath.Base(name), "rm " + name, "echo >> " + name,
					"cat " + filepath.Join(dir, name),
				} {
					if out, o, err := inside(m, line); err == nil && o.Exit.Code == 0 || strings.Contains(out, "text of") {
						t.Errorf("%s: %q, %v", line, out, err)
					}
				}
				place := row(t, m, "s").Workspace
				err := withFiles(t, m, "s", func(ctx context.Context, f manager.Share) error {
					for _, p := range []string{name, filepath.Join(dir, name), filepath.Join(place, name)} {
						if r, err := f.Read(ctx, p, 0, -1); err == nil {
							b, _ := io.ReadAll(r)
							r.Close()
							t.Errorf("the file tool reads %s: %q", p, b)
						}
					}
					r, err := f.Read(ctx, filepath.Join(dir, "d/g"), 0, -1)
					if err == nil {
						r.Close()
					}
					return err
				})
				must(t, err)
			}
		}
		refused(m, closed)
		same(t, dir, before)

		// A folder in the place of one that the view has, and what comes later.
		if out, o, err := inside(m, "mkdir made; echo x > d/mine; rm -rf .git; ln -s /etc .git; echo text of made > made/file"); err != nil || o.Exit.Code != 0 {
			t.Fatalf("%q, %v", out, err)
		}
		must(t, os.WriteFile(filepath.Join(dir, "later.secret"), []byte("text of later\n"), 0o644))
		must(t, os.WriteFile(filepath.Join(dir, "d/.env"), []byte("text of later\n"), 0o644))
		if v.missed {
			renew(t, m)
		}
		refused(m, slices.Concat(closed, []string{"later.secret", "d/.env"}))
		if out, _ := mustRun(t, m, "s", "cat made/file d/g"); out != "text of made\ntext of d/g" {
			t.Errorf("what is open: %q", out)
		}
	})
}

// TestPrivateWorkspaceAttacks holds that code inside can neither make what
// overlayfs takes for notes of its own, nor get out of the view by links, nor
// gain anything by devices and set-user-id files.
func TestPrivateWorkspaceAttacks(t *testing.T) {
	t.Parallel()
	viewers(t, func(t *testing.T, v *viewer) {
		dir := seen(t, 1000)
		before := photo(t, dir)
		m := v.manager(privately(dir, ""))
		attack := `
import os, stat, subprocess
def no(what, f):
    try: f()
    except OSError as e: return
    print("allowed:", what)
no("whiteout", lambda: os.mknod("b2", stat.S_IFCHR | 0o600, 0))
no("whiteout in place", lambda: (os.unlink("hard"), os.mknod("hard", stat.S_IFCHR | 0o600, 0)))
no("null", lambda: os.mknod("null", stat.S_IFCHR | 0o666, os.makedev(1, 3)))
no("disk", lambda: os.mknod("disk", stat.S_IFBLK | 0o666, os.makedev(254, 0)))
for prefix in ("trusted.overlay.", "security.", "trusted."):
    for name in ("opaque", "redirect", "whiteout", "metacopy", "origin", "capability"):
        no(prefix + name, lambda: os.setxattr("d", prefix + name, b"y"))
for name, value in (("opaque", b"y"), ("opaque", b"x"), ("redirect", b"/sub"), ("whiteout", b""), ("metacopy", b""), ("origin", b"x"), ("impure", b"y")):
    for place in ("d", "kept", "d/g"):
        try: os.setxattr(place, "user.overlay." + name, value)
        except OSError: pass
os.symlink("../../..", "up")
os.symlink("/proc/1/root", "root")
no("set-user-id", lambda: os.chmod("kept", 0o6755))
print(subprocess.call("mount -o remount,suid,dev /workspace || mount -t overlay overlay -o lowerdir=/workspace,upperdir=/tmp,workdir=/tmp /mnt || umount /workspace", shell=True, stderr=subprocess.DEVNULL) != 0)
`
		out, first, err := run(m, "s", `python3 -c '`+attack+`'`)
		if err != nil || out != "True" {
			t.Fatalf("%q, %v", out, err)
		}
		same(t, dir, before)
		look := "cat d/f d/g kept; ls d; ls; test ! -e hard"
		was, _ := mustRun(t, m, "s", look)
		if !strings.HasPrefix(was, "text of d/f\ntext of d/g\ntext of kept\n") {
			t.Errorf("the notes hide or show files: %q", was)
		}
		must(t, m.Close())
		v.stop(first.Name)
		unmountAll(t, v.state.Workspaces())
		m = v.manager(privately(dir, ""))
		if now, _ := mustRun(t, m, "s", look); now != was {
			t.Errorf("the notes hide or show files after a mount: %q, before %q", now, was)
		}
		must(t, withFiles(t, m, "s", func(ctx context.Context, f manager.Share) error {
			for _, name := range []string{"up/etc/hostname", "root/etc/hostname", "up" + dir + "/a"} {
				if r, err := f.Read(ctx, name, 0, -1); err == nil {
					r.Close()
					t.Errorf("%s leads out", name)
				}
			}
			return nil
		}))
		// On the host the view has neither devices nor set-user-id programs.
		found := false
		f, err := os.ReadFile("/proc/self/mountinfo")
		must(t, err)
		for line := range strings.Lines(string(f)) {
			if fields := strings.Fields(line); strings.HasPrefix(fields[4], v.state.Workspaces()+"/") {
				found = true
				if options := strings.Split(fields[5], ","); !slices.Contains(options, "nosuid") || !slices.Contains(options, "nodev") {
					t.Errorf("the view is mounted %s", fields[5])
				}
			}
		}
		if !found {
			t.Error("no view is mounted")
		}
		same(t, dir, before)
	})
}

// TestPrivateWorkspaceIsKept holds that changes that were not applied are never
// lost unnamed: another folder is refused, and what removes the view says how
// many go with it.
func TestPrivateWorkspaceIsKept(t *testing.T) {
	t.Parallel()
	viewers(t, func(t *testing.T, v *viewer) {
		dir, second := seen(t, 1000), seen(t, 1000)
		m := v.manager(privately(dir, ""))
		mustRun(t, m, "s", "cat b")
		must(t, m.Close())
		m = v.manager(privately(second, ""))
		renew(t, m)
		mustRun(t, m, "s", "rm a; echo x > n; mkdir e") // nothing was changed before
		must(t, m.Close())
		m = v.manager(privately(dir, ""))
		renew(t, m)
		if _, _, err := run(m, "s", "true"); sandbox.CodeOf(err) != sandbox.CodeBusy || !strings.Contains(err.Error(), "private view of "+second+" with 3 unapplied changes") {
			t.Fatalf("another folder: %v", err)
		}
		must(t, m.Close())
		m = v.manager(privately(second, ""))
		mustRun(t, m, "s", "test -e n -a ! -e a")
		place := row(t, m, "s").Workspace
		renew(t, m)
		look, err := m.Prune(t.Context(), manager.PruneOptions{Workspaces: true, DryRun: true})
		must(t, err)
		pruned, err := m.Prune(t.Context(), manager.PruneOptions{Workspaces: true})
		must(t, err)
		want := []manager.Removed{{Name: filepath.Base(place), Reason: "workspace: its sandbox is gone; lost: 3 unapplied changes to " + second}}
		for _, got := range [][]manager.Removed{look.Removed, pruned.Removed} {
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
		}
		if _, err := os.Lstat(place); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the place of the view: %v", err)
		}
		if n := unmountAll(t, v.state.Workspaces()); n > 0 {
			t.Errorf("%d mounts are left", n)
		}
		for _, sub := range []string{"data", "heads"} {
			if left, err := os.ReadDir(filepath.Join(v.state.Workspaces(), ".layers", sub)); err != nil || len(left) > 0 {
				t.Errorf("%s of the layers: %v, %v", sub, left, err)
			}
		}

		mustRun(t, m, "s", "echo x > n")
		must(t, m.Remove(t.Context(), row(t, m, "s"), manager.RemoveOptions{Force: true, Workspace: true}))
		if _, err := os.Lstat(place); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the place of the view after its removal: %v", err)
		}
	})
}

// TestPrivateWorkspaceSeesTheHost holds what of a change of the host folder is
// seen while a sandbox has a view of it: a file that was not changed inside shows
// what the folder has, also when it is written in place, and one that was changed
// stays as the sandbox left it.
func TestPrivateWorkspaceSeesTheHost(t *testing.T) {
	t.Parallel()
	viewers(t, func(t *testing.T, v *viewer) {
		dir := seen(t, 1000)
		m := v.manager(privately(dir, ""))
		mustRun(t, m, "s", "cat b kept; echo mine > kept")
		for _, name := range []string{"b", "kept"} {
			f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_APPEND, 0)
			must(t, err)
			_, err = f.WriteString("of the host\n")
			must(t, errors.Join(err, f.Close()))
		}
		must(t, os.WriteFile(filepath.Join(dir, "d/new"), []byte("new\n"), 0o644))
		if out, _ := mustRun(t, m, "s", "cat b kept d/new"); out != "text of b\nof the host\nmine\nnew" {
			t.Errorf("%q", out)
		}
	})
}

// TestPrivateWorkspaceAfterApply holds that a view shows what the folder has after
// an application and after its undo, also to a command that runs meanwhile, and what
// is changed in the folder then; and that the view keeps what the sandbox wrote.
func TestPrivateWorkspaceAfterApply(t *testing.T) {
	t.Parallel()
	viewers(t, func(t *testing.T, v *viewer) {
		dir := seen(t, 1000)
		m := v.manager(privately(dir, ""))
		put := func(name, text string) {
			t.Helper()
			p := filepath.Join(dir, name)
			must(t, os.WriteFile(p+".new", []byte(text), 0o644)) // as editors do
			must(t, os.Chown(p+".new", 1000, 1000))
			must(t, os.Rename(p+".new", p))
		}
		mustRun(t, m, "s", "mkdir deep; echo new >deep/new; echo more >>a; rm d/g; ls . d deep >/dev/null; cat b d/f >/dev/null; ! test -e later; ! test -e deep/other")

		ctx, stop := context.WithTimeout(context.Background(), time.Minute)
		defer stop()
		started, ended := make(chan struct{}), make(chan error, 1)
		var out bytes.Buffer
		go func() {
			_, err := m.Run(ctx, manager.Request{
				Who: who("s"), Started: func(sandbox.Process) { close(started) },
				Command: sandbox.Command{Args: []string{"sh", "-c", "until test -e go; do sleep 0.01; done; cat deep/other b"}, Stdout: &out},
			})
			ended <- err
		}()
		<-started
		done, err := m.Apply(ctx, manager.Request{Who: who("s")}, manager.ApplyOptions{})
		must(t, err)
		if text, err := os.ReadFile(filepath.Join(dir, "deep/new")); err != nil || string(text) != "new\n" {
			t.Fatalf("applied: %q, %v, %+v", text, err, done.Report)
		}
		put("deep/other", "other\n")
		put("later", "later\n")
		put("b", "changed\n")
		mustRun(t, m, "s", "touch go")
		must(t, <-ended)
		if got := out.String(); got != "other\nchanged\n" {
			t.Errorf("the command that ran saw %q", got)
		}
		if got, _ := mustRun(t, m, "s", "cat deep/other deep/new later b a"); got != "other\nnew\nlater\nchanged\ntext of a\nmore" {
			t.Errorf("after an application: %q", got)
		}
		_, err = m.Undo(ctx, manager.Request{Who: who("s")}, "", true)
		must(t, err)
		put("deep/third", "third\n")
		if got, _ := mustRun(t, m, "s", "cat deep/third deep/new a; ! test -e d/g"); got != "third\nnew\ntext of a\nmore" {
			t.Errorf("after an undo: %q", got)
		}
	})
}

// TestPrivateWorkspaceIsUnbounded holds that no view is made where the settings bound
// the workspace, which a view is not, and that explain says so.
func TestPrivateWorkspaceIsUnbounded(t *testing.T) {
	t.Parallel()
	viewers(t, func(t *testing.T, v *viewer) {
		m := v.manager(privately(seen(t, 1000), `, "workspaceQuota": "64m"`))
		_, _, err := run(m, "s", "true")
		var e *sandbox.Error
		if !errors.As(err, &e) || e.Code != sandbox.CodeUnsupported || e.Field != "workspaceQuota" {
			t.Fatalf("a view in spite of the quota: %v", err)
		}
		x, err := m.Explain(t.Context(), who("s"), nil, manager.Questions{})
		must(t, err)
		if x.View == nil || !strings.Contains(x.View.Problem, "no quota") {
			t.Errorf("explain says %+v", x.View)
		}
	})
}

// TestPrivateWorkspaceNeedsAFolder holds that a private view is refused where it
// is not said of what, and where another mount would let the sandbox write to the
// folder.
func TestPrivateWorkspaceNeedsAFolder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	dir := seen(t, 1000)
	for name, c := range map[string]struct {
		settings string
		code     sandbox.Code
		text     string
	}{
		"no folder":     {`{"agents": {"defaults": {"sandbox": {"workspaceAccess": "private"}}}}`, sandbox.CodeValidation, "no folder is named"},
		"writable bind": {privately(dir, fmt.Sprintf(`, "docker": {"binds": ["%s/d:/d:rw"]}`, dir)), sandbox.CodeCapabilityBlocked, "mounted writable beside the private view"},
		"bind around":   {privately(dir+"/d", fmt.Sprintf(`, "docker": {"binds": ["%s:/d:rw"]}`, dir)), sandbox.CodeCapabilityBlocked, "which a sandbox can write"},
	} {
		if _, _, err := run(r.manager(c.settings), "s", "true"); sandbox.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
