package egress

import (
	"net"

	"github.com/bulkhead-dev/sandbox/policy/network"
)

// A HostListener is a listener inside that forwards to one host and port: each
// connection is a tunnel to that host without a request for it, for programs
// that do not support proxies. The policy judges it as every other tunnel.
type HostListener struct {
	Listener net.Listener // owned by the Session
	Host     network.Host
	Port     uint16
}

// target returns the destination of the connections of a host listener. They need no
// response.
func (d *HostListener) target() *target {
	return &target{host: d.Host, port: d.Port, protocol: ProtocolHostListener, answer: func(*refusal) {}}
}

// acceptHostListeners accepts the connections of all host listeners until the Session ends.
func (s *Session) acceptHostListeners() {
	for i := range s.o.HostListeners {
		d := &s.o.HostListeners[i]
		s.conns.Go(func() {
			for {
				conn, err := d.Listener.Accept()
				if err == nil {
					s.take(conn, d)
					continue
				}
				if s.ctx.Err() != nil || !passing(err) || !s.pause(acceptPause) {
					return
				}
			}
		})
	}
}

func closeHostListeners(listeners []HostListener) {
	for _, d := range listeners {
		d.Listener.Close()
	}
}
