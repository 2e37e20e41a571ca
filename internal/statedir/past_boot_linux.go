//go:build linux

package statedir

import (
	"crypto/rand"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot is the machine's [Source.Up]: the kernel's, which goes on while the
// machine sleeps. Where the kernel gives its start no name each clock gives it
// one of its own, so that nothing compares with what others have read.
func sinceBoot() func() (string, time.Duration, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	boot := strings.TrimSpace(string(id))
	if err != nil || boot == "" {
		boot = rand.Text()
	}
	return func() (string, time.Duration, error) {
		var ts unix.Timespec
		err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts)
		return boot, time.Duration(ts.Nano()), err
	}
}
