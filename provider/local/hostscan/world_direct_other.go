//go:build !linux

package hostscan

// direct reports whether path exists and no part of it is a link; it is never
// known here.
func direct(string) bool { return false }
