package manager_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
)

// pooled are settings with a pool of that size.
func pooled(size int, more ...string) string {
	return settings(strings.Join(append([]string{fmt.Sprintf(`"pool":{"size":%d}`, size)}, more...), ","))
}

// fillPool refills until nothing is left to do for now.
func fillPool(t testing.TB, m *manager.Manager) int {
	t.Helper()
	ctx, done := context.WithTimeout(context.Background(), 5*time.Minute)
	defer done()
	all := 0
	for {
		n, next, err := m.Refill(ctx)
		must(t, err)
		all += n
		if next > time.Second {
			return all
		}
		if next > 0 { // the rate of starts
			select {
			case <-time.After(next):
			case <-ctx.Done():
				t.Fatal("the pool is not full in time")
			}
		}
	}
}

// slotsOf counts the unclaimed slots in the list.
func slotsOf(t testing.TB, m *manager.Manager) (n int) {
	t.Helper()
	l, err := m.List(context.Background(), manager.ListOptions{All: true})
	must(t, err)
	for _, r := range l.Containers {
		if r.Kind == sandbox.KindPool {
			n++
			if r.Status != sandbox.StatusRunning || r.Session != "" {
				t.Errorf("a slot is listed as %+v", r)
			}
		}
	}
	return n
}

// TestClaim follows a slot: filled, claimed by a session with what is the
// session's own, used, also by other programs, made anew with its workspace,
// and removed.
func TestClaim(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := context.Background()
	text := pooled(2, `"docker":{"env":{"MINE":"late"}}`, `"limits":{"fileSize":1048576}`)
	m := r.manager(text)
	next := func(want string) {
		t.Helper()
		if e, err := m.Explain(ctx, who("s"), nil, manager.Questions{}); err != nil || !strings.Contains(e.Next, want) || len(e.NoEffect) != 0 {
			t.Errorf("explain says %q, %v, %v; want %q", e.Next, e.NoEffect, err, want)
		}
	}
	next("no slot of the pool becomes it: none is ready")
	if n := fillPool(t, m); n != 2 || slotsOf(t, m) != 2 {
		t.Fatalf("filled with %d, %d are there", n, slotsOf(t, m))
	}
	next("a slot of the pool becomes it, of which 2 are there")
	out, o := mustRun(t, m, "s", `echo $MINE; echo kept > file; id -u; ulimit -f`)
	if !o.Claimed || o.Miss != nil || !strings.HasPrefix(out, "late\n") {
		t.Fatalf("%q, %+v", out, o)
	}
	uid := strings.Split(out, "\n")[1]
	at := row(t, m, "s")
	if at.Kind != sandbox.KindSandbox || at.Name != o.Name || at.Status != sandbox.StatusRunning || at.ConfigMatch == nil || !*at.ConfigMatch || at.ImageMatch == nil || !*at.ImageMatch {
		t.Errorf("it is listed as %+v", at)
	}
	if name, err := m.Name(who("s"), nil); err != nil || name != o.Name || strings.Contains(name, "pool-") {
		t.Errorf("its name is %q, %v, and it runs as %s", name, err, o.Name)
	}
	if b, err := os.ReadFile(filepath.Join(at.Workspace, "file")); err != nil || string(b) != "kept\n" {
		t.Errorf("the workspace that the list names: %q, %v", b, err)
	}
	if n := slotsOf(t, m); n != 1 {
		t.Errorf("%d slots are left", n)
	}
	must(t, m.Pause(ctx, at))
	if got := row(t, m, "s").Status; got != sandbox.StatusPaused {
		t.Errorf("frozen it is %s", got)
	}
	// Later uses: by this program, by another, after the container was stopped.
	for _, m := range []*manager.Manager{m, r.manager(text)} {
		if out, o := mustRun(t, m, "s", "cat file; id -u"); out != "kept\n"+uid || o.Created || o.Name != at.Name {
			t.Errorf("later: %q, %+v", out, o)
		}
	}
	if out, err := exec.Command("docker", "kill", at.ID).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, o := mustRun(t, r.manager(text), "s", "cat file; echo $MINE"); out != "kept\nlate" || o.Created {
		t.Errorf("after it had stopped: %q, %+v", out, o)
	}
	// Made anew: the workspace and the user stay, no other session gets the
	// slot.
	if done := m.Recreate(ctx, []manager.Row{row(t, m, "s")}); len(done.Removed) != 1 || len(done.Failed) != 0 {
		t.Fatalf("recreate: %+v", done)
	}
	next("the sandbox was there before")
	if out, o := mustRun(t, m, "s", "cat file; id -u"); out != "kept\n"+uid || !o.Created || o.Claimed || o.Name != at.Name {
		t.Errorf("made anew: %q, %+v", out, o)
	}
	if got := row(t, m, "s"); got.ID == at.ID || got.ConfigMatch == nil || !*got.ConfigMatch {
		t.Errorf("made anew it is listed as %+v", got)
	}
	zero := time.Nanosecond
	r.clock.advance(time.Minute)
	if p, err := m.Prune(ctx, manager.PruneOptions{Idle: &zero, Workspaces: true}); err != nil || len(p.Failed) != 0 || len(p.Removed) < 1 {
		t.Errorf("prune: %+v, %v", p, err)
	}
	if _, err := os.Lstat(at.Workspace); !os.IsNotExist(err) {
		t.Errorf("the workspace: %v", err)
	}
	fillPool(t, m)
	if out, o := mustRun(t, m, "s", "ls; id -u"); !o.Claimed || out == uid {
		t.Errorf("after all of it was removed: %q, %+v", out, o)
	}
}

