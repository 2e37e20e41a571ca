package egress

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// refusedConns holds the refusal of connections beyond the limits.
type refusedConns struct {
	turn chan struct{} // semaphore for concurrent refusals

	mu     sync.Mutex
	last   time.Time // time of the last record
	rule   string    // rule of the last record
	caller string    // command of the last record
}

// refuseConn refuses a connection for lack of room, in its own protocol, and
// records that. If too many refusals are being sent, it waits.
func (s *Session) refuseConn(conn net.Conn, listener *HostListener, why refusal) {
	s.plane.counts.refusedConns.Add(1)
	if listener != nil { // programs at a host listener expect no response from the proxy
		conn.Close()
		s.recordRefusedConn(why, s.callers.only())
		return
	}
	select {
	case s.refusedConns.turn <- struct{}{}:
	case <-s.ctx.Done():
		conn.Close()
		return
	}
	s.conns.Go(func() {
		stop := context.AfterFunc(s.ctx, func() { conn.Close() })
		defer func() {
			stop()
			conn.Close()
			<-s.refusedConns.turn
		}()
		spoken, caller := s.overhear(conn)
		s.recordRefusedConn(why, caller)
		conn.SetDeadline(time.Now().Add(lingerTime))
		answer := why.bytes(true, false)
		if spoken == ProtocolSOCKS5 {
			answer = []byte{socksProtocol, noMethod}
		}
		if _, err := conn.Write(answer); err == nil {
			linger(conn)
		}
	})
}

// noMethod is the SOCKS5 reply that no authentication method is acceptable,
// the only possible refusal before the request.
const noMethod = 0xff

// overhear reads the first bytes of a connection, with a time limit, and
// returns its protocol and the command named by its credentials, or the only
// registered command if it has none.
func (s *Session) overhear(conn net.Conn) (p Protocol, caller string) {
	p, caller = ProtocolHTTP, s.callers.only()
	bottom := &counted{Conn: conn, meter: s.meter, free: true}
	bottom.within(lingerTime)
	l := newLine(bottom, bottom)
	first, err := l.br.Peek(1)
	if err != nil {
		return p, caller
	}
	if first[0] == socksProtocol {
		return ProtocolSOCKS5, caller
	}
	h, err := l.head()
	if err != nil {
		return p, caller
	}
	if req, err := readRequest(l, h); err == nil {
		if id := s.callers.basic(req.Header.Get("Proxy-Authorization")); id != "" {
			caller = id
		}
	}
	return p, caller
}

// recordRefusedConn records a connection without room, at most once a second for
// the same limit and command.
func (s *Session) recordRefusedConn(why refusal, caller string) {
	t, now := &s.refusedConns, s.plane.o.Now()
	t.mu.Lock()
	again := t.rule == why.rule && t.caller == caller && now.Sub(t.last) < time.Second
	if !again {
		t.rule, t.caller, t.last = why.rule, caller, now
	}
	t.mu.Unlock()
	if again {
		return
	}
	v := s.newAccess(caller, ProtocolHTTP, "", "", 0, "")
	v.decide(network.Decision{Verdict: policy.Deny, Rule: why.rule, Message: why.message, Hint: why.hint})
}
