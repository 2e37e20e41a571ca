package local

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/policy/hardening"
	"github.com/bulkhead-dev/sandbox/provider/local/launch"
)

// unchangedPlanner returns a planner that no longer looks, and its workspace.
func unchangedPlanner(t testing.TB) (*planner, string) {
	t.Helper()
	base := t.TempDir()
	ws, home := filepath.Join(base, "workspaces", "a"), filepath.Join(base, "home")
	for _, dir := range []string{filepath.Join(ws, "deep", "er"), filepath.Join(home, ".ssh")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{filepath.Join(ws, "plain"), filepath.Join(home, ".ssh", "key"), filepath.Join(home, ".netrc")} {
		if err := os.WriteFile(f, []byte("secret"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	rules := []string{filepath.Join(home, ".ssh"), filepath.Join(home, ".aws"), filepath.Join(home, ".netrc"), "**/.env"}
	s := sandbox.Spec{
		Name:       "sbx-unchanged",
		Mounts:     []sandbox.Mount{{Source: ws, Target: "/workspace", Role: sandbox.RoleWorkspace}},
		Filesystem: sandbox.FilesystemRules{AllowRead: []string{home}, DenyRead: rules, DenyWrite: rules},
	}
	p := New(Options{State: filepath.Join(base, "state"), World: func() hardening.World {
		return hardening.World{Home: home, Workspaces: []string{filepath.Join(base, "workspaces")}}
	}})
	pl := newPlanner(newSite(p, launch.Definition{Name: s.Name}), s)
	t.Cleanup(pl.close)
	for range 8 {
		if _, err := pl.plan(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	return pl, base
}

// watchedPlanner is unchangedPlanner once the host is watched. A mount of somebody
// else at the moment in which the watches are made has the planner give them
// up for a while; so it is tried again.
func watchedPlanner(t *testing.T) (pl *planner, base string) {
	t.Helper()
	if !testenv.WithoutMounts(t, func() bool {
		pl, base = unchangedPlanner(t)
		return pl.unchanged.watch != nil && !pl.unchanged.since.IsZero()
	}) {
		testenv.Lack(t, "watch", "folders cannot be watched")
	}
	return pl, base
}

func TestUnchangedHostIsNotRead(t *testing.T) {
	pl, _ := watchedPlanner(t)
	pl.unchanged.since = time.Now().Add(time.Hour) // however long the machine takes
	if !pl.unchanged.holds() {
		t.Fatal("nothing has happened, and the host is looked at again")
	}
}

// TestPlanGivenUp holds that who gives up during the look at the host is told
// that, and not that the host cannot be looked through.
func TestPlanGivenUp(t *testing.T) {
	pl, _ := unchangedPlanner(t)
	pl.close()
	ctx, giveUp := context.WithCancel(t.Context())
	giveUp()
	if _, err := pl.plan(ctx); sandbox.CodeOf(err) != sandbox.CodeTimeout || !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestMountElsewhereChangesNothing holds that an engine at work does not
// have every command look at the host.
func TestMountElsewhereChangesNothing(t *testing.T) {
	testenv.Require(t, "root") // an ordinary user cannot mount
	pl, base := watchedPlanner(t)
	at := filepath.Join(base, "engine")
	if err := os.Mkdir(at, 0o755); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := unix.Mount("tmpfs", at, "tmpfs", 0, ""); err != nil {
			testenv.Lack(t, "mount", err)
		}
		got := pl.unchanged.watch.Now()
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
			t.Fatal(err)
		}
		if got != hostpath.Quiet {
			t.Fatalf("state %d after a mount that no rule is about", got)
		}
	}
}

func TestChangeOfHostIsInTheNextPlan(t *testing.T) {
	write := func(p string) error { return os.WriteFile(p, nil, 0o644) }
	for name, do := range map[string]func(ws, home string) error{
		"a file that a glob matches":    func(ws, _ string) error { return write(ws + "/deep/er/.env") },
		"a file is renamed to match":    func(ws, _ string) error { return os.Rename(ws+"/plain", ws+"/.env") },
		"a new folder with such a file": func(ws, _ string) error { _ = os.MkdirAll(ws+"/n/m", 0o755); return write(ws + "/n/m/.env") },
		"a hard link to a denied file":  func(ws, home string) error { return os.Link(home+"/.netrc", ws+"/deep/other") },
		"a denied folder appears":       func(_, home string) error { return os.Mkdir(home+"/.aws", 0o755) },
		"a denied file goes":            func(_, home string) error { return os.Remove(home + "/.netrc") },
		"a denied folder becomes a link": func(ws, home string) error {
			_ = os.RemoveAll(home + "/.ssh")
			return os.Symlink(ws+"/deep", home+"/.ssh")
		},
	} {
		t.Run(name, func(t *testing.T) {
			pl, base := unchangedPlanner(t)
			before := pl.last.key
			if err := do(filepath.Join(base, "workspaces", "a"), filepath.Join(base, "home")); err != nil {
				t.Fatal(err)
			}
			now, err := pl.plan(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if now.key == before {
				t.Error("the plan is that of before")
			}
		})
	}
}

// BenchmarkUnchangedPlan is what a command costs before it starts while nothing
// happens on the host.
func BenchmarkUnchangedPlan(b *testing.B) {
	pl, _ := unchangedPlanner(b)
	for b.Loop() {
		if _, err := pl.plan(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}

// TestLookForANewSandboxServesItsFirstUse holds when the host is looked at again
// after the look that a new instance was made from.
func TestLookForANewSandboxServesItsFirstUse(t *testing.T) {
	pl, _ := unchangedPlanner(t)
	pl.close() // nothing is watched from here on
	ctx := context.Background()
	looks := func(asOf time.Time) uint64 {
		t.Helper()
		before := pl.looks
		if _, err := pl.planFor(ctx, asOf); err != nil {
			t.Fatal(err)
		}
		return pl.looks - before
	}
	instance := func() {
		t.Helper()
		if err := pl.retry(ctx, func(planned) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	start := time.Now()
	instance()
	if n := looks(start); n != 0 {
		t.Errorf("%d looks for the first use of a sandbox that was made for it", n)
	}
	if n := looks(start); n != 1 {
		t.Errorf("%d looks for the second use, want 1", n)
	}
	instance()
	if n := looks(time.Now()); n != 1 {
		t.Errorf("%d looks for a use that is younger than the sandbox, want 1", n)
	}
	instance()
	if n := looks(time.Time{}); n != 1 {
		t.Errorf("%d looks for a use of now, want 1", n)
	}
	instance()
	pl.used()
	if n := looks(start); n != 1 {
		t.Errorf("%d looks after something has run, want 1", n)
	}
	instance()
	pl.looked = pl.looked.Add(-2 * unchangedFor)
	if n := looks(time.Now().Add(-time.Hour)); n != 1 {
		t.Errorf("%d looks long after the sandbox was made, want 1", n)
	}
}
