// This file documents the certificate authority of a state folder. It lets the
// proxy read requests of programs inside to hosts to which a secret is bound,
// and no other requests: only sandboxes with its folder of public certificates
// trust it.
//
// The key is generated once and stored in one file of mode 0600; a copy exists
// only in the memory of this process. A file that cannot be used is an error
// and is never replaced silently, because sandboxes may trust the lost
// authority. Before the certificate expires it is renewed with the same key
// and the same name, so that programs that trust the old one accept
// certificates issued under the new one.
//
// Several processes can share one folder at the same time.

package egress
