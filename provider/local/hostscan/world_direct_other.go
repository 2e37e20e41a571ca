//go:build !linux

package hostscan

// direct reports whether path exists and no part of it is a link. On this
// platform it always returns false.
func direct(string) bool { return false }
