//go:build linux

package server

import (
	"os"

	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

// The port of the guest is a TCP port at which clients reach it with a certificate,
// without an engine between. The program that serves it is built with the tag
// sandbox_guest_tls (port_tls.go): package crypto/tls makes the guest larger by three
// quarters and slower to start by a millisecond, which pays in pods alone.
//
// The guest binds the port before any command runs and holds it until it ends, so no
// command can listen there. The key is made by the guest and lies in its memory
// alone, which no command can read; clients come to know its certificate, and the
// guest theirs, over a connection that the engine has brought (TypeEnroll).

// portBacklog is how many connections the kernel keeps for the port.
const portBacklog = 512

// bindPort returns a socket that listens at a TCP port of all addresses.
func bindPort(port uint16) (*os.File, error) {
	open := func(family int, at unix.Sockaddr) (*os.File, error) {
		fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return nil, os.NewSyscallError("socket", err)
		}
		// The kernel gives the port of a socket that listens to no other, without
		// SO_REUSEPORT. SO_REUSEADDR is for the connections of a guest that ran
		// here before and was ended.
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
		if err == nil && family == unix.AF_INET6 {
			err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0)
		}
		if err == nil {
			err = unix.Bind(fd, at)
		}
		if err == nil {
			err = unix.Listen(fd, portBacklog)
		}
		if err != nil {
			unix.Close(fd)
			return nil, os.NewSyscallError("listen", err)
		}
		return os.NewFile(uintptr(fd), "port"), nil
	}
	f, err := open(unix.AF_INET6, &unix.SockaddrInet6{Port: int(port)})
	if err != nil { // there is no IPv6 here
		f, err = open(unix.AF_INET, &unix.SockaddrInet4{Port: int(port)})
	}
	return f, err
}

// enroll handles a request of a client to be let in at the port.
func (c *conn) enroll(f wire.Frame) error {
	m, err := wire.DecodeEnroll(f.Payload)
	if err != nil {
		return err
	}
	if c.srv.port == nil {
		return c.refuse(f.Stream, wire.KindUnsupported, "the guest has no port")
	}
	if c.byPort {
		return c.refuse(f.Stream, wire.KindUnsupported, "clients are let in by the engine alone")
	}
	answer, err := c.srv.port.enroll(m)
	if err != nil {
		return c.refuse(f.Stream, wire.KindInvalid, err.Error())
	}
	return c.w.Write(wire.Frame{Type: wire.TypeEnrolled, Stream: f.Stream, Payload: answer.Encode()})
}