// TestClaimCold holds what cannot bind late, and that the answer says so.
func TestClaimCold(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.manager(pooled(1))
	fillPool(t, m)
	memory := config.Size(64 << 20)
	cold := func(name, why string, change func(*manager.Request)) {
		t.Helper()
		_, o, err := run(m, name, "true", change)
		if err != nil || o.Claimed || !o.Created || o.Miss == nil || !strings.Contains(o.Miss.Detail, why) {
			t.Errorf("%s: %+v, %v", name, o, err)
		}
	}
	cold("folder", "workspace /workspace", func(q *manager.Request) {
		dir := tempDir(t, 0o755)
		must(t, os.Chown(dir, 1000, 1000))
		q.Flags = &config.SandboxSettings{Workspace: &dir}
	})
	cold("memory", "docker.memory,", func(q *manager.Request) {
		q.Flags = &config.SandboxSettings{Docker: &config.DockerSettings{Memory: &memory}}
	})
	if n := slotsOf(t, m); n != 1 {
		t.Errorf("%d slots", n)
	}
	mustRun(t, m, "a", "true")
	if _, o := mustRun(t, m, "b", "true"); o.Claimed || o.Miss == nil {
		t.Errorf("from an empty pool: %+v", o)
	}
}

// TestClaimByOthers holds that a program that keeps no pool claims what another
// keeps, and that the keeper notices; and that a keeper that begins finds what
// there is.
func TestClaimByOthers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.manager(pooled(2))
	fillPool(t, m)
	if _, o := mustRun(t, r.manager(pooled(2)), "other", "true"); !o.Claimed {
		t.Errorf("%+v", o)
	}
	for _, s := range []string{"a", "b"} { // of which one is the other's by now
		mustRun(t, m, s, "true")
	}
	if n := fillPool(t, m); n != 2 {
		t.Errorf("%d were missing", n)
	}
	next := r.manager(pooled(2))
	if n := fillPool(t, next); n != 0 {
		t.Errorf("the next keeper has started %d", n)
	}
	if _, o := mustRun(t, next, "c", "true"); !o.Claimed {
		t.Errorf("%+v", o)
	}
	if n := fillPool(t, r.manager("")); n != 0 || slotsOf(t, m) != 0 {
		t.Errorf("%d are left where settings keep none", slotsOf(t, m))
	}
}

