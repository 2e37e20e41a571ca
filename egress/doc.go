// Package egress is the egress proxy, the only route to the network for a
// sandbox without one: a single proxy in the orchestrator's process, with a
// policy for each sandbox.
//
// A [Plane] holds the egress sessions, each a [Session] that serves a listener
// inside a sandbox. On its one port programs speak HTTP, CONNECT or SOCKS5,
// and all their input is treated as hostile: heads are parsed strictly, and
// input that two parsers could read differently is refused. A host is made
// canonical once; that value is judged, recorded and dialled. Each request of
// a connection is decided separately, and redirects are returned to the
// program, whose next request is a new decision.
//
// In a tunnel the program's first bytes determine the protocol. TLS has to
// name the host of the tunnel. Plain HTTP is parsed as on the proxy's port.
// Any other protocol, and every protocol in which the server speaks first,
// needs a rule for raw bytes. TLS is terminated by the proxy for hosts to
// which a secret is bound, and for no others: requests get the secret,
// responses lose it.
//
// The proxy cannot see requests within TLS that it does not terminate. Another
// site on the same server as an allowed host can be reached through that host
// (domain fronting), with another Host inside the TLS or another name in an
// encrypted hello. Likewise the content of raw bytes and websockets is not
// inspected.
package egress
