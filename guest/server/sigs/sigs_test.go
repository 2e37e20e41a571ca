//go:build linux

package sigs_test

import (
	"runtime"
	"testing"

	"github.com/bulkhead-dev/sandbox/guest/server/sigs"
)

// TestBlocked holds that a mask is told from none, and ends with Unblock.
func TestBlocked(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if sigs.Blocked(sigs.Stop) {
		t.Fatal("it is blocked before anybody has blocked it")
	}
	if err := sigs.Block(sigs.Stop); err != nil {
		t.Fatal(err)
	}
	if !sigs.Blocked(sigs.Stop) || sigs.Blocked(sigs.Stop+1) {
		t.Error("the mask is not the one that was set")
	}
	if err := sigs.Unblock(sigs.Stop); err != nil || sigs.Blocked(sigs.Stop) {
		t.Errorf("it is still blocked: %v", err)
	}
}
