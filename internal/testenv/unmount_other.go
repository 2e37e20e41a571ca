//go:build !linux

package testenv

import "testing"

// UnmountBelow does nothing on a system without overlays.
func UnmountBelow(testing.TB, string) {}

// Unmount does nothing on a system without overlays.
func Unmount(string) error { return nil }
