// Package secret lets programs in a sandbox use credentials that they never
// see. A secret is bound to hosts. Inside, its variable holds a stand-in, a
// random text; the proxy puts the value in place of it in the headers of
// requests to those hosts, and the stand-in in place of the value in what they
// answer.
//
// Values come from the orchestrator's environment, a file or a command, and
// cannot be written down in a binding. What cannot be read refuses the request.
//
// What the package does not see: a value that the host changes before it sends
// it back (encrypted, reversed, base64 broken into lines, in another case), and
// secrets in the body or the address of a request, where nothing is put in.
package secret
