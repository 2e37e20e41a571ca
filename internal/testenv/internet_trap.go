package testenv

import (
	"net"
	"strings"
	"sync/atomic"
	"testing"
)

// A Trap listens where no client may ever connect, and counts the connections.
type Trap struct {
	l    net.Listener
	hits atomic.Int64
}

// NewTrap sets a trap at a free port of an address of this machine. The test
// fails at its end if a client has connected. It returns nil where there is no
// such address, which for "::1" is not unusual.
func NewTrap(t testing.TB, address string) *Trap {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil && strings.Contains(address, ":") {
		return nil
	}
	must(t, err)
	p := &Trap{l: l}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.hits.Add(1)
			c.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
		if n := p.hits.Load(); n != 0 {
			t.Errorf("%d connections reached the trap at %v", n, l.Addr())
		}
	})
	return p
}

// At returns "address:port".
func (p *Trap) At() string { return p.l.Addr().String() }

// Port returns the port alone.
func (p *Trap) Port() int { return p.l.Addr().(*net.TCPAddr).Port }

// Hits returns how many connections came so far.
func (p *Trap) Hits() int { return int(p.hits.Load()) }
