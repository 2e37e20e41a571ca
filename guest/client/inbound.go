package client

import (
	"net"
	"sync"
)

const (
	// maxPassed bounds the open connections of one listener that was handed
	// over.
	maxPassed = 4096
	// inboundFloor is the least number of noted connections at which it is
	// worth while to look which of them were closed.
	inboundFloor = 64
)

// An inbound knows the connections that were accepted at listening sockets of
// the guest, so that they end with the Client. They are what the kernel gave
// us, with nothing around it that would keep two of them from being spliced; so
// no callback reports that one is closed, and inbound looks for closed ones
// when their number has doubled. The zero inbound is ready for use.
type inbound struct {
	mu   sync.Mutex
	over bool
	open map[*net.TCPConn]*passed // and those closed since the last look
	look int                      // the number at which to look
}

// reserve counts one more connection of p, if it may have one.
func (i *inbound) reserve(p *passed) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if p.open >= maxPassed {
		i.sweep()
	}
	if p.open >= maxPassed {
		return false
	}
	p.open++
	return true
}

// release takes back what was reserved.
func (i *inbound) release(p *passed) {
	i.mu.Lock()
	defer i.mu.Unlock()
	p.open--
}

// add notes a connection for which there is a reservation. It reports false
// when the Client has ended.
func (i *inbound) add(p *passed, conn *net.TCPConn) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.over {
		return false
	}
	if len(i.open) >= max(i.look, inboundFloor) {
		i.sweep()
	}
	if i.open == nil {
		i.open = map[*net.TCPConn]*passed{}
	}
	i.open[conn] = p
	return true
}

// sweep forgets what was closed. Precondition: mu is held.
func (i *inbound) sweep() {
	for conn, p := range i.open {
		if isClosed(conn) {
			delete(i.open, conn)
			p.open--
		}
	}
	i.look = 2 * len(i.open)
}

func isClosed(conn *net.TCPConn) bool {
	raw, err := conn.SyscallConn()
	return err != nil || raw.Control(func(uintptr) {}) != nil
}

// end breaks every connection, and those that are still to come.
func (i *inbound) end() {
	i.mu.Lock()
	i.over = true
	open := i.open
	i.open = nil
	i.mu.Unlock()
	for conn := range open {
		breakOff(conn)
	}
}

// breakOff closes a connection so that its other end does not take what came
// for all there is.
func breakOff(conn *net.TCPConn) {
	_ = conn.SetLinger(0) // one that was closed already
	conn.Close()
}
