// This file implements the server handshake of SOCKS5 (RFC 1928 and 1929):
// CONNECT by name, IPv4 or IPv6. User name and password only attribute a
// request and are never checked. BIND and UDP are refused.

package egress

import (
	"errors"
	"fmt"
	"io"
	"net/netip"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// socksProtocol is the first byte of a client.
const socksProtocol = 5

// A socksReply is the code of a reply.
type socksReply byte

// The replies in use.
const (
	socksSucceeded     socksReply = 0
	socksFailed        socksReply = 1 // general failure
	notAllowed         socksReply = 2 // by the rules
	hostUnreachable    socksReply = 4
	commandUnsupported socksReply = 7
	addressUnsupported socksReply = 8
)

// The methods of authentication.
const (
	methodNone     = 0x00
	methodPassword = 0x02
	methodRefused  = 0xff
)

// A socksRequest is the request of a client.
type socksRequest struct {
	User, Password string // empty when the client gave none
	Host           network.Host
	Port           uint16
}

// A socksError is a refused handshake. It can be shown.
type socksError struct {
	Reply  socksReply
	Asked  bool // the client has sent its request and expects a reply
	Reason string
}

// Error implements error.
func (e *socksError) Error() string { return e.Reason }

// readSocks performs the handshake up to the client's request; the caller
// sends the reply with [answerSocks]. Errors are *socksError or those of the
// connection. It reads no byte beyond the request.
func readSocks(r io.Reader, w io.Writer) (socksRequest, error) {
	var q socksRequest
	if err := greet(r, w, &q); err != nil {
		return q, err
	}
	head, err := take(r, 4)
	switch {
	case err != nil:
		return q, err
	case head[0] != socksProtocol || head[2] != 0:
		return q, &socksError{socksFailed, true, "the SOCKS request is malformed"}
	}
	target, err := address(r, head[3])
	if err != nil {
		return q, err
	}
	port, err := take(r, 2)
	if err != nil {
		return q, err
	}
	if head[1] != 1 {
		return q, &socksError{commandUnsupported, true, "only CONNECT is spoken over SOCKS, neither BIND nor UDP"}
	}
	if q.Port = uint16(port[0])<<8 | uint16(port[1]); q.Port == 0 {
		return q, &socksError{notAllowed, true, "port 0 is none"}
	}
	if q.Host, err = target(); err != nil {
		return q, &socksError{notAllowed, true, reason(err)}
	}
	return q, nil
}

// reason returns the message of policy/network about a host.
func reason(err error) string {
	var e *sandbox.Error
	if errors.As(err, &e) {
		return e.Message
	}
	return "the host is none"
}

// answerSocks sends the reply. It does not reveal the address of the
// connection.
func answerSocks(w io.Writer, code socksReply) error {
	_, err := w.Write([]byte{socksProtocol, byte(code), 0, 1, 0, 0, 0, 0, 0, 0})
	return err
}

// greet negotiates a method and reads the credentials, if any.
func greet(r io.Reader, w io.Writer, q *socksRequest) error {
	head, err := take(r, 2)
	if err != nil {
		return err
	}
	methods, err := take(r, int(head[1]))
	if err != nil {
		return err
	}
	method := byte(methodRefused)
	for _, m := range methods {
		if m == methodPassword || m == methodNone && method == methodRefused {
			method = m
		}
	}
	if head[0] != socksProtocol {
		method = methodRefused
	}
	if _, err := w.Write([]byte{socksProtocol, method}); err != nil {
		return err
	}
	switch method {
	case methodRefused:
		return &socksError{socksFailed, false, "the SOCKS client offers no way that is taken: none, or a user's name and password"}
	case methodPassword:
		return credentials(r, w, q)
	}
	return nil
}

// credentials reads the name and password (RFC 1929). All are accepted: they
// attribute the request and grant no access.
func credentials(r io.Reader, w io.Writer, q *socksRequest) error {
	version, err := take(r, 1)
	if err != nil {
		return err
	}
	if version[0] != 1 {
		return &socksError{socksFailed, false, "the SOCKS client sends malformed credentials"}
	}
	for _, text := range []*string{&q.User, &q.Password} {
		n, err := take(r, 1)
		if err != nil {
			return err
		}
		b, err := take(r, int(n[0]))
		if err != nil {
			return err
		}
		*text = string(b)
	}
	_, err = w.Write([]byte{1, 0})
	return err
}

// address reads an address of the given kind. It returns a function that
// converts it to a host, so that errors are reported only after the request is
// read completely.
func address(r io.Reader, kind byte) (func() (network.Host, error), error) {
	n := 0
	switch kind {
	case 1:
		n = 4
	case 4:
		n = 16
	case 3:
		size, err := take(r, 1)
		if err != nil {
			return nil, err
		}
		n = int(size[0])
	default:
		return nil, &socksError{addressUnsupported, true, fmt.Sprintf("there is no SOCKS address of kind %d", kind)}
	}
	b, err := take(r, n)
	if err != nil {
		return nil, err
	}
	return func() (network.Host, error) {
		if a, ok := netip.AddrFromSlice(b); ok && kind != 3 {
			return network.HostOf(a), nil
		}
		return network.Canonical(string(b))
	}, nil
}

// take reads exactly n bytes.
func take(r io.Reader, n int) ([]byte, error) {
	b := make([]byte, n)
	_, err := io.ReadFull(r, b)
	return b, err
}
