package manager_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/grant/operation"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/registry/pool"
)

// poolCounts hears what metrics would show of the pool.
type poolCounts struct {
	mu     sync.Mutex
	misses []string
	hits   int
}

func (*poolCounts) Built(time.Duration)     {}
func (*poolCounts) Validated(time.Duration) {}
func (*poolCounts) Ended(operation.Ended)   {}
func (c *poolCounts) Attempted(miss *pool.Miss, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if miss == nil {
		c.hits++
		return
	}
	c.misses = append(c.misses, string(miss.Reason))
}
func (*poolCounts) SlotStarted(time.Duration, error) {}
func (*poolCounts) Slots(int, int)                   {}
func (*poolCounts) Refilled(time.Duration)           {}

// otherImage answers for another image, once it is there, than settings name.
type otherImage struct {
	manager.Images
	ref *atomic.Pointer[string]
}

func (o otherImage) Current(ctx context.Context, ref string, setup []string) (string, error) {
	if other := o.ref.Load(); other != nil {
		ref = *other
	}
	return o.Images.Current(ctx, ref, setup)
}

// TestMissSaysWhy holds that each sandbox that is made although a pool is kept
// says why in a word, with the settings that differ, and how long that took: in
// the outcome, the log, the metrics and on record.
func TestMissSaysWhy(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	counts, ref := &poolCounts{}, &atomic.Pointer[string]{}
	r.change = func(o *manager.Options) { o.Observer, o.Images = counts, otherImage{o.Images, ref} }
	m := r.manager(pooled(1))
	var reasons []string
	miss := func(session string, want pool.Reason, fields []string, change ...func(*manager.Request)) {
		t.Helper()
		began := time.Now()
		_, o, err := run(m, session, "true", change...)
		if err != nil || o.Claimed || !o.Created || o.Miss == nil {
			t.Fatalf("%s: %+v, %v", want, o, err)
		}
		got := o.Miss
		if got.Reason != want || !slices.Equal(got.Fields, fields) || got.Detail == "" || got.MadeMS < 50 || got.MadeMS > time.Since(began).Milliseconds() {
			t.Errorf("%s: %+v", want, got)
		}
		s, err := m.PoolStatus(context.Background())
		must(t, err)
		if c := s.Claims[0]; c.Sandbox != o.Name || c.Claimed || c.Miss == nil || c.Miss.Reason != want || c.TookMS != got.MadeMS {
			t.Errorf("%s: on record is %+v", want, c)
		}
		if said := r.log.String(); !strings.Contains(said, "reason="+string(want)) || !strings.Contains(said, "made=") {
			t.Errorf("%s: the log says %.2000s", want, said)
		}
		reasons = append(reasons, string(want))
	}
	pids, image := int64(77), "sandbox:bookworm-slim"
	flags := func(s config.SandboxSettings) func(*manager.Request) {
		return func(q *manager.Request) { q.Flags = &s }
	}
	miss("none", pool.Empty, nil)
	fillPool(t, m)
	miss("pids", pool.Differs, []string{"docker.pidsLimit"}, flags(config.SandboxSettings{Docker: &config.DockerSettings{PIDsLimit: &pids}}))
	quota := config.Size(1 << 30)
	miss("quota", pool.Differs, []string{"workspaceQuota"}, flags(config.SandboxSettings{WorkspaceQuota: &quota}))
	must(t, m.Remove(context.Background(), row(t, m, "quota"), manager.RemoveOptions{Workspace: true}))
	if _, o := mustRun(t, m, "hit", "true"); !o.Claimed || o.Miss != nil {
		t.Errorf("a hit: %+v, %+v", o, o.Miss)
	}
	miss("used up", pool.Empty, nil)
	if done := m.Recreate(context.Background(), []manager.Row{row(t, m, "hit")}); len(done.Removed) != 1 {
		t.Fatalf("%+v", done)
	}
	miss("hit", pool.Returning, nil)
	fillPool(t, m)
	// The tag of the image comes to mean another one.
	tag := "sbx-test-other:" + r.state.Instance()
	build := exec.Command("docker", "build", "-q", "-t", tag, "-")
	build.Stdin = strings.NewReader("FROM " + image + "\nLABEL other=" + r.state.Instance() + "\n")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("docker", "rmi", "-f", tag).Run() })
	t.Cleanup(r.clean) // before that
	ref.Store(&tag)
	r.clock.advance(time.Minute) // an image counts for a moment
	miss("image", pool.ImageChanged, []string{"docker.image"})
	ref.Store(nil)
	r.clock.advance(time.Minute)
	fillPool(t, m)
	// The slot is there and does not answer.
	l, err := m.List(context.Background(), manager.ListOptions{All: true})
	must(t, err)
	for _, row := range l.Containers {
		if row.Kind == sandbox.KindPool {
			if out, err := exec.Command("docker", "kill", row.ID).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
	}
	miss("dead", pool.Unresponsive, nil)
	counts.mu.Lock()
	defer counts.mu.Unlock()
	if got := fmt.Sprint(counts.misses); got != fmt.Sprint(reasons) || counts.hits != 1 {
		t.Errorf("counted are %s and %d hits, want %s", got, counts.hits, fmt.Sprint(reasons))
	}
}

// TestMissOfSlotsInUse holds what a miss says of slots that other calls have.
func TestMissOfSlotsInUse(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.manager(pooled(1))
	reason := func(session string, want pool.Reason) {
		t.Helper()
		_, o, err := run(m, session, "true")
		if err != nil || o.Miss == nil || o.Miss.Reason != want {
			t.Errorf("%+v, %+v, %v; want %s", o, o.Miss, err, want)
		}
	}
	// One is being made: a program stands still in the middle of it.
	at, on := make(chan struct{}), make(chan struct{})
	maker := r.manager(pooled(1))
	manager.PoolFault(maker, func(step string) {
		if step == "slot create" {
			close(at)
			<-on
		}
	})
	done := make(chan error, 1)
	go func() { _, _, err := maker.Refill(context.Background()); done <- err }()
	<-at
	reason("early", pool.BeingMade)
	close(on)
	must(t, <-done)
	// A claim on it is damaged.
	slots, err := filepath.Glob(filepath.Join(r.state.Registry(), "containers", "sbx-pool-*.json"))
	if err != nil || len(slots) != 1 {
		t.Fatal(slots, err)
	}
	claims := filepath.Join(r.state.Registry(), "claims")
	must(t, os.MkdirAll(filepath.Join(claims, "names"), 0o700))
	damaged := filepath.Join(claims, filepath.Base(slots[0]))
	manager.PoolFault(maker, func(step string) {
		if step == "claim" { // after it was looked for
			must(t, os.WriteFile(damaged, []byte("{"), 0o600))
		}
	})
	_, o, err := run(maker, "damaged", "true")
	if err != nil || o.Miss == nil || o.Miss.Reason != pool.DamagedClaim {
		t.Errorf("a damaged claim: %+v, %+v, %v", o, o.Miss, err)
	}
	must(t, m.Close())
	reason("at the end", pool.Draining)
}
