package recorder

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// tinyDisk is a file system of 800 KiB, and a function that fills it up but for
// so many bytes.
func tinyDisk(t *testing.T) (dir string, fill func(room int64)) {
	t.Helper()
	dir = testenv.Disk(t, "800k")
	filler := filepath.Join(dir, "filler")
	return dir, func(room int64) {
		t.Helper()
		if room < 0 {
			if err := os.Remove(filler); err != nil {
				t.Fatal(err)
			}
			return
		}
		if err := os.WriteFile(filler, make([]byte, 1<<20), 0o600); err == nil {
			t.Fatal("the disk did not fill up")
		}
		fi, err := os.Stat(filler)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(filler, fi.Size()&^4095-room); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFullDisk fills the disk at several distances, before and after the files
// are made: with require nothing begins, without it everything does, and when
// there is room again all of it is on record, once.
func TestFullDisk(t *testing.T) {
	for _, began := range []bool{false, true} {
		for _, room := range []int64{0, 4096, 8192, 16384} {
			dir, fill := tinyDisk(t)
			g := newRig(t, dir, Options{})
			want := map[string]evidence.Status{}
			if began {
				e := g.begin(t, true)
				end(t, e, wrote())
				want[e.ID()] = evidence.OK
			}
			fill(room)
			for full := false; !full; { // there may be room for some
				b := write("acme")
				b.ID = NewID()
				want[b.ID] = evidence.Denied
				e, err := g.Begin(t.Context(), b, true)
				if full = err != nil; full {
					wantRefused(t, err, "full")
					break
				}
				want[b.ID] = evidence.OK
				_ = e.End(t.Context(), wrote()) // the disk may be full now
			}
			for range 10 {
				e := g.begin(t, false)
				end(t, e, wrote())
				want[e.ID()] = evidence.OK
			}
			if c := g.sinkCount(t, "file"); c.Waiting < 20 || c.Lost != 0 || c.Failures == 0 {
				t.Errorf("counters %+v", c)
			}
			fill(-1)
			end(t, g.begin(t, true), wrote())
			all := operations(t, g.store, "acme")
			for id, status := range want {
				wantStatus(t, all, id, status)
			}
			if len(all) != len(want)+1 {
				t.Errorf("%d operations, want %d", len(all), len(want)+1)
			}
			for chain, err := range g.store.Verify(t.Context(), evidence.Check{}) {
				if err != nil || !chain.OK() {
					t.Errorf("chain %+v, %v", chain, err)
				}
			}
			if err := g.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestRecoverOnFullDisk checks that what cannot be written as aborted is written
// by the next one.
func TestRecoverOnFullDisk(t *testing.T) {
	dir, fill := tinyDisk(t)
	said := work(t, dir, 200)
	fill(0)
	g := newRig(t, dir, Options{})
	if g.log.count("not all operations") != 1 {
		t.Errorf("the log is %q", g.log.lines)
	}
	if left := writers(t, dir); len(left) != 1 {
		t.Errorf("files %v are left", left)
	}
	fill(-1)
	if n, err := g.Recover(t.Context()); n == 0 || err != nil {
		t.Errorf("%d were aborted, %v", n, err)
	}
	for _, tenant := range []string{"acme", "globex"} {
		for id, o := range operations(t, g.store, tenant) {
			if o.Begin == nil || o.End == nil || said[id] && o.End.Status != evidence.OK {
				t.Errorf("%s: %+v", id, o)
			}
		}
	}
	if left := writers(t, dir); len(left) != 0 {
		t.Errorf("files %v are left", left)
	}
}
