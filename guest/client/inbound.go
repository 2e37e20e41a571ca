package client

import (
	"net"
	"sync"
)

const (
	// maxPassed bounds the open connections of one listener that was handed
	// over, and maxDialled those that a client has dialled and that were handed
	// over. They cost the guest nothing, and us a descriptor each.
	maxPassed, maxDialled = 4096, 16384
	// inboundFloor is the least number of noted connections at which it is
	// worth while to look which of them were closed.
	inboundFloor = 64
)

// A share is how many connections a listener, or all dialling, may have open.
// It is guarded by the client's inbound.
type share struct{ open, most int }

// An inbound knows the connections whose sockets were handed over, or accepted at
// one that was, so that they end with the Client. They are what the kernel gave
// us, with nothing around it that would keep two of them from being spliced; so
// no callback reports that one is closed, and inbound looks for closed ones
// when their number has doubled. The zero inbound is ready for use.
type inbound struct {
	mu   sync.Mutex
	over bool
	open map[*net.TCPConn]*share // and those closed since the last look
	look int                     // the number at which to look
}

// reserve counts one more connection of p, if it may have one.
func (i *inbound) reserve(p *share) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if p.open >= p.most {
		i.sweep()
	}
	if p.open >= p.most {
		return false
	}
	p.open++
	return true
}

// release takes back what was reserved.
func (i *inbound) release(p *share) {
	i.mu.Lock()
	defer i.mu.Unlock()
	p.open--
}

// add notes a connection for which there is a reservation. It reports false
// when the Client has ended.
func (i *inbound) add(p *share, conn *net.TCPConn) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.over {
		return false
	}
	if len(i.open) >= max(i.look, inboundFloor) {
		i.sweep()
	}
	if i.open == nil {
		i.open = map[*net.TCPConn]*share{}
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

// endOf breaks the connections of p.
func (i *inbound) endOf(p *share) {
	i.mu.Lock()
	var open []*net.TCPConn
	for conn, of := range i.open {
		if of == p {
			open = append(open, conn)
			delete(i.open, conn)
			p.open--
		}
	}
	i.mu.Unlock()
	for _, conn := range open {
		breakOff(conn)
	}
}

// breakOff closes a connection so that its other end does not take what came
// for all there is.
func breakOff(conn *net.TCPConn) {
	_ = conn.SetLinger(0) // one that was closed already
	conn.Close()
}
