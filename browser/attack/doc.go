// Package attack tests hostile attempts against real browsers behind the real
// CDP proxy, manager and egress proxy: requests without the token, pages that
// connect to loopback, addresses that no caller may open, downloads,
// extensions, links out of the workspace, displays without a password, and
// access of one scope to another. Each test has a control that shows the same
// action succeed where it is allowed. The package contains tests only.
package attack
