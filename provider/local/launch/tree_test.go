//go:build linux

package launch_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/provider/local/launch"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
)

// grown is an instance whose mounts are all in a tree: without it bubblewrap fails.
// In the folder of the host that it shows at /work are a file and a folder to
// be closed.
func grown(t *testing.T, down *launch.Down) (o launch.Order, work string) {
	t.Helper()
	work = t.TempDir()
	for dir := work; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) { // for the instance's user
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	mask := filepath.Join(t.TempDir(), "mask")
	for _, err := range []error{
		os.Mkdir(filepath.Join(work, "closed"), 0o700), os.Mkdir(filepath.Join(work, "kept"), 0o755),
		os.WriteFile(filepath.Join(work, "closed", "x"), nil, 0o644), os.WriteFile(filepath.Join(work, "secret"), []byte("secret"), 0o644),
		os.WriteFile(mask, nil, 0),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	uid, gid := os.Geteuid(), os.Getegid()
	if down != nil {
		uid, gid = down.UID, down.GID
		for _, p := range []string{work, filepath.Join(work, "kept")} {
			if err := os.Chown(p, uid, gid); err != nil {
				t.Fatal(err)
			}
		}
	}
	o = plain(t)
	o.Down = down
	guest := testenv.Guest(t)
	ops := []plan.Op{
		{Kind: plan.OpDir, Target: "/.sandbox", Mode: 0o755},
		{Kind: plan.OpSymlink, Source: "usr/bin", Target: "/bin"},
		{Kind: plan.OpDev, Target: "/dev"},
		{Kind: plan.OpSymlink, Source: "usr/lib", Target: "/lib"},
		{Kind: plan.OpSymlink, Source: "usr/lib64", Target: "/lib64"},
		{Kind: plan.OpProc, Target: "/proc"},
		{Kind: plan.OpTmpfs, Target: "/tmp", Size: 1 << 20, Mode: 0o1777},
		{Kind: plan.OpRoBind, Source: "/usr", Target: "/usr"},
		{Kind: plan.OpBind, Source: work, Target: "/work"},
		{Kind: plan.OpDir, Target: "/.sandbox/bin", Mode: 0o755},
		{Kind: plan.OpMaskFile, Target: "/proc/keys"},
		{Kind: plan.OpMaskDir, Target: "/work/closed", Mode: 0},
		{Kind: plan.OpRoBind, Source: filepath.Join(work, "kept"), Target: "/work/kept"},
		{Kind: plan.OpMaskFile, Target: "/work/secret", File: true},
		{Kind: plan.OpRoBind, Source: guest, Target: guestInside, File: true},
		{Kind: plan.OpRemountRo, Target: "/dev"},
		{Kind: plan.OpRemountRo, Target: "/"},
	}
	o.Args = []string{"--no-such-option"}
	o.Tree = &launch.Tree{Ops: ops, Mask: mask, Args: plan.BwrapArgs(plan.Plan{Ops: launch.Late(ops)}, plan.BwrapOptions{
		Root: launch.TreeRoot, MaskFile: launch.TreeMask, UID: uid, GID: gid, Env: map[string]string{"PATH": "/usr/bin:/bin"}, DisableUserns: true,
	})}
	return o, work
}

// downs are the ways in which an instance is started: by its user, and by root.
func downs() map[string]*launch.Down {
	all := map[string]*launch.Down{"its user's": nil}
	if os.Geteuid() == 0 {
		all["root's"] = &launch.Down{UID: 471100, GID: 471100}
	}
	return all
}

func TestTreeHoldsWhatIsClosed(t *testing.T) {
	for name, down := range downs() {
		t.Run(name, func(t *testing.T) {
			o, work := grown(t, down)
			if os.Geteuid() == 0 && down == nil {
				// Root without capabilities may write what belongs to root.
				t.Log("as root itself")
			}
			c := connect(t, start(t, o))
			for _, try := range []struct{ line, want string }{
				{"cat /work/secret; echo $?", "1"},
				{"echo x >/work/secret; echo $?", "2"},
				{"ls /work/closed; echo $?", "2"},
				{"touch /work/kept/new; echo $?", "1"},
				{"cat /proc/keys; echo $?", "1"},
				{"touch /new; echo $?", "1"},
				{"touch /dev/new; echo $?", "1"},
				{"touch /usr/new; echo $?", "1"},
				{"touch /tmp/new; echo $?", "0"},
				{"echo yes >/work/new; echo $?", "0"},
				{"mv /work/kept /work/other; echo $?", "1"},
				{"echo x >/dev/null; head -c1 /dev/zero | od -An -tx1; ls -A /dev | tr '\\n' ' '", "00\ncore fd full null ptmx pts random shm stderr stdin stdout tty urandom zero"},
				{"ls /; umount /work/secret; unshare -Ur true; echo end", "end"},
				{"grep -c ' /oldroot\\| /newroot\\|/mask-dir' /proc/self/mountinfo", "0"},
				{"umask", "0022"},
			} {
				got := output(t, c, "sh", "-c", try.line)
				if lines := strings.Split(got, "\n"); !strings.Contains(try.want, "\n") {
					got = lines[len(lines)-1]
				}
				if strings.TrimSpace(got) != try.want && !(try.line == "umask" && down != nil) {
					t.Errorf("%s: %q, want %q", try.line, got, try.want)
				}
			}
			if text, err := os.ReadFile(filepath.Join(work, "new")); err != nil || string(text) != "yes\n" {
				t.Errorf("what was written inside is %q (%v)", text, err)
			}
			info, err := os.ReadFile("/proc/self/mountinfo")
			if err != nil || strings.Contains(string(info), work) {
				t.Errorf("the mounts of the sandbox are seen outside (%v):\n%s", err, info)
			}
		})
	}
}

// TestTreeFollowsNoLink is about code in an older instance that has put a link in
// the place of a folder since the plan was made.
func TestTreeFollowsNoLink(t *testing.T) {
	for name, down := range downs() {
		for _, at := range []string{"target", "source"} {
			t.Run(name+" "+at, func(t *testing.T) {
				o, work := grown(t, down)
				elsewhere := t.TempDir()
				if err := os.Rename(filepath.Join(work, "kept"), filepath.Join(elsewhere, "kept")); err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink(filepath.Join(elsewhere, "kept"), filepath.Join(work, "kept")); err != nil {
					t.Fatal(err)
				}
				if at == "target" {
					i := slices.IndexFunc(o.Tree.Ops, func(o plan.Op) bool { return o.Target == "/work/kept" })
					o.Tree.Ops[i].Source = "/usr"
				}
				ctx, done := context.WithTimeout(context.Background(), time.Minute)
				defer done()
				w, err := launch.Start(ctx, o)
				if err == nil {
					w.Kill()
					t.Fatal("it stands")
				}
				if !strings.Contains(err.Error(), "no-such-option") {
					t.Errorf("it was not tried without the tree: %v", err)
				}
			})
		}
	}
}

// TestWithoutTree is where no tree can be mounted: the instance is built by
// bubblewrap alone.
func TestWithoutTree(t *testing.T) {
	o := plain(t)
	o.Tree = &launch.Tree{Ops: []plan.Op{{Kind: plan.OpRoBind, Source: "/no/such/folder", Target: "/x"}}, Mask: "/dev/null", Args: []string{"--no-such-option"}}
	if got := output(t, connect(t, start(t, o)), "echo", "there"); got != "there" {
		t.Errorf("got %q", got)
	}
}

// TestTreeLeavesLentDescriptors holds that the steps which the process itself
// does close none of the descriptors that it closes afterwards: by then a number
// may be that of another file.
func TestTreeLeavesLentDescriptors(t *testing.T) {
	o, _ := grown(t, nil)
	taken := make([]int, o.Tree.Sources())
	for i := range taken {
		taken[i] = 1000 + i
	}
	if n := o.Tree.Closes(taken, true); n != 0 {
		t.Errorf("%d of %d are closed", n, len(taken))
	}
	if n := o.Tree.Closes(taken, false); n != len(taken) {
		t.Errorf("a process of its own closes %d of %d", n, len(taken))
	}
}
