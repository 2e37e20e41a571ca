package ledger

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestFullDisk checks that accounts which exist go on, that new ones are refused
// whole, and that they can be made when there is room again.
func TestFullDisk(t *testing.T) {
	dir := testenv.Disk(t, "400k")
	filler := filepath.Join(dir, "filler")
	l := open(t, filepath.Join(dir, "budget"), Options{Sync: true})
	tenant := calls("tenant:t", 100)
	a := account(t, l, calls("session:a", 100), tenant)
	spend(t, a, 1)
	if err := os.WriteFile(filler, make([]byte, 1<<20), 0o600); err == nil {
		t.Fatal("the disk did not fill up")
	}
	for n := range 3 {
		_, err := l.Account(bg(), calls(fmt.Sprint("session:b", n), 100), tenant)
		wantCode(t, err, sandbox.CodeUnavailable, "is full")
	}
	r := reserve(t, a, 10)
	if err := r.Settle(bg(), call(3)); err != nil {
		t.Fatal(err)
	}
	wantUsed(t, a, 4, 4)
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	b := account(t, l, calls("session:b0", 100), tenant)
	spend(t, b, 2)
	wantUsed(t, b, 2, 6)
}

// TestReadOnlyDisk checks that nothing is granted where nothing can be charged.
func TestReadOnlyDisk(t *testing.T) {
	dir := testenv.Disk(t, "400k")
	l := open(t, filepath.Join(dir, "budget"), Options{})
	a := account(t, l, calls("tenant:t", 100))
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	_, err := a.Reserve(bg(), call(1))
	wantCode(t, err, sandbox.CodeUnavailable, "read-only")
}
