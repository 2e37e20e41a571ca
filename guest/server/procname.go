//go:build linux

// This file names the guest's processes for people who look at a list of them.
// A program that was started through /proc/self/exe, as they are, would be
// called "exe".

package server

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Set names the calling thread. A process is shown under the name of its
// first thread, on which the main goroutine begins: call Set first thing.
// Nothing depends on it, so a kernel that refuses is fine.
func setProcname() {
	name := []byte("sandbox-guest\x00") // the kernel takes at most 15 bytes and the zero
	_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&name[0])), 0, 0, 0)
}
