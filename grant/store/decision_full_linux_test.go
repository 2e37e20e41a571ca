package store

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestDecisionFullDisk checks that a key that could not be written is used by
// no call, that the written ones stay valid, and that nothing is left behind.
func TestDecisionFullDisk(t *testing.T) {
	disk := testenv.Disk(t, "64k")
	dir := filepath.Join(disk, "decisions")
	wantUse(t, openDecision(t, dir), "t", "before", "call-1", "call-1")
	filler := filepath.Join(disk, "filler")
	if err := os.WriteFile(filler, make([]byte, 1<<20), 0o600); err == nil {
		t.Fatal("the disk did not fill up")
	}
	before := files(t, dir)
	k := openDecision(t, dir)
	for range 3 {
		_, err := k.Use("t", "key", "call-1", soon())
		decisionWantCode(t, err, sandbox.CodeUnavailable, "full")
	}
	wantUse(t, k, "t", "before", "call-1", "call-1")
	wantUse(t, k, "t", "before", "call-2", "call-1")
	if after := files(t, dir); len(after) != len(before) {
		t.Errorf("left behind: %v", after)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	wantUse(t, k, "t", "key", "call-2", "call-2")
	wantUse(t, k, "t", "key", "call-1", "call-2")
}

// TestReadOnlyDisk checks that nothing is granted where nothing can be written.
func TestReadOnlyDisk(t *testing.T) {
	disk := testenv.Disk(t, "64k")
	k := openDecision(t, filepath.Join(disk, "decisions"))
	if err := unix.Mount("", disk, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	_, err := k.Use("t", "key", "call-1", soon())
	decisionWantCode(t, err, sandbox.CodeUnavailable, "read-only")
}
