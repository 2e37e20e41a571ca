//go:build linux

package server

import "github.com/bulkhead-dev/sandbox/guest/wire"

// The port of the guest is a TCP port at which clients reach it with a certificate,
// without an engine between. The program that serves it is built with the tag
// sandbox_guest_tls (port_tls.go): package crypto/tls makes the guest larger by three
// quarters and slower to start by a millisecond, which pays in pods alone.
//
// The guest binds the port before any command runs and holds it until it ends, so no
// command can listen there. The key is made by the guest and lies in its memory
// alone, which no command can read; clients come to know its certificate, and the
// guest theirs, over a connection that the engine has brought (TypeEnroll).

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
