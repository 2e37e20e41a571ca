package egress

import (
	"net"

	"github.com/bulkhead-dev/sandbox/policy/network"
)

// A Door is a listener inside that stands for one host and port: what programs
// say there is a tunnel that they need not ask for, so that those reach the
// host which know of no proxy. The policy judges it as every other tunnel.
type Door struct {
	Listener net.Listener // owned by the Way
	Host     network.Host
	Port     uint16
}

// target is where the connections of a door lead. There is nothing to answer.
func (d *Door) target() *target {
	return &target{host: d.Host, port: d.Port, protocol: ProtocolDoor, answer: func(*refusal) {}}
}

// attendDoors takes the connections of all doors until the Way ends.
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
