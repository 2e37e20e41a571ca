// Package seccomp holds the system-call filters of sandboxes.
//
// The container profile is the engine's default profile for a process without
// capabilities, minus io_uring, AF_VSOCK and all other rare socket families,
// the kernel keyring, mounting and namespaces, for the native architecture
// only. rules_test.go gives the reason for each removal. "go generate"
// generates the profile from the public default profile of the Moby project
// (module github.com/moby/profiles/seccomp); the result is kept in the
// repository so that reviews show its changes.
//
// The bpf files compile the filters for sandboxes without an engine.
package seccomp

import _ "embed"

//go:generate go test -run TestProfile -update .

//go:embed profile.json
var profile string

//go:embed browser.json
var browser string

//go:embed profile.canonical.json
var canonicalProfile string

//go:embed browser.canonical.json
var canonicalBrowser string

// Profile returns the container filter in the JSON form that container engines
// take.
func Profile() string { return profile }

// Browser returns the filter for browser containers: [Profile] plus the calls
// that Chromium's own sandbox needs, minus the calls of debuggers.
//
// This is a trade-off. Chromium's sandbox confines code that has taken over a
// renderer process more tightly than the container does: no files, no network,
// few system calls. Code that escapes from it, or that starts in the container
// by other means, can create user namespaces and so reach kernel code that
// [Profile] closes; it still cannot mount anything or enter a namespace.
// Without namespaces, every page would run beside the browser and with the
// browser's rights.
func Browser() string { return browser }

// Builtin reports whether p is one of the profiles of this package, byte for
// byte.
func Builtin(p string) bool { return p == profile || p == browser }

// Canonical returns a built-in profile as JSON with sorted keys and without
// space, the form that is hashed. It returns false for any other profile. The
// form is stored beside the profile because producing it takes a large part of
// the time of a hash.
func Canonical(p string) (string, bool) {
	switch p {
	case profile:
		return canonicalProfile, true
	case browser:
		return canonicalBrowser, true
	}
	return "", false
}
