package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// openBelow counts the descriptors of this process that lead below dir, also
// to files that are gone.
func openBelow(t testing.TB, dir string) int {
	t.Helper()
	const fds = "/proc/self/fd"
	entries, err := os.ReadDir(fds)
	must(t, err)
	n := 0
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(fds, e.Name())); err == nil && strings.HasPrefix(to, dir+"/") {
			n++
		}
	}
	return n
}

// TestHeldIsBounded checks that of many journals only a few stay open, none of
// them for long, and none behind a failure.
func TestHeldIsBounded(t *testing.T) {
	dir, held := t.TempDir(), patient()
	defer held.Close()
	var all []*Journal
	for n := range 3 * maxHeld {
		j := openBare(t, filepath.Join(dir, fmt.Sprint(n)), Options{Held: held})
		appendNotes(t, j, "a", 0, 2, "")
		all = append(all, j)
	}
	if n := openBelow(t, dir); n != 3*maxHeld {
		t.Errorf("%d descriptors of %d journals, want %d", n, len(all), 3*maxHeld)
	}
	held.expire() // which a timer calls
	testenv.Until(t, "the descriptors are closed", func() bool { return openBelow(t, dir) == 0 })
	for _, j := range all[:5] {
		appendNotes(t, j, "a", 2, 4, "")
	}
	held.Close()
	if n := openBelow(t, dir); n > 0 {
		t.Errorf("%d descriptors behind Close", n)
	}
	for n, j := range all {
		last := 2
		if n < 5 {
			last = 4
		}
		wantWhole(t, j)
		wantNotes(t, j, "a", 0, last)
	}
	held.Close()
	appendNotes(t, all[0], "a", 4, 6, "")
	no := errors.New("no")
	if err := all[0].Append(t.Context(), func(Tail) (any, bool, error) { return nil, false, no }); !errors.Is(err, no) {
		t.Fatal(err)
	}
	if n := openBelow(t, dir); n > 0 {
		t.Errorf("%d descriptors behind a failure", n)
	}
}

// TestPanicGivesTheLockUp checks that a record whose making panics leaves the
// journal to others.
func TestPanicGivesTheLockUp(t *testing.T) {
	j := open(t, t.TempDir(), Options{})
	appendNotes(t, j, "a", 0, 1, "")
	func() {
		defer func() {
			if recover() == nil {
				t.Error("there was no panic")
			}
		}()
		_ = j.Append(t.Context(), func(Tail) (any, bool, error) { panic("on purpose") })
	}()
	if n := openBelow(t, j.dir); n > 0 {
		t.Errorf("%d descriptors stay open", n)
	}
	appendNotes(t, openBare(t, j.dir, Options{}), "a", 1, 2, "")
	appendNotes(t, j, "a", 2, 3, "")
	wantWhole(t, j)
	wantNotes(t, j, "a", 0, 3)
}

// TestRotatedAndClearedByAnotherProcess has processes append with files that
// stay open while this one rotates the journal and clears it of its own
// records. None of them is more than halfway through until that was done twice.
// Nothing of theirs is lost, doubled or out of order.
func TestRotatedAndClearedByAnotherProcess(t *testing.T) {
	const processes, count = 3, 400
	j := open(t, t.TempDir(), small(200))
	var all []*exec.Cmd
	var gates []io.Closer
	for p := range processes {
		cmd, gate := startGated(t, j.dir, fmt.Sprint("p", p), count, 2, count/2)
		all, gates = append(all, cmd), append(gates, gate)
	}
	ended := make(chan error, 1)
	go func() {
		var errs []error
		for _, cmd := range all {
			errs = append(errs, cmd.Wait())
		}
		ended <- errors.Join(errs...)
	}()
	newest := func() (seq uint64) {
		for rec, err := range j.Records(t.Context(), Range{Backward: true}) {
			must(t, err)
			return rec.Seq
		}
		return 0
	}
	halfway := func() bool { // all of them wait
		n := 0
		got, _ := read(t, j, Range{})
		for _, note := range got {
			if !strings.HasPrefix(note, "us ") {
				n++
			}
		}
		return n == processes*count/2
	}
	rounds := 0
	for running := true; running; rounds++ {
		appendNotes(t, j, "us", 0, 1, "")
		must(t, j.Rotate(t.Context()))
		appendNotes(t, j, "us", 1, 2, "")
		clearAll(t, j, func(r Record) bool { return strings.Contains(string(r.Data), `"us"`) })
		ours := newest()
		if rounds == 1 {
			for _, gate := range gates {
				gate.Close()
			}
		}
		testenv.Until(t, "the others append", func() bool { // a busy writer leaves them hardly a moment
			select {
			case err := <-ended:
				must(t, err)
				running = false
			default:
			}
			return !running || newest() > ours || rounds == 0 && halfway()
		})
	}
	got, damage := wantInOrder(t, j, 0)
	if len(got) != processes*count || len(damage) > 0 {
		t.Errorf("%d records and damage %v", len(got), damage)
	}
	t.Logf("%d rounds", rounds)
	if r := wantWhole(t, j); len(r.Clearings) == 0 || rounds < 2 {
		t.Errorf("%d rounds and clearings %v: nothing was done meanwhile", rounds, r.Clearings)
	}
}
