//go:build linux

package probe

import (
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func exhaustProbes() map[string]probe {
	return map[string]probe{
		"fork-bomb":     forkBomb,
		"memory":        memory,
		"hoard-inotify": hoardInotify,
		"one-inotify":   oneInotify,
	}
}

// forkBomb never ends: every process makes further ones as fast as it can.
// A forked child of a Go program has one thread and must not touch the
// runtime, so it does nothing but fork and sleep when it may not. It sleeps long
// enough that hundreds of them leave the machine to others: that processor time
// can be taken is the subject of starve-1, and not bounded without a control group.
func forkBomb([]string) verdict {
	os.Stdout.WriteString("ready\n")
	pause := unix.Timespec{Nsec: 50_000_000}
	return bomb(&pause)
}

// memory touches args[0] bytes and reports how far it came. Being killed on
// the way is the usual end.
func memory(args []string) verdict {
	want, ok := sizeArg(args)
	if !ok {
		return skip("needs a size")
	}
	const step = 16 << 20
	var got int64
	for got < want {
		block, err := unix.Mmap(-1, 0, step, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			return held("refused after ", mib(got), ": ", reason(err))
		}
		for i := 0; i < step; i += 4096 {
			block[i] = 1
		}
		got += step
	}
	return broke(mib(got), " were given, more than the limit")
}

func sizeArg(args []string) (int64, bool) {
	if len(args) == 0 {
		return 0, false
	}
	n, err := strconv.ParseInt(args[0], 10, 64)
	return n, err == nil && n > 0
}

// hoardInotify takes every inotify instance that the kernel gives to one
// user, says "ready", and holds them until its standard input ends.
func hoardInotify([]string) verdict {
	n := 0
	var err error
	for n < 100_000 {
		if _, err = unix.InotifyInit1(unix.IN_CLOEXEC); err != nil {
			break
		}
		n++
	}
	os.Stdout.WriteString("ready\n")
	for {
		if k, rerr := os.Stdin.Read(make([]byte, 64)); k == 0 || rerr != nil {
			break
		}
	}
	if err == nil {
		return held(itoa(n), " instances taken")
	}
	return held(itoa(n), " instances taken, then ", reason(err))
}

// oneInotify takes one instance, beside a sandbox that hoards them.
func oneInotify([]string) verdict {
	deadline := time.Now().Add(time.Second)
	for {
		fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
		if err == nil {
			unix.Close(fd)
			return held("a neighbour still gets its own")
		}
		if time.Now().After(deadline) {
			return broke("a neighbour gets none: ", reason(err))
		}
	}
}

// writable reports whether a mount is one that data can be put into.
func (m mountPoint) writable() bool {
	switch m.kind {
	case "proc", "sysfs", "cgroup", "cgroup2", "devpts", "mqueue", "securityfs", "debugfs", "tracefs":
		return false
	}
	return !m.readOnly
}

// inMemory reports whether what is written to the mount counts as memory of
// the sandbox.
func (m mountPoint) inMemory() bool {
	return m.kind == "tmpfs" || strings.HasPrefix(m.kind, "ramfs")
}
