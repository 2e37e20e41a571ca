//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
)

// RSS is what the daemon's process holds, in bytes.
func (d *rigDaemon) RSS() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", d.PID))
	if err != nil {
		return 0, unreported(err)
	}
	rss, _, err := parseRollup(string(text))
	return rss, err
}

// CPU is the processor time that the daemon's process has taken until now, of
// all its threads. It is read from the process's own clock, which is exact:
// the ticks of /proc are as long as what is to be measured.
func (d *rigDaemon) CPU() (time.Duration, error) {
	const whole = 2 // the clock of a process that counts what its threads ran, see clock_getcpuclockid(3)
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^d.PID<<3|whole), &t); err != nil {
		return 0, sandbox.Errorf(sandbox.CodeUnavailable, "read processor time", "the kernel does not tell: %w", err)
	}
	return time.Duration(t.Nano()), nil
}

// Sockets is how many sockets the daemon has open.
func (d *rigDaemon) Sockets() (n int, err error) {
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", d.PID))
	if err != nil {
		return 0, err
	}
	for _, l := range links {
		if to, err := os.Readlink(l); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n, nil
}
