package egress

import "time"

// SetHeadTime sets how long a head, a handshake and the first bytes of a
// tunnel may take; call it before Open.
func (p *Plane) SetHeadTime(d time.Duration) { p.head = d }

// SetQueue sets how many connections of a sandbox may be queued, and how long;
// call it before Open.
func (p *Plane) SetQueue(most int, wait time.Duration) { p.waitMost, p.o.QueueTime = most, wait }

// Waiting returns how many requests wait for an approval.
func (s *Session) Waiting() int {
	s.asker.mu.Lock()
	defer s.asker.mu.Unlock()
	n := 0
	for _, in := range s.asker.answers {
		n += in.waiting
	}
	return n
}
