//go:build linux && !sandbox_guest_tls

package server

import "github.com/bulkhead-dev/sandbox/guest/wire"

// A port is none: this guest has no TLS.
type port struct{}

func (s *Server) openPort(uint16) error { return nil }

func (*port) enroll(wire.Enroll) (wire.Enrolled, error) { panic("a guest without TLS has no port") }
