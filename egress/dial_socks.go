package egress

import (
	"io"
	"net"
	"net/netip"
	"strconv"
)

// Numbers of SOCKS5 (RFC 1928, RFC 1929).
const (
	socksVersion  = 5
	socksNoLogin  = 0
	socksLogin    = 2
	socksConnect  = 1
	socksIPv4     = 1
	socksName     = 3
	socksIPv6     = 4
	loginVersion  = 1
	socksGranted  = 0
	socksNoAccept = 0xff
)

// socks has a SOCKS5 proxy connect to the address.
func (p *upstreamProxy) socks(conn net.Conn, to netip.AddrPort) error {
	if err := p.socksGreet(conn); err != nil {
		return err
	}
	ask := []byte{socksVersion, socksConnect, 0, socksIPv6}
	if to.Addr().Is4() {
		ask[3] = socksIPv4
	}
	ask = append(append(ask, to.Addr().AsSlice()...), byte(to.Port()>>8), byte(to.Port()))
	answer := make([]byte, 4)
	if err := proxyExchange(conn, ask, answer); err != nil {
		return err
	}
	switch {
	case answer[0] != socksVersion:
		return &proxyError{why: "does not speak SOCKS5"}
	case answer[1] != socksGranted:
		return &proxyError{why: "refused with reply " + strconv.Itoa(int(answer[1]))}
	}
	return skipBound(conn, answer[3])
}

// socksGreet negotiates the authentication method, and authenticates.
func (p *upstreamProxy) socksGreet(conn net.Conn) error {
	method := byte(socksNoLogin)
	if p.login {
		method = socksLogin
	}
	answer := make([]byte, 2)
	if err := proxyExchange(conn, []byte{socksVersion, 1, method}, answer); err != nil {
		return err
	}
	switch {
	case answer[0] != socksVersion:
		return &proxyError{why: "does not speak SOCKS5"}
	case answer[1] == socksNoAccept:
		return &proxyError{why: "wants other credentials"}
	case answer[1] != method:
		return &proxyError{why: "wants a login that was not offered"}
	case !p.login:
		return nil
	}
	ask := append([]byte{loginVersion, byte(len(p.user))}, p.user...)
	ask = append(append(ask, byte(len(p.pass))), p.pass...)
	if err := proxyExchange(conn, ask, answer); err != nil {
		return err
	}
	if answer[0] != loginVersion || answer[1] != socksGranted {
		return &proxyError{why: "wants other credentials"}
	}
	return nil
}

// skipBound skips the address at the end of the reply, which is not needed.
func skipBound(conn net.Conn, kind byte) error {
	n := 0
	switch kind {
	case socksIPv4:
		n = 4
	case socksIPv6:
		n = 16
	case socksName:
		var length [1]byte
		if _, err := io.ReadFull(conn, length[:]); err != nil {
			return brokeOff(err)
		}
		n = int(length[0])
	default:
		return &proxyError{why: "does not speak SOCKS5"}
	}
	if _, err := io.ReadFull(conn, make([]byte, n+2)); err != nil {
		return brokeOff(err)
	}
	return nil
}

func proxyExchange(conn net.Conn, ask, answer []byte) error {
	if _, err := conn.Write(ask); err != nil {
		return brokeOff(err)
	}
	if _, err := io.ReadFull(conn, answer); err != nil {
		return brokeOff(err)
	}
	return nil
}

func brokeOff(err error) error { return &proxyError{"ended the connection instead of answering", err} }
