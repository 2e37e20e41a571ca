// Package attack holds hostile conversations against a running proxy of
// package egress, with servers and a resolver of the tests themselves: what is
// sent, what has to come back, and who must not be reached by it. It has tests
// and nothing else.
package attack
