package main

import (
	"runtime/debug"
	"testing"
	"unsafe"
)

// TestGrow holds that the stack does not move any more once it has grown.
func TestGrow(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection takes back what is not used
	moved := func(first func(int) byte) bool {
		done := make(chan bool)
		go func() { // with a small stack
			var here byte
			first(0)
			before := uintptr(unsafe.Pointer(&here))
			deep(stack / 1024 / 2)
			done <- before != uintptr(unsafe.Pointer(&here))
		}()
		return <-done
	}
	if moved(grow) {
		t.Error("the stack has moved after it had grown")
	}
	if !moved(func(int) byte { return 0 }) {
		t.Error("a stack that has not grown does not move, so this test shows nothing")
	}
}

// deep calls itself n times with more than a kilobyte each.
//
//go:noinline
func deep(n int) byte {
	var room [1024]byte
	if n > 0 {
		room[n] = deep(n - 1)
	}
	return room[n/2]
}
