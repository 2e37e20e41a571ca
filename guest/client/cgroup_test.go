package client_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

const (
	pidsRoot = "/sys/fs/cgroup/pids" // of cgroup version 1
	cpuRoot  = "/sys/fs/cgroup/cpu"
)

// A cgroup is what a guest lives in, as in a container: with a limit of
// processes, and with the share of one in the processors. Outside of such a
// group the kernel gives each session a share of its own, and a bomb that
// makes sessions takes the processors from all tests that run at the time.
type cgroup struct{ dirs []string }

// pidsCgroup makes a cgroup with a process limit.
func pidsCgroup(t testing.TB, limit int) cgroup {
	t.Helper()
	var g cgroup
	roots := []string{"/sys/fs/cgroup"}
	if isFolder(pidsRoot) {
		roots = []string{pidsRoot}
		if isFolder(cpuRoot) {
			roots = append(roots, cpuRoot)
		}
	}
	for _, root := range roots {
		dir, err := os.MkdirTemp(root, "guest-test-")
		if err != nil {
			testenv.Lack(t, "cgroup", err)
		}
		t.Cleanup(func() {
			eventually(t, 10*time.Second, "the cgroup is removed", func() bool { return os.Remove(dir) == nil })
		})
		g.dirs = append(g.dirs, dir)
	}
	if err := os.WriteFile(filepath.Join(g.dirs[0], "pids.max"), []byte(strconv.Itoa(limit)), 0); err != nil {
		testenv.Lack(t, "cgroup", err)
	}
	return g
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// limitReached reports whether the cgroup has refused a fork. The kernel
// counts that; the number of processes that are there moves up and down, and
// on a busy machine a look at it can miss the moments in which it is the
// limit.
func (g cgroup) limitReached() bool {
	b, err := os.ReadFile(filepath.Join(g.dirs[0], "pids.events"))
	var refused int
	_, scanErr := fmt.Sscanf(string(b), "max %d", &refused)
	return err == nil && scanErr == nil && refused > 0
}

func inCgroup(g cgroup) guestOption {
	var procs []string
	for _, dir := range g.dirs {
		procs = append(procs, filepath.Join(dir, "cgroup.procs"))
	}
	return func(c *exec.Cmd) { c.Env = append(c.Env, cgroupEnv+"="+strings.Join(procs, ":")) }
}
