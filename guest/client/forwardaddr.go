package client

import (
	"errors"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"syscall"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// maxSocketPath is the longest path of a Unix socket on Linux.
const maxSocketPath = 107

// parseEndpoints returns what addr stands for in network: one endpoint, or
// two for "localhost". It resolves nothing.
func parseEndpoints(op, network, addr string) ([]wire.Endpoint, error) {
	bad := func(field, message string) ([]wire.Endpoint, error) {
		return nil, &sandbox.Error{Code: sandbox.CodeValidation, Op: op, Field: field, Message: message}
	}
	switch network {
	case "unix":
		if !strings.HasPrefix(addr, "/") || len(addr) > maxSocketPath || strings.Contains(addr, "\x00") {
			return bad("addr", "a Unix socket is an absolute path of at most "+strconv.Itoa(maxSocketPath)+" bytes, not "+wire.Quote(addr))
		}
		return []wire.Endpoint{{Family: wire.FamilyUnix, Host: addr}}, nil
	case "tcp", "tcp4", "tcp6":
	default:
		return bad("network", wire.Quote(network)+" is not one of tcp, tcp4, tcp6 and unix")
	}
	host, service, err := net.SplitHostPort(addr)
	if err != nil {
		return bad("addr", wire.Quote(addr)+" is not an address and a port, such as 127.0.0.1:8080")
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil || op == "dial" && port == 0 {
		return bad("addr", wire.Quote(service)+" is not the number of a port")
	}
	hosts := []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
	if host != "localhost" {
		ip, err := netip.ParseAddr(host)
		if err != nil || ip.Zone() != "" {
			return bad("addr", wire.Quote(host)+" is not an IP address: names are not resolved for a sandbox")
		}
		hosts = []netip.Addr{ip.Unmap()}
	}
	var list []wire.Endpoint
	for _, ip := range hosts {
		if ip.Is4() && network != "tcp6" {
			list = append(list, wire.Endpoint{Family: wire.FamilyIPv4, Port: uint16(port), Host: string(ip.AsSlice())})
		}
		if ip.Is6() && network != "tcp4" {
			list = append(list, wire.Endpoint{Family: wire.FamilyIPv6, Port: uint16(port), Host: string(ip.AsSlice())})
		}
	}
	if len(list) == 0 {
		return bad("addr", wire.Quote(host)+" is no address of "+network)
	}
	return list, nil
}

// address makes an endpoint that the guest named an address of package net.
func address(e wire.Endpoint) net.Addr {
	if e.Family == wire.FamilyUnix {
		return &net.UnixAddr{Net: "unix", Name: e.Host}
	}
	return &net.TCPAddr{IP: net.IP(e.Host), Port: int(e.Port)}
}

func networkOf(f wire.Family) string {
	if f == wire.FamilyUnix {
		return "unix"
	}
	return "tcp"
}

// What a socket inside can fail with, as errors.Is knows it here.
const (
	errRefused  = syscall.ECONNREFUSED
	errTimedOut = syscall.ETIMEDOUT
	errReset    = syscall.ECONNRESET
	errInUse    = syscall.EADDRINUSE
)

// linuxErrors translates the numbers of Linux, which the guest always runs
// on, into the errors of the system that this program runs on.
func linuxErrors(errno uint32) error {
	switch errno {
	case 1:
		return syscall.EPERM
	case 2:
		return syscall.ENOENT
	case 13:
		return syscall.EACCES
	case 22:
		return syscall.EINVAL
	case 32:
		return syscall.EPIPE
	case 97:
		return syscall.EAFNOSUPPORT
	case 98:
		return errInUse
	case 99:
		return syscall.EADDRNOTAVAIL
	case 101:
		return syscall.ENETUNREACH
	case 104:
		return errReset
	case 110:
		return errTimedOut
	case 111:
		return errRefused
	case 113:
		return syscall.EHOSTUNREACH
	}
	return nil
}

// socketError is the failure of a socket inside.
func socketError(m wire.Failed) error {
	if err := linuxErrors(m.Errno); err != nil {
		return err
	}
	return errors.New(wire.Quote(m.Text))
}
