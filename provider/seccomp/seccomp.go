// Package seccomp holds our system-call filter for containers: the engine's
// own default profile for a process without capabilities, minus io_uring,
// AF_VSOCK and every other rare socket family, the kernel keyring, mounting, and namespaces, for the native architecture
// only. The reason for each removal stands in rules.go.
//
// The profile is generated from the public default profile of the Moby
// project (module github.com/moby/profiles/seccomp) with "go generate" and
// kept beside the code, so that a change of it is seen in review.
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

// Profile returns the filter in the JSON form that container engines take.
func Profile() string { return profile }

// Browser returns the filter for containers of browsers: [Profile] and what
// Chromium's own sandbox is made of, without the calls of debuggers.
//
// It is a trade. Code that has taken over a process of a page is held by that
// sandbox, which is tighter than the container: no files, no network, few
// system calls. Code that has come past it, or that is started in the
// container by other means, may make user namespaces and so reach kernel code
// that [Profile] keeps it from; it still can mount nothing and enter no
// namespace. Without own namespaces every page would run beside the browser
// with its rights.
func Browser() string { return browser }

// Builtin reports whether a profile is one of ours, byte for byte.
func Builtin(p string) bool { return p == profile || p == browser }

// Canonical returns a profile of ours as JSON with sorted keys and without
// space, which a hash is taken over; false for one that is not ours. It is kept
// beside the profile because to write it takes a good part of a hash's time.
func Canonical(p string) (string, bool) {
	switch p {
	case profile:
		return canonicalProfile, true
	case browser:
		return canonicalBrowser, true
	}
	return "", false
}
