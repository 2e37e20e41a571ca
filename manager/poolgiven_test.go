package manager_test

import (
	"context"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/manager"
)

// A stingy account refuses every sandbox for as long as it is full.
type stingy struct{ full atomic.Bool }

func (s *stingy) Hold(context.Context, manager.Footprint) (func(bool), error) {
	if s.full.Load() {
		return nil, &sandbox.Error{Code: sandbox.CodeBudgetExceeded, Op: "admit", Message: "the quota is used up"}
	}
	return func(bool) {}, nil
}

func (*stingy) Gone(string) {}

func (*stingy) Payer(context.Context) (manager.Payer, error) { return manager.Payer{}, nil }

func (*stingy) Begin(context.Context, string) (func(), error) { return func() {}, nil }

// TestRefusedClaim holds that a caller who may have no sandbox leaves the slot
// that it would have had to the next one, in the program that keeps the pool
// and in others.
func TestRefusedClaim(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	account := &stingy{}
	r.change = func(o *manager.Options) { o.Accounting = account }
	keeper, other := r.manager(pooled(1)), r.manager(pooled(1))
	for _, m := range []*manager.Manager{keeper, other} {
		what := map[bool]string{true: "keeper", false: "other"}[m == keeper]
		fillPool(t, keeper)
		account.full.Store(true)
		for range 3 {
			if _, _, err := run(m, "poor", "true"); sandbox.CodeOf(err) != sandbox.CodeBudgetExceeded {
				t.Fatalf("%s: beyond the quota: %v", what, err)
			}
		}
		r.holds(what+": after a refusal", 1, 1, 1, 0)
		account.full.Store(false)
		if _, o := mustRun(t, m, "rich", "true"); !o.Claimed {
			t.Errorf("%s: the next one: %+v", what, o)
		}
		must(t, m.Remove(context.Background(), row(t, m, "rich"), manager.RemoveOptions{Workspace: true}))
	}
}

// TestClaimGivenUp holds that a caller who goes while a slot is asked whether it
// answers takes no slot away: neither that one nor the others.
func TestClaimGivenUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.manager(pooled(2))
	fillPool(t, m)
	l, err := m.List(context.Background(), manager.ListOptions{All: true})
	must(t, err)
	docker := func(verb string) {
		t.Helper()
		for _, slot := range l.Containers {
			if out, err := exec.Command("docker", verb, slot.ID).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
	}
	docker("pause")
	ctx, done := context.WithTimeout(context.Background(), 1500*time.Millisecond) // less than a slot may take to answer
	defer done()
	if _, err := m.Run(ctx, manager.Request{Who: who("gone"), Command: sandbox.Command{Args: []string{"true"}}}); err == nil {
		t.Fatal("a command has run in a slot that does not answer")
	}
	docker("unpause")
	for _, session := range []string{"a", "b"} {
		if _, o := mustRun(t, m, session, "true"); !o.Claimed {
			t.Errorf("%s: %+v", session, o)
		}
	}
}

// TestPruneSparesFreeSlots checks that a sweep removes no slot for being idle,
// neither in the keeper of the pool nor in other programs; and that it removes
// those that are too old, broken, or more than settings want.
func TestPruneSparesFreeSlots(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := context.Background()
	keeper := r.manager(pooled(3))
	fillPool(t, keeper)
	mustRun(t, keeper, "s", "true")
	fillPool(t, keeper)
	r.clock.advance(25 * time.Hour)
	idle := time.Nanosecond
	sweep := func(m *manager.Manager, o manager.PruneOptions, want string, slots int) {
		t.Helper()
		p, err := m.Prune(ctx, o)
		if err != nil || len(p.Failed) != 0 {
			t.Errorf("%+v, %v", p, err)
		}
		got := ""
		for _, one := range p.Removed {
			what, _, _ := strings.Cut(one.Reason, ":")
			got += what + " "
		}
		if got != want || slotsOf(t, keeper) != slots {
			t.Errorf("swept %q and left %d slots; want %q and %d (%+v)", got, slotsOf(t, keeper), want, slots, p)
		}
	}
	sweep(keeper, manager.PruneOptions{}, "idle ", 3)
	other := r.manager(pooled(3))
	sweep(keeper, manager.PruneOptions{Idle: &idle}, "", 3)
	sweep(other, manager.PruneOptions{Idle: &idle}, "", 3)
	sweep(r.manager(pooled(2)), manager.PruneOptions{Idle: &idle, DryRun: true}, "surplus ", 3)
	sweep(r.manager(pooled(2)), manager.PruneOptions{}, "surplus ", 2)
	l, err := other.List(ctx, manager.ListOptions{All: true})
	must(t, err)
	must(t, r.engine.Kill(ctx, l.Containers[0].ID))
	sweep(other, manager.PruneOptions{Idle: &idle}, "surplus ", 1) // it is broken
	r.clock.advance(7 * 24 * time.Hour)
	sweep(other, manager.PruneOptions{}, "max-age ", 0)
	r.holds("in the end", 0, 1, 0, 1) // of the session there is the workspace, with its claim
}

// TestClaimSkipsDeadSlots checks that no session gets a slot whose container
// was ended: the next one is taken, and where none is left the sandbox is made
// anew. The keeper replaces those that are gone.
func TestClaimSkipsDeadSlots(t *testing.T) {
	t.Parallel()
	for _, keeps := range []bool{true, false} {
		t.Run(map[bool]string{true: "keeper", false: "other"}[keeps], func(t *testing.T) {
			r := newRig(t)
			keeper := r.manager(pooled(2))
			fillPool(t, keeper)
			m := keeper
			if !keeps {
				m = r.manager(pooled(2))
			}
			l, err := keeper.List(context.Background(), manager.ListOptions{All: true})
			must(t, err)
			first, second := l.Containers[0], l.Containers[1]
			if second.CreatedAt.Before(first.CreatedAt) { // the oldest is tried first
				first, second = second, first
			}
			kill := func(slot manager.Row) {
				t.Helper()
				if out, err := exec.Command("docker", "kill", slot.ID).CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
			kill(first)
			if _, o := mustRun(t, m, "a", "true"); !o.Claimed || row(t, m, "a").ID != second.ID {
				t.Errorf("with one dead slot: %+v", o)
			}
			if _, o := mustRun(t, m, "b", "true"); o.Claimed || !o.Created || o.Miss == nil {
				t.Errorf("with dead slots alone: %+v", o)
			}
			if n := fillPool(t, keeper); n != 2 || slotsOf(t, keeper) != 2 {
				t.Errorf("the keeper has started %d of 2", n)
			}
			if _, o := mustRun(t, m, "c", "true"); !o.Claimed {
				t.Errorf("when there are others: %+v", o)
			}
		})
	}
}
