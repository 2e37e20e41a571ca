// Attack: this part of the package tests hostile conversations with a running proxy of package
// egress, with servers and a resolver of the tests: the bytes sent, the
// expected response, and the hosts that must not be reached. The package
// contains tests only.

package attack
