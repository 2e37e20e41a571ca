package manager_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/registry"
)

// counts what there is: containers, workspaces, records and claims.
func (r *rig) counts() (containers, workspaces, records, claims int) {
	r.t.Helper()
	infos, err := r.engine.List(context.Background(), sandbox.Filter{Instance: r.state.Instance()})
	must(r.t, err)
	folders, err := filepath.Glob(filepath.Join(r.state.Workspaces(), "[a-z]*"))
	must(r.t, err)
	store, err := registry.Open(r.state.Registry())
	must(r.t, err)
	recs, problems, err := store.List("")
	must(r.t, err)
	slots, err := store.ClaimedSlots()
	must(r.t, err)
	return len(infos), len(folders), len(recs) + len(problems), len(slots)
}

// holds fails unless so much is there of everything.
func (r *rig) holds(when string, containers, workspaces, records, claims int) {
	r.t.Helper()
	c, w, n, k := r.counts()
	if c != containers || w != workspaces || n != records || k != claims {
		r.t.Errorf("%s: %d containers, %d workspaces, %d records, %d claims; want %d, %d, %d, %d", when, c, w, n, k, containers, workspaces, records, claims)
	}
}

// TestKilledDuringClaim kills a program at each step of a claim. From then on
// no other session gets the slot, the session has what it was promised or
// starts afresh, and nothing is left when all has been removed.
func TestKilledDuringClaim(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	fillPool(t, r.manager(pooled(1)))
	// The sandboxes of the steps before stay; half is the first, whose claim is alone.
	for i, step := range []string{"half", "claim", "claimed", "settle", "kept", "recorded"} {
		t.Run(step, func(t *testing.T) {
			s, u := fmt.Sprint("s", i), fmt.Sprint("u", i)
			at := step
			if step == "half" {
				at = "claimed"
			}
			killAt(t, r, at, childSet+"="+pooled(1), childSession+"="+s, childLine+"=echo mine > mine; sleep 600")
			if step == "half" { // of the two names of the claim it has the first
				names, err := filepath.Glob(filepath.Join(r.state.Registry(), "claims", "names", "*.json"))
				if err != nil || len(names) != 1 {
					t.Fatal(names, err)
				}
				must(t, os.Remove(names[0]))
			}
			m := r.manager(pooled(1))
			mine, first := mustRun(t, m, s, "echo mine > mine; id -u")
			other, second := mustRun(t, m, u, "ls; id -u")
			if mine == other || strings.Contains(other, "mine") || first.Name == second.Name {
				t.Errorf("the session before was user %s in %s, the one after has %q in %s", mine, first.Name, other, second.Name)
			}
			if claims := first.Claimed || !first.Created; claims == (step == "half") {
				t.Errorf("killed at %s, its session found %+v", step, first)
			}
			fillPool(t, m)
			if c, w, n, _ := r.counts(); c != 3+2*i || w != c || n != c {
				t.Errorf("refilled: %d containers, %d workspaces, %d records; want %d", c, w, n, 3+2*i)
			}
			if out, o := mustRun(t, r.manager(pooled(1)), s, "cat mine; id -u"); out != "mine\n"+mine || o.Created {
				t.Errorf("later: %q, %+v", out, o)
			}
		})
	}
	r.clock.advance(2 * time.Minute)
	idle := time.Nanosecond
	if p, err := r.manager(pooled(1)).Prune(context.Background(), manager.PruneOptions{Idle: &idle, Workspaces: true}); err != nil || len(p.Failed) != 0 {
		t.Errorf("prune: %+v, %v", p, err)
	}
	r.holds("all but the free slot removed", 1, 1, 1, 0)
}
