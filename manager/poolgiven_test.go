package manager_test

import (
	"context"
	"os/exec"
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

func (*stingy) Begin(context.Context, string) (func(), error) { return func() {}, nil }

// TestRefusedClaim holds that a caller who may have no sandbox leaves the slot
// that it would have had to the next one, in the program that keeps the pool
// and in others.
func TestRefusedClaim(t *testing.T) {
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

// TestClaimSkipsDeadSlots holds that a slot whose container somebody has ended
// is nobody's sandbox: the next one is taken, and where none is left the
// sandbox is made anew. The keeper makes up for those that are gone.
func TestClaimSkipsDeadSlots(t *testing.T) {
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
			if _, o := mustRun(t, m, "b", "true"); o.Claimed || !o.Created || o.Cold == "" {
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
