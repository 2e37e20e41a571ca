package operation

import "time"

// Patient has every host and proxy end its connections by itself, and none is
// cut off because the machine is busy.
func (e *fetchExecutor) Patient() *fetchExecutor {
	e.drainTime = time.Minute
	return e
}
