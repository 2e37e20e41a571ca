//go:build linux

package server

import (
	"runtime"
	"testing"
)

// TestBlocked checks that a mask is distinguished from none, and ends with
// Unblock.
func TestBlocked(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if blockedSigs(Stop) {
		t.Fatal("it is blocked before anybody has blocked it")
	}
	if err := Block(Stop); err != nil {
		t.Fatal(err)
	}
	if !blockedSigs(Stop) || blockedSigs(Stop+1) {
		t.Error("the mask is not the one that was set")
	}
	if err := Unblock(Stop); err != nil || blockedSigs(Stop) {
		t.Errorf("it is still blocked: %v", err)
	}
}
