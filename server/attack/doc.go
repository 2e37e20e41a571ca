// Package attack holds tests and nothing else: what a tenant tries on what is
// another's, against the program `sandbox serve` on real sockets and real
// sandboxes. Every attempt has a control, the same thing done by who may, so
// that a refusal is one of the attempt and not of a mistake in it.
package attack
