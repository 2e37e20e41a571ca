package journal

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestFullDisk fills the disk at every distance to the end of a batch.
func TestFullDisk(t *testing.T) {
	dir := testenv.Disk(t, "400k")
	filler := filepath.Join(dir, "filler")
	for room := range 12 {
		p := filepath.Join(dir, "j")
		o := small(2)
		o.Held = NewHeld()
		t.Cleanup(o.Held.Close)
		j := openBare(t, p, o)
		appendNotes(t, j, "a", 0, 3, "")
		if err := os.WriteFile(filler, make([]byte, 1<<20), 0o600); err == nil {
			t.Fatal("the disk did not fill up")
		}
		fi, err := os.Stat(filler)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(filler, fi.Size()&^4095-int64(room)*4096); err != nil {
			t.Fatal(err)
		}
		had := 3
		var failed error
		for failed == nil {
			fill := strings.Repeat("x", 5000)
			if failed = j.Append(context.Background(), note{"a", had, fill}, note{"a", had + 1, fill}); failed == nil {
				had += 2
			}
		}
		wantCode(t, failed, sandbox.CodeUnavailable, "is full")
		wantNotes(t, j, "a", 0, had)
		wantWhole(t, j)
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		appendNotes(t, j, "a", had, had+3, "")
		wantNotes(t, j, "a", 0, had+3)
		wantWhole(t, j)
		o.Held.Close() // files that stay open would take up room in the next rounds, and let go of it at any time
		if err := os.RemoveAll(p); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNewJournalOnAFullDisk checks that a journal that could not begin begins
// later without complaint.
func TestNewJournalOnAFullDisk(t *testing.T) {
	dir := testenv.Disk(t, "64k")
	j := open(t, filepath.Join(dir, "j"), small(2))
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 1<<20), 0o600); err == nil {
		t.Fatal("the disk did not fill up")
	}
	for range 2 {
		wantCode(t, j.Append(context.Background(), note{}), sandbox.CodeUnavailable, "is full")
	}
	if got, damage := read(t, j, Range{}); got != nil || damage != nil {
		t.Errorf("read %v, %v", got, damage)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	appendNotes(t, j, "a", 0, 3, "")
	wantNotes(t, j, "a", 0, 3)
	wantWhole(t, j)
}

// TestReadOnlyDisk checks that a journal can be read where nothing can be
// written.
func TestReadOnlyDisk(t *testing.T) {
	dir := testenv.Disk(t, "400k")
	p := filepath.Join(dir, "j")
	appendNotes(t, openBare(t, p, small(2)), "a", 0, 3, "")
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	j := open(t, p, small(2))
	wantNotes(t, j, "a", 0, 3)
	wantWhole(t, j)
	wantCode(t, j.Append(context.Background(), note{}), sandbox.CodeUnavailable, "read-only")
}
