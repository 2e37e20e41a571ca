// This file adds up what a group of processes takes, as /proc of the host shows
// it, so that tests can check that nothing is left behind.

package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A Footprint is what processes take together. What they share counts
// several times in Resident, and in equal parts in Proportional.
type Footprint struct {
	Processes, Threads, Zombies int
	Descriptors                 int
	Resident, Proportional      int64 // bytes: Rss and Pss of smaps_rollup
}

// Of adds up the processes that belong. Those that end meanwhile count as
// far as they were seen.
func Of(belongs func(pid int) bool) (Footprint, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	var f Footprint
	for _, dir := range dirs {
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil && belongs(pid) {
			f.add(dir)
		}
	}
	return f, err
}

// Namespace selects the processes of the process namespace that pid is in.
func Namespace(pid int) (belongs func(pid int) bool, err error) {
	own, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
	return func(pid int) bool {
		other, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
		return err == nil && other == own
	}, err
}

// Container selects the processes whose control group carries the id of a
// container.
func Container(id string) (belongs func(pid int) bool) {
	return func(pid int) bool {
		groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		return err == nil && id != "" && strings.Contains(string(groups), id)
	}
}

func (f *Footprint) add(dir string) {
	f.Processes++
	stat, _ := os.ReadFile(dir + "/stat")
	if i := strings.LastIndex(string(stat), ") "); i >= 0 && strings.HasPrefix(string(stat)[i+2:], "Z") {
		f.Zombies++
	}
	tasks, _ := os.ReadDir(dir + "/task")
	files, _ := os.ReadDir(dir + "/fd")
	f.Threads += len(tasks)
	f.Descriptors += len(files)
	rollup, _ := os.ReadFile(dir + "/smaps_rollup")
	for line := range strings.Lines(string(rollup)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "Rss: %d kB", &kib); n == 1 {
			f.Resident += kib << 10
		}
		if n, _ := fmt.Sscanf(line, "Pss: %d kB", &kib); n == 1 {
			f.Proportional += kib << 10
		}
	}
}

// Within reports whether f is at rest within most: no zombies, and no more of
// anything but Resident, in which a page of the program's file counts once for
// each process, and which depends on how the kernel has cached that file.
func (f Footprint) Within(most Footprint) bool {
	return f.Processes <= most.Processes && f.Zombies == 0 && f.Threads <= most.Threads &&
		f.Descriptors <= most.Descriptors && f.Proportional <= most.Proportional
}

// String is for the log of a test.
func (f Footprint) String() string {
	return fmt.Sprintf("%d processes, %d threads, %d zombies, %d descriptors, RSS %d KiB, PSS %d KiB",
		f.Processes, f.Threads, f.Zombies, f.Descriptors, f.Resident>>10, f.Proportional>>10)
}
