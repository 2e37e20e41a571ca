//go:build linux

package probe

import (
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

func fillProbes() map[string]probe {
	return map[string]probe{
		"fill-memory-folders": fillMemoryFolders,
		"fill-disk":           fillDisk,
		"fill-quota":          fillQuota,
		"fill-log":            fillLog,
		"clean":               clean,
	}
}

// fillMemoryFolders fills every tmpfs at the same time, up to args[0] bytes
// in all, and removes the files again.
func fillMemoryFolders(args []string) verdict {
	limit, ok := sizeArg(args)
	if !ok {
		return skip("needs a limit")
	}
	mounts, err := mountPoints()
	if err != nil {
		return skip("/proc/self/mountinfo: ", reason(err))
	}
	var total int64
	var parts []string
	defer func() {
		for _, m := range mounts {
			if m.inMemory() {
				os.Remove(m.target + "/" + fillName)
			}
		}
	}()
	for _, m := range mounts {
		if !m.inMemory() || !m.writable() {
			continue
		}
		n, err := fill(m.target, limit-total)
		total += n
		if n > 0 {
			parts = append(parts, m.target+" "+mib(n)+" then "+outcomeOf(err))
		}
		if total >= limit {
			return broke("more than ", mib(limit), " were written: ", strings.Join(parts, "; "))
		}
	}
	return held(strings.Join(parts, "; "))
}

// clean removes the files of a fill that was killed.
func clean([]string) verdict {
	mounts, err := mountPoints()
	if err != nil {
		return skip("/proc/self/mountinfo: ", reason(err))
	}
	for _, m := range mounts {
		os.Remove(m.target + "/" + fillName)
	}
	return held("clean")
}

const fillName = ".escape-fill"

// fill writes a file in dir until an error or limit bytes, and leaves it.
func fill(dir string, limit int64) (int64, error) {
	f, err := os.OpenFile(dir+"/"+fillName, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return pour(f, limit)
}

// pour writes bytes that do not compress until an error or limit.
func pour(f *os.File, limit int64) (total int64, err error) {
	block := make([]byte, 1<<20)
	seed := uint64(os.Getpid())*2654435761 + 1
	for i := range block {
		seed = seed*6364136223846793005 + 1442695040888963407
		block[i] = byte(seed >> 56)
	}
	for total < limit {
		n, err := f.Write(block[:min(int64(len(block)), limit-total)])
		total += int64(n)
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// fillDisk writes up to args[0] bytes to every writable place that is no
// tmpfs and not among the further arguments, and removes them again.
func fillDisk(args []string) verdict {
	limit, ok := sizeArg(args)
	if !ok {
		return skip("needs a limit")
	}
	mounts, err := mountPoints()
	if err != nil {
		return skip("/proc/self/mountinfo: ", reason(err))
	}
	var full, over []string
	for _, m := range mounts {
		if m.inMemory() || !m.writable() || isDevice(m.target) || slices.Contains(args[1:], m.target) {
			continue
		}
		n, err := fillMount(m.target, limit)
		text := m.target + " " + mib(n) + " then " + outcomeOf(err)
		if n >= limit {
			over = append(over, text)
		} else {
			full = append(full, text)
		}
	}
	if len(over) > 0 {
		return broke(strings.Join(over, "; "))
	}
	if len(full) == 0 {
		return held("no writable place on a disk")
	}
	return held(strings.Join(full, "; "))
}

// isDevice reports a device file, which some sandboxes mount one by one and which
// keeps nothing of what is written to it.
func isDevice(target string) bool {
	fi, err := os.Stat(target)
	return err == nil && fi.Mode()&os.ModeDevice != 0
}

// fillQuota writes up to args[0] bytes, more than the quota, to the folder
// args[1], and removes them again.
func fillQuota(args []string) verdict {
	limit, ok := sizeArg(args)
	if !ok || len(args) != 2 {
		return skip("needs a limit and a folder")
	}
	n, err := fillMount(args[1], limit)
	text := mib(n) + " then " + outcomeOf(err)
	if n >= limit {
		return broke(text)
	}
	return held(text)
}

// fillMount fills a mounted folder, or appends to a mounted file.
func fillMount(target string, limit int64) (int64, error) {
	if fi, err := os.Stat(target); err == nil && !fi.IsDir() {
		f, err := os.OpenFile(target, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return 0, err
		}
		defer f.Close()
		defer func() { _ = f.Truncate(fi.Size()) }()
		return pour(f, limit)
	}
	defer os.Remove(target + "/" + fillName)
	return fill(target, limit)
}

// fillLog writes args[0] bytes to the outputs of the first process, which
// engines keep in a file of the host. "Escaped" says that they were taken;
// whether anybody keeps them is seen outside.
func fillLog(args []string) verdict {
	limit, ok := sizeArg(args)
	if !ok {
		return skip("needs a size")
	}
	var written int64
	var answers []string
	for _, fd := range []string{"1", "2"} {
		f, err := os.OpenFile("/proc/1/fd/"+fd, os.O_WRONLY|os.O_APPEND|unix.O_NONBLOCK, 0)
		if err != nil {
			answers = append(answers, "output "+fd+": "+reason(err))
			continue
		}
		n, err := pour(f, limit)
		f.Close()
		written += n
		answers = append(answers, "output "+fd+": "+mib(n)+" then "+outcomeOf(err))
	}
	if written > 0 {
		return broke(strings.Join(answers, "; "))
	}
	return held(strings.Join(answers, "; "))
}
