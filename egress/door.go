package egress

import (
	"net"

	"github.com/bulkhead-dev/sandbox/policy/network"
)

// A Door is a listener inside that forwards to one host and port: each
// connection is a tunnel to that host without a request for it, for programs
// that do not support proxies. The policy judges it as every other tunnel.
type Door struct {
	Listener net.Listener // owned by the Way
	Host     network.Host
	Port     uint16
}

// target returns the destination of a door's connections. They need no
// response.
func (d *Door) target() *target {
	return &target{host: d.Host, port: d.Port, protocol: ProtocolDoor, answer: func(*refusal) {}}
}

// attendDoors accepts the connections of all doors until the Way ends.
func (w *Way) attendDoors() {
	for i := range w.o.Doors {
		d := &w.o.Doors[i]
		w.conns.Go(func() {
			for {
				conn, err := d.Listener.Accept()
				if err == nil {
					w.take(conn, d)
					continue
				}
				if w.ctx.Err() != nil || !passing(err) || !w.pause(acceptPause) {
					return
				}
			}
		})
	}
}

func closeDoors(doors []Door) {
	for _, d := range doors {
		d.Listener.Close()
	}
}
