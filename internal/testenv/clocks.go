// This file has the clocks of a machine for tests: the wall clock, which can be
// set, and the time since the machine was started, which cannot.

package testenv

import (
	"strconv"
	"sync"
	"time"
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
// the first time does so long ago: a clock that was [Machine.Seen] is believed.
func New(wall time.Time) *Machine { return &Machine{wall: wall.Round(0), up: 1000 * time.Hour} }

// Pass lets time go by.
func (m *Machine) Pass(d time.Duration) { m.move(d, d, 0) }

// Set sets the wall clock by d ahead or back.
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

// Now returns the time of the wall clock.
func (m *Machine) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.wall
}

// Up is what a past.Source wants.
func (m *Machine) Up() (string, time.Duration, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strconv.Itoa(m.boots), m.up, nil
}

// Source returns both clocks; it is assignable to a past.Source.
func (m *Machine) Source() struct {
	Wall func() time.Time
	Up   func() (boot string, up time.Duration, err error)
} {
	return struct {
		Wall func() time.Time
		Up   func() (boot string, up time.Duration, err error)
	}{m.Now, m.Up}
}

// Seen has a clock look at m for the first time, step before now, so that it
// believes m from now on: the step is how long a past.Clock waits for that.
func (m *Machine) Seen(c interface {
	Advance(least time.Duration) (time.Time, error)
}, step time.Duration) error {
	m.move(-step, -step, 0)
	defer m.move(step, step, 0)
	_, err := c.Advance(0)
	return err
}
