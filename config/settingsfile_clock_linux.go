package config

import (
	"time"

	"golang.org/x/sys/unix"
)

// fileClock is the time that a file would carry which changed now, or an
// earlier one. The kernel stamps files with a clock that moves once a tick, and
// a tick is late where the machine under a virtual one has no processor for it:
// by [time.Now] a stamp can be older than any bound while it is still given out.
func fileClock() time.Time {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now); err != nil {
		return time.Time{} // all files are of the future then, and are read each time
	}
	return time.Unix(now.Unix())
}
