// This file keeps a time that has certainly passed, for the stores that delete
// what has expired.
//
// One reading of the wall clock is no reason to delete: after a clock that
// jumps ahead and is set right again, revocations, used decisions and spent
// budgets would be gone that still count. So a reading is trusted only when the
// clock has run evenly until then, measured by the time since the machine was
// started: for [AfterBoot] since a program has looked at it first, and for
// [AfterStep] since it was seen to jump. The latest trusted reading is kept,
// and never goes back. A store deletes by it, and refuses by it what it may
// have deleted: a clock that is set back makes nothing valid again that was
// deleted.
//
// The cost is room for what is deleted later. A clock that was ahead for longer
// than these times leaves a time that has not passed yet; until it has, or the
// file is removed, what expires before is refused.

package statedir

import (
	"path/filepath"
	"sync"
	"time"
)

// FileName is what the file is called in a folder that forgets.
const FileName = ".past"

// A Source tells the time in two ways. Functions that are nil are the machine's.
type pastSource struct {
	Wall func() time.Time // the wall clock

	// Up returns the time since the machine was started, which cannot be set,
	// and a name of that start: times are comparable where the names are the
	// same.
	Up func() (boot string, up time.Duration, err error)
}

// A Clock keeps a time that has certainly passed. It is safe for concurrent use,
// also by other processes, and holds nothing open. Its fields stay what they are
// when it is first used.
type Clock struct {
	Path   string // of its file, in a folder that is there; empty keeps it in memory
	Source pastSource

	mu     sync.Mutex
	source pastSource // with nothing missing
	memory state      // where there is no path
}

// In returns the clock of a folder.
func In(dir string) *Clock { return &Clock{Path: filepath.Join(dir, FileName)} }

// Time returns a time that has certainly passed, zero for none that is known.
// It returns an error, [sandbox.CodeUnavailable], if the time cannot be
// determined.
func (c *Clock) Time() (time.Time, error) {
	if c.Path == "" { // a file is replaced as a whole, so a reader takes no lock
		c.mu.Lock()
		defer c.mu.Unlock()
	}
	s, err := c.load()
	return s.time(), Unavailable("tell the time", c.Path, err)
}

// Over reports whether what expires then has certainly expired, so that it may
// have been forgotten. A zero time never does.
func (c *Clock) Over(expires time.Time) (bool, error) {
	t, err := c.Time()
	return !expires.IsZero() && !expires.Round(0).After(t), err
}

// Advance looks at the clocks and returns the time that has certainly passed by
// them, which will survive a loss of power. One that is less than least behind
// is left as it is. Also after an error it can be gone by: it is the one that is
// kept, as on a full disk, or zero.
func (c *Clock) Advance(least time.Duration) (time.Time, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, next, err := c.look(least)
	if err == nil && s != next {
		err = c.locked(func() error { // others look, too: once more, alone
			if s, next, err = c.look(least); err != nil || s == next {
				return err
			}
			if err := c.save(next); err != nil {
				return err
			}
			s = next
			return nil
		})
	}
	return s.time(), Unavailable("move the time on", c.Path, err)
}

// look returns what is kept and what is to be. c.mu is held.
func (c *Clock) look(least time.Duration) (now, next state, err error) {
	if now, err = c.load(); err != nil {
		return now, now, err
	}
	r, err := c.read()
	if err != nil {
		return now, now, err
	}
	return now, now.next(r, least), nil
}

// read reads the clocks. c.mu is held.
func (c *Clock) read() (reading, error) {
	if c.source.Up == nil {
		if c.source = c.Source; c.source.Up == nil {
			c.source.Up = sinceBoot()
		}
		if c.source.Wall == nil {
			c.source.Wall = time.Now
		}
	}
	boot, up, err := c.source.Up()
	return reading{boot: boot, up: up.Milliseconds(), wall: c.source.Wall().UnixMilli()}, err
}

// A reading is what the clocks say, in milliseconds.
type reading struct {
	boot     string
	up, wall int64
}
