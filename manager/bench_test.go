package manager_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/registry"
)

// deadRecords writes n records of sandboxes that are gone.
func (r *rig) deadRecords(n int) {
	r.t.Helper()
	store, err := registry.Open(r.state.Registry())
	must(r.t, err)
	old := time.Now().Add(-30 * 24 * time.Hour)
	for i := range n {
		must(r.t, store.Put(registry.Record{
			Name: fmt.Sprintf("sbx-dead-%016x", i), Kind: sandbox.KindSandbox, Provider: "docker", Instance: r.state.Instance(),
			Agent: "main", Session: fmt.Sprintf("d%d", i), Scope: sandbox.ScopeSession, ScopeKey: fmt.Sprintf("d%d", i),
			Image: "sandbox:bookworm-slim", ConfigHash: "x", CreatedAt: old, LastUsedAt: old,
		}))
	}
}

// enough is how often something is measured before it counts as slow.
const (
	enoughTime = 15 * time.Second
	enoughRuns = 3
)

// shortest is the shortest of runs of f, by how measures, and ends with the first
// that is not longer than limit. Other tests share the machine: a run that was
// interrupted says nothing, and among many there is one that was not.
func shortest(limit time.Duration, measure func(func()) time.Duration, f func()) time.Duration {
	best := time.Duration(math.MaxInt64)
	begun := time.Now()
	for n := 0; best > limit && (n < enoughRuns || time.Since(begun) < enoughTime); n++ {
		best = min(best, measure(f))
	}
	return best
}

// waited is how long f takes.
func waited(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

// worked is the processor time that this process takes for f, which is all there
// is to what is too long to be done without an interruption.
func worked(f func()) time.Duration {
	start := processorTime()
	f()
	return processorTime() - start
}

func processorTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestQuick holds the times that people wait. The bounds are those of the
// project's first requirements; the race detector makes everything several
// times slower and so gets more.
func TestQuick(t *testing.T) {
	r := newRig(t)
	m := r.manager("")
	ctx := context.Background()
	slow := time.Duration(1)
	if raceEnabled {
		slow = 8
	}
	for i := range 3 {
		mustRun(t, m, fmt.Sprintf("s%d", i), "true")
	}
	list := func() {
		if _, err := m.List(ctx, manager.ListOptions{}); err != nil {
			t.Error(err)
		}
	}
	hold := func(what string, got, limit time.Duration) {
		t.Logf("%s: %s", what, got)
		if got > limit*slow {
			t.Errorf("%s took %s, the limit is %s", what, got, limit*slow)
		}
	}
	check := func(what string, limit time.Duration, measure func(func()) time.Duration, f func()) {
		hold(what, shortest(limit*slow, measure, f), limit)
	}
	check("list of 3", 50*time.Millisecond, waited, list)
	check("warm run of true", 12*time.Millisecond, waited, func() { mustRun(t, m, "s0", "true") })
	check("warm resolve", 2*time.Millisecond, waited, func() {
		if err := touch(m, "s0"); err != nil {
			t.Error(err)
		}
	})
	r.deadRecords(1000)
	check("list of 1,003 records", 200*time.Millisecond, worked, list)
	var p manager.Pruned
	var err error
	hold("prune of 1,000 dead records", worked(func() { p, err = m.Prune(ctx, manager.PruneOptions{}) }), time.Second)
	if err != nil || len(p.Removed) != 1000 || p.Kept != 3 {
		t.Errorf("prune removed %d, kept %d, %v", len(p.Removed), p.Kept, err)
	}
}

// BenchmarkWarmResolve measures what stands between a request for a running
// sandbox and its command.
func BenchmarkWarmResolve(b *testing.B) {
	r := newRig(b)
	m := r.manager("")
	mustRun(b, m, "s", "true")
	for b.Loop() {
		if err := touch(m, "s"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkMemory100 tells the resident memory of a program that has used a
// hundred sandboxes.
func BenchmarkMemory100(b *testing.B) {
	r := newRig(b)
	m := r.manager(settings(`"docker":{"memory":"64m"}`))
	for i := range 100 {
		mustRun(b, m, fmt.Sprintf("s%d", i), "true")
	}
	for b.Loop() {
		if _, err := m.List(context.Background(), manager.ListOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	debug.FreeOSMemory()
	b.ReportMetric(float64(residentMiB(b)), "MiB-resident")
}

func residentMiB(t testing.TB) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/status")
	must(t, err)
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.Atoi(strings.Fields(rest)[0])
			must(t, err)
			return kb >> 10
		}
	}
	t.Fatal("no VmRSS")
	return 0
}

// touch ensures the session's sandbox and does nothing with it.
func touch(m *manager.Manager, session string) error {
	return m.WithSandbox(context.Background(), manager.Request{Who: who(session)}, func(sandbox.Sandbox, sandbox.Spec) error { return nil })
}
