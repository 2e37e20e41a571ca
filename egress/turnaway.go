package egress

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// turnAways are the connections that limits leave no room for.
type turnAways struct {
	turn chan struct{} // holds those that are told

	mu     sync.Mutex
	last   time.Time // when one was recorded
	rule   string    // by which
	caller string    // of which command
}

// turnAway tells a connection that there is no room for it, in what it speaks,
// and records that. While too many are told so, it waits.
func (w *Way) turnAway(conn net.Conn, door *Door, why refusal) {
	w.plane.counts.turnedAway.Add(1)
	if door != nil { // whose programs take no answer of ours for one
		conn.Close()
		w.recordTurnAway(why, w.callers.only())
		return
	}
	select {
	case w.turnAways.turn <- struct{}{}:
	case <-w.ctx.Done():
		conn.Close()
		return
	}
	w.conns.Go(func() {
		stop := context.AfterFunc(w.ctx, func() { conn.Close() })
		defer func() {
			stop()
			conn.Close()
			<-w.turnAways.turn
		}()
		spoken, caller := w.overhear(conn)
		w.recordTurnAway(why, caller)
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

// noMethod is the answer of SOCKS5 that no way to authenticate will do, the
// only refusal there is before the request.
const noMethod = 0xff

// overhear reads the beginning of what a connection says, which is not waited
// for longer than its answer, and returns in what it speaks and the command
// whose credentials it has: the only one there is when it has none.
func (w *Way) overhear(conn net.Conn) (p Protocol, caller string) {
	p, caller = ProtocolHTTP, w.callers.only()
	bottom := &counted{Conn: conn, meter: w.meter, free: true}
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
		if id := w.callers.basic(req.Header.Get("Proxy-Authorization")); id != "" {
			caller = id
		}
	}
	return p, caller
}

// recordTurnAway records that a connection had no room, at most once a second
// for the same limit and command.
func (w *Way) recordTurnAway(why refusal, caller string) {
	t, now := &w.turnAways, w.plane.o.Now()
	t.mu.Lock()
	again := t.rule == why.rule && t.caller == caller && now.Sub(t.last) < time.Second
	if !again {
		t.rule, t.caller, t.last = why.rule, caller, now
	}
	t.mu.Unlock()
	if again {
		return
	}
	v := w.visit(caller, ProtocolHTTP, "", "", 0, "")
	v.decide(network.Decision{Verdict: policy.Deny, Rule: why.rule, Message: why.message, Hint: why.hint})
}
