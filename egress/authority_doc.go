// Authority: this part of the package is the certificate authority of one state folder. It lets
// the proxy read what programs inside send to hosts to which a secret is
// bound, and nothing else: only sandboxes that are shown its folder of public
// certificates trust it.
//
// The key is made once, is in one file of mode 0600 and never leaves it but
// for the memory of this process. A file that cannot be used is an error and
// is never replaced in silence, because sandboxes may trust what it held.
// Before the certificate expires it is made anew with the same key and the
// same name, so that who trusts the old one trusts what is issued under the
// new one too.
//
// Several processes share one folder at the same time.

package egress
