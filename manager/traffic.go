package manager

import (
	"sync"

	"github.com/bulkhead-dev/sandbox/egress/proxy"
)

// mostTraffic bounds the sandboxes whose bytes are remembered while they have no
// egress session.
const mostTraffic = 4096

// A traffic counts the bytes that commands in sandboxes have exchanged with hosts
// through egress sessions of this process. A sandbox that reaches hosts through the
// proxy alone has no interface that would count them. It is safe for concurrent use.
type traffic struct {
	mu   sync.Mutex
	open map[*egressSession]string // the key of the sandbox, see trafficKey
	past map[string]crossed        // of sessions that have ended
}

// crossed are bytes into and out of a sandbox.
type crossed struct{ in, out int64 }

func (c *crossed) add(w proxy.Session) {
	in, out := w.Traffic()
	c.in += in
	c.out += out
}

// trafficKey identifies a sandbox: a session has one of each provider, with the same
// name.
func trafficKey(provider, name string) string { return provider + "/" + name }

func (t *traffic) enter(w *egressSession, key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open == nil {
		t.open, t.past = map[*egressSession]string{}, map[string]crossed{}
	}
	t.open[w] = key
}

// leave keeps what a session that has ended has counted.
func (t *traffic) leave(w *egressSession) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key, ok := t.open[w]
	if !ok {
		return
	}
	delete(t.open, w)
	sum, known := t.past[key]
	if sum.add(w.Session); sum == (crossed{}) {
		return
	}
	if !known && len(t.past) >= mostTraffic {
		for other := range t.past { // any: figures of a sandbox may begin again at 0
			delete(t.past, other)
			break
		}
	}
	t.past[key] = sum
}

// of returns the bytes of a sandbox.
func (t *traffic) of(key string) crossed {
	t.mu.Lock()
	defer t.mu.Unlock()
	sum := t.past[key]
	for w, k := range t.open {
		if k == key {
			sum.add(w.Session)
		}
	}
	return sum
}
