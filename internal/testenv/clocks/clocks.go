// Package clocks has the clocks of a machine for tests: one on the wall, which
// can be set, and the time since the machine was started, which cannot.
package clocks

import (
	"strconv"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox/statedir/past"
)

// A Machine has clocks that stand until they are moved. It is safe for
// concurrent use.
type Machine struct {
	mu    sync.Mutex
	wall  time.Time
	up    time.Duration
	boots int
}

// New returns a machine on which it is that time. Who looks at its clocks for
// the first time does so long ago: a clock that was [Seen] is believed.
func New(wall time.Time) *Machine { return &Machine{wall: wall.Round(0), up: 1000 * time.Hour} }

// Pass lets time go by.
func (m *Machine) Pass(d time.Duration) { m.move(d, d, 0) }

// Set sets the clock on the wall, by d ahead or back.
func (m *Machine) Set(d time.Duration) { m.move(d, 0, 0) }

// Reboot starts the machine anew; it was off for d.
func (m *Machine) Reboot(d time.Duration) { m.move(d, 0, 1) }

func (m *Machine) move(wall, up time.Duration, boots int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wall, m.up, m.boots = m.wall.Add(wall), m.up+up, m.boots+boots
	if boots > 0 {
		m.up = 0
	}
}

// Now is what the clock on the wall says.
func (m *Machine) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.wall
}

// Up is what [past.Source] wants.
func (m *Machine) Up() (string, time.Duration, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strconv.Itoa(m.boots), m.up, nil
}

// Source is both clocks.
func (m *Machine) Source() past.Source { return past.Source{Wall: m.Now, Up: m.Up} }

// Seen returns the clock with the file path, which has been looked at for long
// enough to be believed.
func (m *Machine) Seen(path string) (*past.Clock, error) {
	c := &past.Clock{Path: path, Source: m.Source()}
	m.move(-past.AfterStep, -past.AfterStep, 0)
	defer m.move(past.AfterStep, past.AfterStep, 0)
	_, err := c.Advance(0)
	return c, err
}