// TestBurst claims a whole pool at once: everybody gets a sandbox of his own.
func TestBurst(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const size = 5
	m := r.manager(pooled(size, `"docker":{"memory":"64m"}`))
	fillPool(t, m)
	outs := make(chan string, size)
	for i := range size {
		go func() {
			out, o, err := run(m, fmt.Sprintf("s%d", i), "id -u")
			if err != nil || !o.Claimed {
				t.Errorf("%d: %+v, %v", i, o, err)
			}
			outs <- out
		}()
	}
	seen := map[string]bool{}
	for range size {
		seen[<-outs] = true
	}
	if len(seen) != size {
		t.Errorf("%d users in %d sandboxes", len(seen), size)
	}
}

// TestRefillRests checks that refill does not read all records again and again
// for a pool that is not wanted, and that it does when that may have changed.
func TestRefillRests(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.manager(settings(""))
	long := time.Now().Add(-time.Hour)
	damaged := filepath.Join(r.state.Registry(), "containers", "sbx-damaged.json") // who reads it sets it aside
	refill := func(what string, changed time.Time, reads bool) {
		t.Helper()
		must(t, os.WriteFile(damaged, []byte("{"), 0o600))
		for _, sub := range []string{"containers", "browsers"} {
			must(t, os.Chtimes(filepath.Join(r.state.Registry(), sub), time.Time{}, changed))
		}
		n, next, err := m.Refill(context.Background())
		must(t, err)
		if n != 0 || next != time.Minute {
			t.Errorf("%s: %d were started, and the next call is in %v", what, n, next)
		}
		if _, err := os.Lstat(damaged); os.IsNotExist(err) != reads {
			t.Errorf("%s: the records were read: %v", what, !reads)
		}
	}
	refill("the first", long, true)
	refill("nothing was recorded", long, false)
	refill("something was recorded", long.Add(time.Minute), true)
	refill("nothing was recorded since", long.Add(time.Minute), false)
	refill("something is being recorded", time.Now(), true)
	refill("and still is", time.Now(), true)
}

// TestDamagedClaimStopsNoPool checks that claims which cannot be read are set
// aside and reported, that no other session gets their slots, and that pools are
// filled on.
func TestDamagedClaimStopsNoPool(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.manager(pooled(1))
	texts := []string{"{", `{"slot": 7}`, `{"format": 1, "slot": "sbx-x", "name": "sbx-y"}`} // garbage, another kind of value, another's
	damage := map[string]string{}
	for i, text := range texts {
		fillPool(t, m)
		_, o := mustRun(t, m, fmt.Sprint("s", i), "echo private > file")
		if !o.Claimed {
			t.Fatalf("no slot was claimed: %+v", o)
		}
		files, err := filepath.Glob(filepath.Join(r.state.Registry(), "claims", "*.json"))
		if err != nil || len(files) != i+1 {
			t.Fatal(files, err)
		}
		for _, file := range files {
			if _, before := damage[file]; !before {
				damage[file] = text
			}
		}
	}
	for file, text := range damage {
		must(t, os.WriteFile(file, []byte(text), 0o600)) // of both names
	}
	must(t, m.Close())
	m = r.manager(pooled(1))
	fillPool(t, m)
	l, err := m.List(t.Context(), manager.ListOptions{All: true})
	must(t, err)
	if !slices.ContainsFunc(l.Containers, func(r manager.Row) bool { return r.Kind == sandbox.KindPool && r.Status == sandbox.StatusRunning }) {
		t.Errorf("no slot is ready: %+v", l.Containers)
	}
	if set, err := filepath.Glob(filepath.Join(r.state.Registry(), "claims", "*.corrupt")); err != nil || len(set) != len(texts) {
		t.Errorf("set aside are %v, %v", set, err)
	}
	if said := r.log.String(); strings.Count(said, "a slot of the pool is left alone") != len(texts) || strings.Count(said, ".corrupt") < len(texts) {
		t.Errorf("the log says %s", said)
	}
	for i, session := range []string{"a", "b", "s0", "s1", "s2"} { // a has the slot that is free
		if out, o, err := run(m, session, "ls /workspace"); err != nil || out != "" || o.Claimed != (i == 0) {
			t.Errorf("session %s finds %q, %+v, %v", session, out, o, err)
		}
	}
}
