// Package secret lets programs in a sandbox use credentials without seeing
// them. A secret is bound to hosts. Inside, its variable holds a stand-in, a
// random text; the proxy replaces the stand-in with the value in the headers
// of requests to those hosts, and the value with the stand-in in their
// responses.
//
// Values come from the orchestrator's environment, a file or a command, and
// cannot be written in a binding. If a value cannot be read, the request is
// refused.
//
// The package does not detect a value that the host transforms before it
// returns it (encrypted, reversed, base64 broken into lines, in another case).
// It inserts no values in the body or the URL of a request.
package secret
