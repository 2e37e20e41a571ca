package egress

import "time"

// SetHeadTime changes how long a head, a handshake and the first word of a
// tunnel may take; call it before Open.
func (p *Plane) SetHeadTime(d time.Duration) { p.head = d }

// SetQueue changes how many connections of a sandbox wait for their turn, and
// how long; call it before Open.
func (p *Plane) SetQueue(most int, wait time.Duration) { p.waitMost, p.o.QueueTime = most, wait }

// Waiting returns how many requests wait for an answer.
func (w *Way) Waiting() int {
	w.asker.mu.Lock()
	defer w.asker.mu.Unlock()
	n := 0
	for _, in := range w.asker.answers {
		n += in.waiting
	}
	return n
}
