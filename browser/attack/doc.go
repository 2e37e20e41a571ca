// Package attack holds hostile attempts against real browsers behind the real
// bridge, manager and proxy: requests without the token, pages that reach for
// loopback, addresses that nobody may open, downloads, extensions, links out of
// the workspace, displays without a password, and one scope's things in
// another. Each has a control that shows the same thing succeed where it is
// allowed. It has tests and nothing else.
package attack
