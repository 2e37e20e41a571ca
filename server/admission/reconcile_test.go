package admission

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/registry"
	"github.com/bulkhead-dev/sandbox/tenant"
)

func sandboxes(n int64) tenant.Want {
	return tenant.Want{Sandboxes: n, Memory: n << 30, NanoCPUs: n * 1e9}
}

// What exists when the process starts counts, whatever the limits are by now.
func TestReconcileAdoptsWhatExists(t *testing.T) {
	a := admission(t, Options{Rules: limited(tenant.NoLimits().With(tenant.Sandboxes, 2))})
	there := &inventory{}
	for n := range 3 {
		there.put(plain("a", n))
	}
	there.put(plain("b", 1))
	reconcile(t, a, there)
	reconcile(t, a, there)
	wantHeld(t, a, "a", sandboxes(3))
	wantHeld(t, a, "b", sandboxes(1))
	_, err := a.Hold(t.Context(), plain("a", 9))
	wantExceeded(t, err, tenant.Sandboxes, "tenant a")
	a.Gone(plain("a", 0).Name)
	there.take(plain("a", 0).Name)
	there.take(plain("a", 1).Name) // removed by another program
	reconcile(t, a, there)
	wantHeld(t, a, "a", sandboxes(1))
	mustHold(t, t.Context(), a, plain("a", 9))
}

func TestReconcileLeavesWhatHappensMeanwhile(t *testing.T) {
	a := admission(t, Options{Rules: limited(tenant.NoLimits())})
	there := &inventory{}
	going, replaced, failing := plain("a", 1), plain("a", 2), plain("a", 3)
	there.put(going)
	there.put(replaced)
	there.put(failing)
	reconcile(t, a, there)
	making, err := a.Hold(t.Context(), plain("a", 4))
	if err != nil {
		t.Fatal(err)
	}
	there.asked = func() {
		there.asked = nil
		a.Gone(going.Name) // after it was seen
		a.Gone(replaced.Name)
		mustHold(t, t.Context(), a, replaced)
		settle, err := a.Hold(t.Context(), failing)
		if err != nil {
			t.Error(err)
			return
		}
		settle(false)
		mustHold(t, t.Context(), a, plain("a", 5)) // after it was not seen
	}
	reconcile(t, a, there)
	wantHeld(t, a, "a", sandboxes(3)) // 2, 4 and 5
	making(true)
	there.take(going.Name)
	there.take(failing.Name)
	there.put(plain("a", 4))
	there.put(plain("a", 5))
	reconcile(t, a, there)
	reconcile(t, a, there)
	wantHeld(t, a, "a", sandboxes(3))
}

// While a provider does not answer none of its sandboxes counts as gone.
func TestReconcileOfHalfAnAnswer(t *testing.T) {
	a := admission(t, Options{Rules: limited(tenant.NoLimits())})
	silent := errors.New("no answer")
	there := &inventory{err: silent}
	mustHold(t, t.Context(), a, plain("a", 1))
	there.put(plain("a", 2))
	if err := a.Reconcile(t.Context(), there); !errors.Is(err, silent) {
		t.Errorf("got %v, want what the provider said", err)
	}
	wantHeld(t, a, "a", sandboxes(2))
	there.err = nil
	reconcile(t, a, there)
	wantHeld(t, a, "a", sandboxes(1))
}

func TestReconcileFreesTheDiskOfWorkspacesThatAreGone(t *testing.T) {
	a := admission(t, Options{Rules: limited(tenant.NoLimits())})
	f := inFolder(t, 1, 5<<30)
	there := &inventory{}
	there.put(f)
	reconcile(t, a, there)
	there.take(f.Name)
	reconcile(t, a, there)
	wantHeld(t, a, "a", tenant.Want{Disk: 5 << 30})
	there.put(f) // found again, in the same workspace
	reconcile(t, a, there)
	want := sandboxes(1)
	want.Disk = 5 << 30
	wantHeld(t, a, "a", want)
	there.take(f.Name)
	if err := os.Remove(f.Workspace); err != nil {
		t.Fatal(err)
	}
	reconcile(t, a, there)
	wantHeld(t, a, "a", tenant.Want{})
}

// A round asks the inventory when something reports that it may have changed,
// and otherwise only once in a while.
func TestRound(t *testing.T) {
	a := admission(t, Options{Rules: limited(tenant.NoLimits().With(tenant.Sandboxes, 1))})
	root := t.TempDir()
	records, err := registry.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	settle := func(ago time.Duration) { // the folders of records were changed so long ago
		for _, sub := range []string{"containers", "browsers"} {
			if err := os.Chtimes(filepath.Join(root, sub), time.Time{}, time.Now().Add(-ago)); err != nil {
				t.Fatal(err)
			}
		}
	}
	there := &inventory{recorded: records.Stamp}
	there.put(plain("a", 1))
	now := time.Now()
	round := func(what string, looks int) {
		t.Helper()
		before := there.looks
		if err := a.Round(t.Context(), there, now); !errors.Is(err, there.err) {
			t.Fatalf("%s: %v", what, err)
		}
		if got := there.looks - before; got != looks {
			t.Errorf("%s: it looked %d times, want %d", what, got, looks)
		}
	}
	settle(-time.Hour) // a time in the future proves nothing, nor does the present, however long a round takes
	round("the first", 1)
	round("just after records were made", 1)
	settle(time.Hour)
	round("records have been changed", 1)
	round("nothing was recorded", 0)
	wantHeld(t, a, "a", sandboxes(1))
	settle(time.Minute)
	round("something was recorded", 1)
	round("nothing was recorded since", 0)

	there.take(plain("a", 1).Name) // by hand, which is not recorded
	round("nothing tells of it", 0)
	wantHeld(t, a, "a", sandboxes(1))
	_, err = a.Hold(t.Context(), plain("a", 2))
	wantExceeded(t, err, tenant.Sandboxes, "tenant a")
	round("somebody was refused", 1)
	wantHeld(t, a, "a", tenant.Want{})
	mustHold(t, t.Context(), a, plain("a", 2))
	round("nobody was since", 0)

	now = now.Add(lookAnew)
	round("the last look is long ago", 1)
	round("it is not any more", 0)
	now = now.Add(-time.Hour)
	round("the clock was set back", 1)

	settle(3 * time.Minute)
	there.err = errors.New("the engine is away")
	round("it fails", 1)
	round("it is tried again", 1)
	there.err = nil
	round("and again", 1)
	round("until it is known", 0)

	there.recorded = func() (registry.Stamp, error) { return registry.Stamp{}, fs.ErrPermission }
	there.err = fs.ErrPermission
	round("the records cannot be looked at", 1)
	round("nor can they now", 1)
}
