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

// turnAway tells a connection that there is no room for it, and records that,
// as long as not too many have to be told.
func (w *Way) turnAway(conn net.Conn, why refusal) {
	select {
	case w.turnAways.turn <- struct{}{}:
	default:
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
		w.recordTurnAway(why)
		conn.SetDeadline(time.Now().Add(lingerTime))
		if _, err := conn.Write(why.bytes(true, false)); err == nil {
			linger(conn)
		}
	})
}

// recordTurnAway records what nobody has asked a host for yet, at most once a
// second for the same limit. Nothing was read of the connection, so whose it is
// can be told only where one command runs.
func (w *Way) recordTurnAway(why refusal) {
	caller, t, now := w.callers.only(), &w.turnAways, w.plane.o.Now()
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
