// Attack: this part of the package contains only tests: what a tenant tries against the data of
// another, against the program `sandbox serve` on real sockets and real
// sandboxes. Every attempt has a control, the same request by a caller that has
// the right to it, so that a refusal is due to the attempt and not to a mistake
// in it.

package server
