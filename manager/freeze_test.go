package manager_test

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
)

// row returns the session's row of the list.
func row(t testing.TB, m *manager.Manager, session string) manager.Row {
	t.Helper()
	l, err := m.List(context.Background(), manager.ListOptions{})
	must(t, err)
	for _, r := range l.Containers {
		if r.Session == session {
			return r
		}
	}
	t.Fatalf("no sandbox of session %s in %+v", session, l.Containers)
	return manager.Row{}
}

// TestPause holds that a frozen sandbox thaws with its next use, in the
// program that froze it and in others, and by Resume.
func TestPause(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := context.Background()
	m := r.manager("")
	mustRun(t, m, "s", "true")
	frozen := func() {
		t.Helper()
		must(t, m.Pause(ctx, row(t, m, "s")))
		if got := row(t, m, "s").Status; got != sandbox.StatusPaused {
			t.Fatalf("after Pause it is %s", got)
		}
	}
	used := func(m *manager.Manager) {
		t.Helper()
		if out, o := mustRun(t, m, "s", "echo out"); out != "out" || o.Created {
			t.Errorf("%q, %+v", out, o)
		}
		if got := row(t, m, "s").Status; got != sandbox.StatusRunning {
			t.Errorf("after its use it is %s", got)
		}
	}
	frozen()
	used(m)
	frozen()
	used(r.manager(""))
	frozen()
	must(t, m.Pause(ctx, row(t, m, "s"))) // twice is once
	must(t, m.Resume(ctx, row(t, m, "s")))
	must(t, m.Resume(ctx, row(t, m, "s")))
	used(m)

	// Frozen by another program, of which there is no note.
	if out, err := exec.Command("docker", "pause", row(t, m, "s").ID).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	used(m)
	// Frozen by us, and thawed by another program.
	frozen()
	if out, err := exec.Command("docker", "unpause", row(t, m, "s").ID).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	used(m)
	// Frozen by us, and stopped by another program.
	frozen()
	if out, err := exec.Command("docker", "kill", row(t, m, "s").ID).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	used(m)
}

// TestPauseRefuses holds what cannot be frozen, and that nothing is changed
// then.
func TestPauseRefuses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := context.Background()
	m := r.manager("")
	mustRun(t, m, "s", "true")
	was := row(t, m, "s")
	err := m.WithSandbox(ctx, manager.Request{Who: who("s")}, func(sandbox.Sandbox, sandbox.Spec) error {
		for _, other := range []*manager.Manager{m, r.manager("")} {
			if err := other.Pause(ctx, was); sandbox.CodeOf(err) != sandbox.CodeBusy {
				t.Errorf("one in use: %v", err)
			}
		}
		return nil
	})
	must(t, err)
	gone, foreign, local := was, was, was
	gone.Name, foreign.Instance, local.Provider = "sbx-gone", "0123456789abcdef", "local"
	if err := m.Pause(ctx, gone); sandbox.CodeOf(err) != sandbox.CodeNotFound {
		t.Errorf("one that is gone: %v", err)
	}
	if err := m.Pause(ctx, foreign); sandbox.CodeOf(err) != sandbox.CodePermissionDeny {
		t.Errorf("another instance's: %v", err)
	}
	if err := m.Pause(ctx, local); err == nil {
		t.Error("one of a provider that there is not was frozen")
	}
	if got := row(t, m, "s").Status; got != sandbox.StatusRunning {
		t.Errorf("it is %s", got)
	}
}

const idleMinutes = `{"agents":{"defaults":{"sandbox":{"idle":{"pauseAfter":"10m"},"prune":{"every":"0s"}}},"list":[{"id":"never","sandbox":{"idle":{"pauseAfter":"0s"}}}]}}`

// TestFreezeIdle holds that what is idle is frozen by the settings of its
// agent, once, and that what is in use is not.
func TestFreezeIdle(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := context.Background()
	m := r.manager(idleMinutes)
	for _, s := range []string{"a", "used", "down"} {
		mustRun(t, m, s, "true")
	}
	if _, _, err := run(m, "kept", "true", func(q *manager.Request) { q.Who.Agent = "never" }); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("docker", "kill", row(t, m, "down").ID).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if frozen, next, err := m.FreezeIdle(ctx); len(frozen) != 0 || err != nil || next <= 0 || next > 10*time.Minute {
		t.Errorf("before anything is idle: %v, %s, %v", frozen, next, err)
	}
	r.clock.advance(20 * time.Minute)
	a, used := row(t, m, "a").Name, row(t, m, "used").Name
	must(t, m.WithSandbox(ctx, manager.Request{Who: who("used")}, func(sandbox.Sandbox, sandbox.Spec) error {
		r.clock.advance(20 * time.Minute)
		if frozen, next, err := m.FreezeIdle(ctx); !slices.Equal(frozen, []string{a}) || err != nil || next <= 0 {
			t.Errorf("%v, %s, %v; want %s", frozen, next, err, a)
		}
		return nil
	}))
	if frozen, _, err := m.FreezeIdle(ctx); len(frozen) != 0 || err != nil {
		t.Errorf("again: %v, %v", frozen, err)
	}
	r.clock.advance(20 * time.Minute)
	if frozen, _, err := m.FreezeIdle(ctx); !slices.Equal(frozen, []string{used}) || err != nil {
		t.Errorf("after its use: %v, %v", frozen, err)
	}
	for s, want := range map[string]sandbox.Status{"a": sandbox.StatusPaused, "used": sandbox.StatusPaused, "kept": sandbox.StatusRunning, "down": sandbox.StatusStopped} {
		if got := row(t, m, s).Status; got != want {
			t.Errorf("%s is %s, want %s", s, got, want)
		}
	}
	mustRun(t, m, "a", "true")
	if frozen, _, err := m.FreezeIdle(ctx); len(frozen) != 0 || err != nil {
		t.Errorf("just used: %v, %v", frozen, err)
	}
	if frozen, next, err := r.manager("").FreezeIdle(ctx); len(frozen) != 0 || err != nil || next <= 0 {
		t.Errorf("without the setting: %v, %s, %v", frozen, next, err)
	}
}

