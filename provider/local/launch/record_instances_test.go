package launch_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/provider/local/launch"
)

// TestSlotsAreUsedAgain holds that the file of an instance that has ended serves
// the next one, that none counts as an instance meanwhile, and that files do not
// add up.
func TestSlotsAreUsedAgain(t *testing.T) {
	d, path := open(t)
	ctx := context.Background()
	s, err := d.Claim(ctx, name)
	must(t, err)
	def := definition()
	must(t, d.Commit(ctx, s, def))
	up := func(want int) {
		t.Helper()
		if _, instances, err := d.Get(name); err != nil || len(instances) != want {
			t.Errorf("%+v, %v, want %d", instances, err, want)
		}
	}
	files := func(want int) {
		t.Helper()
		if list, err := os.ReadDir(filepath.Join(path, name, "walls")); err != nil || len(list) != want {
			t.Errorf("%v, %v, want %d", list, err, want)
		}
	}
	first := sleeper(t)
	must(t, s.Started(launch.Record{Process: first}))
	up(1)
	other, err := d.Slot(ctx, name, def.ID) // the first one is in use
	must(t, err)
	files(2)
	up(2) // one is being put up
	must(t, first.Kill(ctx))
	s.Release()
	other.Release()
	up(0)
	again, err := d.Slot(ctx, name, def.ID)
	must(t, err)
	files(1)
	up(1) // what it held before is not reported any more
	second := sleeper(t)
	must(t, again.Started(launch.Record{Process: second}))
	if _, instances, err := d.Get(name); err != nil || len(instances) != 1 || instances[0].Process != second {
		t.Errorf("%+v, %v", instances, err)
	}
	must(t, d.Remove(ctx, name))
	if alive(t, second) || !again.Gone() {
		t.Error("the second sandbox was not ended")
	}
}

// TestNobodyCanLook holds that an instance of which it cannot be seen whether it is
// up counts neither as down nor as ended, however few descriptors are left.
func TestNobodyCanLook(t *testing.T) {
	d, _ := open(t)
	ctx := context.Background()
	s, err := d.Claim(ctx, name)
	must(t, err)
	must(t, d.Commit(ctx, s, definition()))
	first := sleeper(t)
	must(t, s.Started(launch.Record{Process: first}))
	for spare := range 2 {
		testenv.Scarce(t, spare, func() {
			if _, instances, err := d.Get(name); err == nil && len(instances) != 1 || err != nil && sandbox.CodeOf(err) != sandbox.CodeUnavailable {
				t.Errorf("with %d descriptors: %+v, %v", spare, instances, err)
			}
			if err := d.Remove(ctx, name); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
				t.Errorf("with %d descriptors it is removed: %v", spare, err)
			}
		})
		if !alive(t, first) || s.Gone() {
			t.Fatalf("with %d descriptors something of it is gone", spare)
		}
	}
	must(t, d.Remove(ctx, name))
	if alive(t, first) {
		t.Error("it was removed, and its sandbox lives on")
	}
}
