package operation

import (
	"context"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// A clock shows the processor time of a program and all that it has started. It
// is read by the meter from before the start until after the end, while others
// run the program.
type clock struct {
	mu      sync.Mutex
	process sandbox.Metered // nil before it runs, and where usage is unknown
}

// watch takes the process that was started, and reports whether it is metered.
func (c *clock) watch(p sandbox.Process) bool {
	m, ok := p.(sandbox.Metered)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.process = m
	return ok
}

// used is the time so far. It takes 15 seconds at most, see [sandbox.Metered].
func (c *clock) used() (time.Duration, error) {
	c.mu.Lock()
	p := c.process
	c.mu.Unlock()
	if p == nil {
		return 0, nil
	}
	u, err := p.Used(context.Background())
	return u.User + u.System, err
}
