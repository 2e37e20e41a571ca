package prune

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/keylock"
	"github.com/bulkhead-dev/sandbox/registry"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

const ours = "0123456789abcdef"

var now = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// ago returns the time d before now; negative means never.
func ago(d time.Duration) time.Time {
	if d < 0 {
		return time.Time{}
	}
	return now.Add(-d)
}

const never = -1

func record(name string, created, used time.Duration) registry.Record {
	return registry.Record{Name: name, Kind: sandbox.KindSandbox, Provider: "docker", Instance: ours,
		CreatedAt: ago(created), LastUsedAt: ago(used)}
}

func info(name string, created time.Duration, change ...func(*sandbox.Info)) sandbox.Info {
	i := sandbox.Info{Name: name, Kind: sandbox.KindSandbox, Provider: "docker", Status: sandbox.StatusRunning,
		Owner: sandbox.Owner{Instance: ours}, CreatedAt: ago(created), StartedAt: ago(created)}
	for _, c := range change {
		c(&i)
	}
	return i
}

func TestPlan(t *testing.T) {
	const hour, day = time.Hour, 24 * time.Hour
	rules := Rules{Idle: day, MaxAge: 7 * day}
	stopped := func(i *sandbox.Info) { i.Status = sandbox.StatusStopped }
	unstarted := func(i *sandbox.Info) { i.Status, i.StartedAt = sandbox.StatusStopped, time.Time{} }
	remnant := func(i *sandbox.Info) { i.Status, i.StartedAt = sandbox.StatusMissing, time.Time{} }
	paused := func(i *sandbox.Info) { i.Status = sandbox.StatusPaused }
	foreign := func(i *sandbox.Info) { i.Owner.Instance = "ffffffffffffffff" }
	newer := func(i *sandbox.Info) { i.Format = "9" }
	tests := []struct {
		name   string
		record *registry.Record // named sbx-a
		live   *sandbox.Info    // named sbx-a
		rules  Rules
		leased bool
		want   Reason // empty: it stays
	}{
		{name: "fresh", record: p(record("sbx-a", hour, 0)), live: p(info("sbx-a", hour)), rules: rules},
		{name: "idle at the limit", record: p(record("sbx-a", 2*day, day)), live: p(info("sbx-a", 2*day)), rules: rules},
		{name: "idle beyond the limit", record: p(record("sbx-a", 2*day, day+1)), live: p(info("sbx-a", 2*day)), rules: rules, want: Idle},
		{name: "idle, stopped", record: p(record("sbx-a", 2*day, day+1)), live: p(info("sbx-a", 2*day, stopped)), rules: rules, want: Idle},
		{name: "idle, paused", record: p(record("sbx-a", 2*day, day+1)), live: p(info("sbx-a", 2*day, paused)), rules: rules, want: Idle},
		{name: "idle, leased", record: p(record("sbx-a", 2*day, day+1)), live: p(info("sbx-a", 2*day)), rules: rules, leased: true},
		{name: "idle, rule off", record: p(record("sbx-a", 2*day, 2*day)), live: p(info("sbx-a", 2*day)), rules: Rules{MaxAge: 7 * day}},
		{name: "idle, of a newer version", record: p(record("sbx-a", 2*day, day+1)), live: p(info("sbx-a", 2*day, newer)), rules: rules},
		{name: "orphan of a newer version", live: p(info("sbx-a", 2*day, newer)), rules: rules},
		{name: "old", record: p(record("sbx-a", 8*day, hour)), live: p(info("sbx-a", 8*day)), rules: rules, want: TooOld},
		{name: "old at the limit", record: p(record("sbx-a", 7*day, hour)), live: p(info("sbx-a", 7*day)), rules: rules},
		{name: "old, leased", record: p(record("sbx-a", 8*day, hour)), live: p(info("sbx-a", 8*day)), rules: rules, leased: true},
		{name: "old, rule off", record: p(record("sbx-a", 8*day, hour)), live: p(info("sbx-a", 8*day)), rules: Rules{Idle: day}},
		{name: "both rules off", record: p(record("sbx-a", 800*day, 800*day)), live: p(info("sbx-a", 800*day))},
		{name: "record older than its container", record: p(record("sbx-a", 8*day, 2*day)), live: p(info("sbx-a", hour)), rules: rules},
		{name: "used in the future", record: p(record("sbx-a", hour, -2*hour)), live: p(info("sbx-a", hour)), rules: rules},
		{name: "never used, made long ago", record: p(record("sbx-a", 2*day, never)), live: p(info("sbx-a", 2*day)), rules: rules, want: Idle},
		{name: "no times at all", record: p(record("sbx-a", never, never)), live: p(info("sbx-a", never)), rules: rules},
		{name: "recorded under a foreign name", record: p(record("sbx-a", 8*day, 8*day)), live: p(info("sbx-a", 8*day, foreign)), rules: rules},

		{name: "missing", record: p(record("sbx-a", hour, 0)), rules: rules, want: Missing},
		{name: "remnant", record: p(record("sbx-a", hour, 0)), live: p(info("sbx-a", hour, remnant)), rules: rules, want: Remnant},
		{name: "remnant, rules off", record: p(record("sbx-a", hour, 0)), live: p(info("sbx-a", 0, remnant)), want: Remnant},
		{name: "remnant of somebody else", record: p(record("sbx-a", hour, 0)), live: p(info("sbx-a", hour, remnant, foreign)), rules: rules},
		{name: "leased remnant", record: p(record("sbx-a", hour, 0)), live: p(info("sbx-a", hour, remnant)), rules: rules, leased: true},
		{name: "unrecorded remnant", live: p(info("sbx-a", hour, remnant)), rules: rules, want: Orphan},
		{name: "unrecorded remnant, just made", live: p(info("sbx-a", 10*time.Second, remnant)), rules: rules},
		{name: "missing, rules off", record: p(record("sbx-a", hour, hour)), want: Missing},
		{name: "missing, leased", record: p(record("sbx-a", hour, hour)), rules: rules, leased: true},

		{name: "orphan", live: p(info("sbx-a", hour)), rules: rules, want: Orphan},
		{name: "orphan, rules off", live: p(info("sbx-a", hour)), want: Orphan},
		{name: "orphan, within the grace", live: p(info("sbx-a", OrphanGrace)), rules: rules},
		{name: "orphan, beyond the grace", live: p(info("sbx-a", OrphanGrace+1)), rules: rules, want: Orphan},
		{name: "orphan, longer grace", live: p(info("sbx-a", hour)), rules: Rules{Grace: hour}},
		{name: "orphan, no grace", live: p(info("sbx-a", 1)), rules: Rules{Grace: -1}, want: Orphan},
		{name: "orphan, made in the future", live: p(info("sbx-a", -2*hour)), rules: rules},
		{name: "orphan of unknown age", live: p(info("sbx-a", never)), rules: rules},
		{name: "orphan, leased", live: p(info("sbx-a", hour)), rules: rules, leased: true},
		{name: "orphan of another instance", live: p(info("sbx-a", 8*day, foreign)), rules: rules},

		{name: "never started, young", record: p(record("sbx-a", OrphanGrace, never)), live: p(info("sbx-a", OrphanGrace, unstarted)), rules: rules},
		{name: "never started", record: p(record("sbx-a", hour, never)), live: p(info("sbx-a", hour, unstarted)), rules: rules, want: NeverStarted},
		{name: "start time not known, used just now", record: p(record("sbx-a", hour, 1)), live: p(info("sbx-a", hour, unstarted)), rules: rules},
		{name: "stopped after it ran", record: p(record("sbx-a", hour, 10*time.Minute)), live: p(info("sbx-a", hour, stopped)), rules: rules},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := Input{Instance: ours, Provider: "docker", Known: true, Rules: tt.rules, Now: now,
				Leased: func(name string) bool { return tt.leased && name == "sbx-a" }}
			if tt.record != nil {
				in.Records = append(in.Records, *tt.record)
			}
			if tt.live != nil {
				in.Live = append(in.Live, *tt.live)
			}
			plan := Plan(in)
			switch {
			case tt.want == "" && len(plan) > 0:
				t.Errorf("planned %+v; it has to stay", plan)
			case tt.want != "" && (len(plan) != 1 || plan[0].Reason != tt.want || plan[0].Name != "sbx-a" || plan[0].Detail == ""):
				t.Errorf("planned %+v, want reason %s", plan, tt.want)
			case tt.want != "" && (plan[0].Record == nil) != (tt.record == nil):
				t.Errorf("record %+v, want %+v", plan[0].Record, tt.record)
			}
			for _, blind := range []func(*Input){
				func(i *Input) { i.Known = false; i.Live = nil },
				func(i *Input) { i.Instance = "" },
			} {
				dark := in
				if blind(&dark); len(Plan(dark)) != 0 {
					t.Error("something is planned although nothing is known")
				}
			}
		})
	}
}

