package workspace

import (
	"time"

	"golang.org/x/sys/unix"
)

// fileClock returns the time since the epoch that a file would carry which changed
// now, or an earlier one: the kernel stamps files with a clock that moves once a
// tick.
func fileClock() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now); err != nil {
		return 0 // every file is of the future then
	}
	return time.Duration(now.Nano())
}