// TestFreezeRaces lets commands and freezes of the same sandboxes race, in two
// programs: no command fails, and none hangs.
func TestFreezeRaces(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	rounds := int64(testenv.Rounds(80, 80, 1000))
	if raceEnabled {
		rounds = min(rounds, 200)
	}
	users := []*manager.Manager{r.manager(""), r.manager("")}
	ctx, done := context.WithTimeout(context.Background(), 8*time.Minute)
	defer done()
	var rows []manager.Row
	for _, s := range []string{"a", "b"} {
		mustRun(t, users[0], s, "true")
		rows = append(rows, row(t, users[0], s))
	}
	var left, froze atomic.Int64
	another := make(chan struct{}, 1) // was frozen
	left.Store(rounds)
	over := make(chan struct{}) // closed when freezing has ended
	var work sync.WaitGroup
	for i, m := range users {
		work.Go(func() {
			for n := left.Add(-1); n >= 0 && ctx.Err() == nil; n = left.Add(-1) {
				var out bytes.Buffer
				session := []string{"a", "b"}[(n+int64(i))%2]
				o, err := m.Run(ctx, manager.Request{Who: who(session), Timeout: time.Minute, Command: sandbox.Command{Args: []string{"echo", fmt.Sprint(n)}, Stdout: &out}})
				if err != nil || o.TimedOut || o.Exit.Code != 0 || strings.TrimSpace(out.String()) != fmt.Sprint(n) {
					t.Errorf("round %d: %q, %+v, %v", n, out.String(), o, err)
				}
				if n%8 == 0 { // or nothing is ever idle
					select {
					case <-another:
					case <-over:
					}
				}
			}
		})
	}
	var freezing sync.WaitGroup
	for _, m := range users {
		freezing.Go(func() {
			for i := 0; left.Load() >= 0 && ctx.Err() == nil; i++ {
				switch err := m.Pause(ctx, rows[i%len(rows)]); {
				case err == nil:
					froze.Add(1)
					select {
					case another <- struct{}{}:
					default:
					}
				case sandbox.CodeOf(err) != sandbox.CodeBusy:
					t.Errorf("Pause: %v", err)
				}
			}
		})
	}
	freezing.Wait()
	close(over)
	work.Wait()
	t.Logf("%d commands, %d freezes", rounds, froze.Load())
	if ctx.Err() != nil || froze.Load() < rounds/20 {
		t.Errorf("%d freezes in %d rounds, %v", froze.Load(), rounds, ctx.Err())
	}
}

// BenchmarkThaw measures the time from a request for a frozen sandbox to its
// first output.
func BenchmarkThaw(b *testing.B) {
	r := newRig(b)
	m := r.manager("")
	ctx := context.Background()
	mustRun(b, m, "s", "true")
	of := row(b, m, "s")
	var took []time.Duration
	for b.Loop() {
		b.StopTimer()
		must(b, m.Pause(ctx, of))
		b.StartTimer()
		took = append(took, firstOutput(b, m, "s"))
	}
	report(b, took)
}

// report tells of how things took.
func report(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-p50")
	b.ReportMetric(float64(took[len(took)*95/100].Microseconds())/1000, "ms-p95")
}

// firstOutput tells how long a command takes until its first byte is there.
func firstOutput(t testing.TB, m *manager.Manager, session string) time.Duration {
	t.Helper()
	out := &firstWrite{}
	start := time.Now()
	o, err := m.Run(context.Background(), manager.Request{Who: who(session), Command: sandbox.Command{Args: []string{"/bin/echo", "x"}, Stdout: out}})
	if err != nil || o.Exit.Code != 0 {
		t.Fatalf("%+v, %v", o, err)
	}
	return out.at.Sub(start)
}

// A firstWrite notes when something is written first.
type firstWrite struct{ at time.Time }

func (w *firstWrite) Write(p []byte) (int, error) {
	if w.at.IsZero() {
		w.at = time.Now()
	}
	return len(p), nil
}
