//go:build linux

package probe

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// kernelFileProbes are the kernel's knobs and secrets in /proc and /sys.
func kernelFileProbes() map[string]probe {
	return map[string]probe{
		"sysrq":        func([]string) verdict { return each(writeOpen("/proc/sysrq-trigger")) },
		"core-pattern": corePattern,
		"proc-sys":     procSys,
		"proc-secrets": procSecrets,
		"sys-writes":   sysWrites,
		"cgroup":       cgroupWrites,
	}
}

// corePattern is the command that the kernel runs as root on the host when a
// program crashes; the others are of that kind.
func corePattern([]string) verdict {
	return each(
		writeOpen("/proc/sys/kernel/core_pattern"), writeOpen("/proc/sys/kernel/modprobe"),
		writeOpen("/proc/sys/kernel/hotplug"), writeOpen("/sys/kernel/uevent_helper"),
		writeOpen("/proc/sys/fs/binfmt_misc/register"), createIn("/proc/sys/fs/binfmt_misc"),
	)
}

// maxWalk bounds how many files of a tree are tried.
const maxWalk = 20_000

// writableBelow returns the files below root that can be opened for writing,
// and how many were tried.
func writableBelow(root string, spare func(path string) bool) (writable []string, tried int) {
	_ = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if tried >= maxWalk {
			return fs.SkipAll
		}
		if err != nil || !e.Type().IsRegular() || spare(path) {
			return nil
		}
		tried++
		if openable(path, unix.O_WRONLY) == nil {
			writable = append(writable, path)
		}
		return nil
	})
	return writable, tried
}

func noneWritable(root string, spare func(string) bool) verdict {
	writable, tried := writableBelow(root, spare)
	if len(writable) > 0 {
		return broke("writable: ", strings.Join(writable[:min(len(writable), 5)], ", "))
	}
	if tried == 0 {
		return held("nothing below ", root, " to write to")
	}
	return held("none of ", itoa(tried), " files is writable")
}

// procSys leaves out the one file that is meant for everybody: it adds to
// the machine's randomness and takes nothing from it.
func procSys([]string) verdict {
	return noneWritable("/proc/sys", func(p string) bool {
		return p == "/proc/sys/kernel/random/uuid" || p == "/proc/sys/kernel/random/boot_id"
	})
}

func sysWrites([]string) verdict {
	return noneWritable("/sys", func(p string) bool { return strings.HasPrefix(p, "/sys/fs/cgroup/") })
}

// procSecrets are files that tell of the kernel's memory and of other
// containers. The engine hides them; empty is hidden too.
func procSecrets([]string) verdict {
	var tries []try
	for _, p := range []string{
		"/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/timer_stats",
		"/proc/sched_debug", "/proc/scsi", "/proc/acpi", "/proc/vmallocinfo", "/proc/slabinfo",
		"/proc/kpagecount", "/sys/firmware", "/sys/kernel/debug", "/sys/kernel/security", "/sys/kernel/tracing",
	} {
		tries = append(tries, try{p, func() error { return tells(p) }})
	}
	return each(tries...)
}

// tells reports whether path holds anything.
func tells(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if fi, err := f.Stat(); err == nil && fi.IsDir() {
		names, err := f.Readdirnames(1)
		if len(names) > 0 {
			return nil
		}
		return errors.Join(errors.New("empty"), nonEOF(err))
	}
	n, err := f.Read(make([]byte, 16))
	if n > 0 {
		return nil
	}
	return errors.Join(errors.New("empty"), nonEOF(err))
}

func nonEOF(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}

// cgroupWrites looks for a control group that could be changed: by its
// release agent, which the host runs as root, by moving out of it, by
// lifting its limits, or by making one below it.
func cgroupWrites([]string) verdict {
	mounts, err := mountPoints()
	if err != nil {
		return skip("/proc/self/mountinfo: ", reason(err))
	}
	var tries []try
	for _, m := range mounts {
		if m.kind != "cgroup" && m.kind != "cgroup2" {
			continue
		}
		dir := m.target + "/escape"
		tries = append(tries, try{"new group in " + m.target, func() error { return removeAfter(dir, unix.Mkdir(dir, 0o755)) }})
		for _, file := range []string{
			"release_agent", "notify_on_release", "cgroup.procs", "tasks", "cgroup.subtree_control", "devices.allow",
			"memory.limit_in_bytes", "memory.max", "pids.max", "cpu.max", "cpu.cfs_quota_us", "cgroup.freeze", "cgroup.kill",
		} {
			if _, err := os.Lstat(m.target + "/" + file); err == nil {
				tries = append(tries, writeOpen(m.target+"/"+file))
			}
		}
	}
	if len(tries) == 0 {
		return held("no control groups are mounted")
	}
	return each(tries...)
}
