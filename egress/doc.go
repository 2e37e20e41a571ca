// Package egress is the only way out of a sandbox without a network: one proxy
// in the orchestrator's process, with a policy for each sandbox.
//
// A [Plane] holds the proxies, each a [Way] that serves a listener inside a
// sandbox. On its one port programs speak HTTP, CONNECT or SOCKS5, and
// everything they say is taken for hostile: heads are read strictly (package
// request), and what one program could read in another way than the next is
// refused. A host is made canonical once; that value is judged, recorded and
// dialled. Each request of a connection is decided by itself, and redirects are
// handed to the program, whose next request is a new decision.
//
// In a tunnel the program's first bytes tell the protocol. TLS has to name the
// host of the tunnel. Plain HTTP is read like that on the proxy's port.
// Anything else, and every host that speaks first, needs a rule for raw bytes.
// The TLS of hosts to which a secret is bound, and of no others, is ended here:
// requests get the secret, answers lose it.
//
// What a decision does not see: the request within TLS that is not ended here.
// Who shares a server with an allowed host can be reached through it (domain
// fronting), with another Host inside the TLS or another name in an encrypted
// hello. Likewise nothing is known of what raw bytes and websockets carry.
package egress
