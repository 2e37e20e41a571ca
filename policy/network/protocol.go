package network

// A Protocol is what goes over a connection, as far as a proxy can tell.
type Protocol string

// The protocols.
const (
	TLS  Protocol = "tls"
	HTTP Protocol = "http" // plain HTTP, which can be read
	Raw  Protocol = "raw"  // anything else
)

// A kind is a set of protocols.
type kind uint8

const (
	kindTLS kind = 1 << iota
	kindHTTP
	kindRaw

	kindWeb = kindTLS | kindHTTP
	kindAny = kindWeb | kindRaw
)

// kindOf returns the set of p alone. What is not known counts as raw bytes,
// which most is needed for.
func kindOf(p Protocol) kind {
	switch p {
	case TLS:
		return kindTLS
	case HTTP:
		return kindHTTP
	}
	return kindRaw
}

// String says the set in words.
func (k kind) String() string {
	switch k {
	case kindTLS:
		return "TLS"
	case kindHTTP:
		return "plain HTTP"
	case kindRaw:
		return "bytes that are neither TLS nor HTTP"
	}
	return "TLS and plain HTTP"
}

// usual reports whether a rule without a port includes this port: the ports of
// the web, and those that need no privilege to listen on. The others belong to
// services such as mail and remote shells, which a rule must name explicitly.
func usual(port uint16) bool { return port == 80 || port == 443 || port >= 1024 }
