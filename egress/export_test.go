package egress

import "time"

// SetHeadTime changes how long a head, a handshake and the first word of a
// tunnel may take; call it before Open.
func (p *Plane) SetHeadTime(d time.Duration) { p.head = d }