func p[T any](v T) *T { return &v }

func TestPlanOfSeveral(t *testing.T) {
	other := record("sbx-other", 48*time.Hour, 48*time.Hour)
	other.Provider = "local"
	browser := record("sbx-browser-c", 48*time.Hour, 48*time.Hour)
	browser.Kind = sandbox.KindBrowser
	plan := Plan(Input{
		Instance: ours, Provider: "docker", Known: true, Now: now, Rules: Rules{Idle: 24 * time.Hour},
		Records: []registry.Record{record("sbx-z", 48*time.Hour, 48*time.Hour), other, browser, record("sbx-b", time.Hour, 0)},
		Live:    []sandbox.Info{info("sbx-orphan", 2*time.Hour), info("sbx-z", 48*time.Hour), info("sbx-b", time.Hour)},
	})
	var got []string
	for _, r := range plan {
		got = append(got, fmt.Sprint(r.Name, " ", r.Kind, " ", r.Reason))
	}
	want := []string{"sbx-browser-c browser missing", "sbx-orphan sandbox orphan", "sbx-z sandbox idle"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// world is a registry, a lock folder and a fake provider.
type world struct {
	records *registry.Store
	leases  *keylock.Dir

	mu      sync.Mutex
	removed []string
	before  func(name string) error // called by Remove
}

func newWorld(t testing.TB) *world {
	t.Helper()
	s, err := registry.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &world{records: s, leases: keylock.Open(t.TempDir())}
}

func (w *world) Remove(_ context.Context, r Removal) error {
	if w.before != nil {
		if err := w.before(r.Name); err != nil {
			return err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.removed = append(w.removed, r.Name)
	return nil
}

func (w *world) apply(ctx context.Context, plan ...Removal) Report {
	return Apply(ctx, plan, w, w.leases, w.records)
}

// planned puts r into the registry and returns its removal.
func (w *world) planned(t testing.TB, r registry.Record) Removal {
	t.Helper()
	if err := w.records.Put(r); err != nil {
		t.Fatal(err)
	}
	stored, err := w.records.Get(r.Kind, r.Name)
	if err != nil {
		t.Fatal(err)
	}
	return Removal{Name: r.Name, Kind: r.Kind, Reason: Idle, Record: &stored}
}

func TestApply(t *testing.T) {
	boom := &sandbox.Error{Code: sandbox.CodeUnavailable, Message: "engine trouble"}
	tests := []struct {
		name    string
		between func(t *testing.T, w *world, r *Removal) // happens after the plan was made
		removed bool
		failed  error
		kept    bool // the record exists afterwards
	}{
		{name: "nothing happened", removed: true},
		{name: "the record was read in another time zone", removed: true, between: func(_ *testing.T, _ *world, r *Removal) {
			r.Record.LastUsedAt = r.Record.LastUsedAt.In(time.FixedZone("x", 3600))
		}},
		{name: "touched", kept: true, between: func(t *testing.T, w *world, r *Removal) {
			if err := w.records.Touch(r.Kind, r.Name, now); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "recreated", kept: true, between: func(t *testing.T, w *world, r *Removal) {
			n := *r.Record
			n.CreatedAt = now
			w.planned(t, n)
		}},
		{name: "leased", kept: true, between: func(t *testing.T, w *world, r *Removal) {
			l, err := w.leases.Shared(t.Context(), r.Name)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Release() })
		}},
		{name: "being made", kept: true, between: func(t *testing.T, w *world, r *Removal) {
			l, err := w.leases.Ensure(t.Context(), r.Name)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Release() })
		}},
		{name: "removed by somebody else", between: func(t *testing.T, w *world, r *Removal) {
			if err := w.records.Delete(r.Kind, r.Name); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "an orphan that was recorded meanwhile", kept: true, between: func(_ *testing.T, _ *world, r *Removal) { r.Record = nil }},
		{name: "an orphan", removed: true, between: func(t *testing.T, w *world, r *Removal) {
			r.Record = nil
			if err := w.records.Delete(r.Kind, r.Name); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "found to be there", kept: true, between: func(_ *testing.T, w *world, _ *Removal) {
			w.before = func(name string) error { return fmt.Errorf("%s: %w", name, ErrSpared) }
		}},
		{name: "the removal fails", kept: true, failed: boom, between: func(_ *testing.T, w *world, _ *Removal) {
			w.before = func(string) error { return boom }
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			r := w.planned(t, record("sbx-a", 48*time.Hour, 48*time.Hour))
			if tt.between != nil {
				tt.between(t, w, &r)
			}
			report := w.apply(t.Context(), r)
			if got := len(w.removed) == 1; got != tt.removed || len(report.Removed) == 1 != tt.removed {
				t.Errorf("removed %v, report %+v; want removed %v", w.removed, report, tt.removed)
			}
			if tt.failed != nil && (len(report.Failed) != 1 || !errors.Is(report.Failed[0].Err, tt.failed)) {
				t.Errorf("failed %+v, want %v", report.Failed, tt.failed)
			}
			if spared := !tt.removed && tt.failed == nil; len(report.Spared) == 1 != spared {
				t.Errorf("spared %+v, want %v", report.Spared, spared)
			}
			_, err := w.records.Get(r.Kind, r.Name)
			if kept := err == nil; kept != tt.kept {
				t.Errorf("record kept %v (%v), want %v", kept, err, tt.kept)
			}
		})
	}
}

func TestApplyRemovesUnderTheLease(t *testing.T) {
	w := newWorld(t)
	r := w.planned(t, record("sbx-a", time.Hour, time.Hour))
	w.before = func(name string) error {
		if _, err := w.leases.TryEnsure(name); sandbox.CodeOf(err) != sandbox.CodeBusy {
			t.Errorf("the ensure lock is free during the removal: %v", err)
		}
		if held, err := w.leases.Held(name); !held || err != nil {
			t.Errorf("the lease is free during the removal: %v", err)
		}
		return nil
	}
	if report := w.apply(t.Context(), r); len(report.Removed) != 1 {
		t.Fatalf("%+v", report)
	}
	if held, err := w.leases.Held("sbx-a"); held || err != nil {
		t.Errorf("still held afterwards: %v", err)
	}
}

func TestApplyUnreadableRecordIsKept(t *testing.T) {
	dir := t.TempDir()
	s, err := registry.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{records: s, leases: keylock.Open(t.TempDir())}
	r := w.planned(t, record("sbx-a", time.Hour, time.Hour))
	if err := os.WriteFile(filepath.Join(dir, "containers", "sbx-a.json"), []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	report := w.apply(t.Context(), r)
	if len(report.Failed) != 1 || !errors.Is(report.Failed[0].Err, registry.ErrCorrupt) || len(w.removed) != 0 {
		t.Errorf("%+v, removed %v", report, w.removed)
	}
}

func TestApplyStopsWithItsContext(t *testing.T) {
	w := newWorld(t)
	r := w.planned(t, record("sbx-a", time.Hour, time.Hour))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	report := w.apply(ctx, r)
	if len(report.Failed) != 1 || !errors.Is(report.Failed[0].Err, context.Canceled) || len(w.removed) != 0 {
		t.Errorf("%+v, removed %v", report, w.removed)
	}
}

func TestThousandDeadRecords(t *testing.T) {
	w := newWorld(t)
	var in Input
	for i := range 1000 {
		in.Records = append(in.Records, record(fmt.Sprintf("sbx-%04d", i), 48*time.Hour, 48*time.Hour))
		if err := w.records.Put(in.Records[i]); err != nil {
			t.Fatal(err)
		}
		// The maker of the sandbox left its lock files.
		for _, take := range []func(string) (*keylock.Lock, error){w.leases.TryEnsure, w.leases.TryExclusive} {
			l, err := take(in.Records[i].Name)
			if err != nil {
				t.Fatal(err)
			}
			_ = l.Release()
		}
	}
	start := worked(t)
	records, _, err := w.records.List("")
	if err != nil {
		t.Fatal(err)
	}
	plan := Plan(Input{Instance: ours, Known: true, Records: records, Now: now, Leased: func(name string) bool {
		held, _ := w.leases.Held(name)
		return held
	}})
	report := w.apply(t.Context(), plan...)
	took := worked(t) - start
	if len(report.Removed) != 1000 || len(report.Failed)+len(report.Spared) != 0 {
		t.Fatalf("removed %d, failed %v", len(report.Removed), report.Failed)
	}
	if !slices.IsSortedFunc(report.Removed, func(a, b Removal) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	}) {
		t.Error("the report is not in the plan's order")
	}
	if left, _, _ := w.records.List(""); len(left) != 0 {
		t.Errorf("%d records left", len(left))
	}
	t.Logf("%v", took)
	if took > time.Second && !raceEnabled {
		t.Errorf("took %v, want at most 1s", took)
	}
}

// worked returns the processor time that this process has used. Unlike the time
// on the clock it does not grow with what else the machine does.
func worked(t *testing.T) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func TestDue(t *testing.T) {
	stamp := filepath.Join(t.TempDir(), "prune.stamp")
	steps := []struct {
		name  string
		every time.Duration
		at    time.Duration // after now
		want  bool
	}{
		{"switched off", 0, 0, false},
		{"first", 5 * time.Minute, 0, true},
		{"at once again", 5 * time.Minute, 0, false},
		{"just before", 5 * time.Minute, 5*time.Minute - 1, false},
		{"just then", 5 * time.Minute, 5 * time.Minute, true},
		{"counted from the last", 5 * time.Minute, 9 * time.Minute, false},
		{"the clock moved back", 5 * time.Minute, -time.Hour, true},
	}
	for _, s := range steps {
		if got, err := Due(stamp, s.every, now.Add(s.at)); err != nil || got != s.want {
			t.Errorf("%s: %v, %v; want %v", s.name, got, err, s.want)
		}
	}
	if err := os.WriteFile(stamp, []byte("garbage that is longer than any time stamp could ever be, by far, really"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{true, false} {
		if got, err := Due(stamp, time.Minute, now); err != nil || got != want {
			t.Errorf("after garbage: %v, %v; want %v", got, err, want)
		}
	}
	if _, err := Due(filepath.Join(t.TempDir(), "no", "stamp"), time.Minute, now); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("missing folder: %v", err)
	}
}

// TestWhatCameOfASweep holds what one sweep leaves for the next.
func TestWhatCameOfASweep(t *testing.T) {
	stamp, at := filepath.Join(t.TempDir(), "prune.stamp"), now
	due := func(after time.Duration, want bool) {
		t.Helper()
		at = at.Add(after)
		if over := Overdue(stamp, time.Minute, at); over != want {
			t.Errorf("overdue is %v", over)
		}
		if got, err := Due(stamp, time.Minute, at); got != want || err != nil {
			t.Errorf("due is %v, %v", got, err)
		}
	}
	gaveUp := func(want bool) {
		t.Helper()
		if again, err := GaveUp(stamp); again != want || err != nil {
			t.Errorf("that the one before was given up is %v, %v", again, err)
		}
		due(time.Minute-1, false) // one that was given up is not due earlier
	}
	due(0, true)
	gaveUp(false)
	due(1, true)
	gaveUp(true)
	due(1, true)
	first := at
	if err := Finished(stamp); err != nil {
		t.Error(err)
	}
	due(time.Second, false)
	due(time.Minute, true)
	gaveUp(false)
	due(1, true)
	if err := Forgo(stamp, first); err != nil { // which is not the last
		t.Error(err)
	}
	due(time.Second, false)
	if err := Forgo(stamp, at.Add(-time.Second)); err != nil {
		t.Error(err)
	}
	due(0, true)
	gaveUp(true) // one that was forgone did not count
}

func TestDueTellsOne(t *testing.T) {
	stamp := filepath.Join(t.TempDir(), "prune.stamp")
	var wg sync.WaitGroup
	var mu sync.Mutex
	yes := 0
	for range 32 {
		wg.Go(func() {
			due, err := Due(stamp, time.Minute, now)
			if err != nil {
				t.Error(err)
			}
			if due {
				mu.Lock()
				yes++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if yes != 1 {
		t.Errorf("%d were told yes, want 1", yes)
	}
}

func BenchmarkPlan1000(b *testing.B) {
	in := Input{Instance: ours, Known: true, Now: now, Rules: Rules{Idle: 24 * time.Hour}}
	for i := range 1000 {
		name := fmt.Sprintf("sbx-%04d", i)
		in.Records = append(in.Records, record(name, 48*time.Hour, 48*time.Hour))
		in.Live = append(in.Live, info(name, 48*time.Hour))
	}
	for b.Loop() {
		if len(Plan(in)) != 1000 {
			b.Fatal("wrong plan")
		}
	}
}
