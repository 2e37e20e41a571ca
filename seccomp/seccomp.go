// Package seccomp holds our system-call filter for containers: the engine's
// own default profile for a process without capabilities, minus io_uring,
// AF_VSOCK and every other rare socket family, ptrace and its relatives,
// the kernel keyring, mounting, and namespaces, for the native architecture
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

// Profile returns the filter in the JSON form that container engines take.
func Profile() string { return profile }
