package docker_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
)

// TestGroup holds what control groups of version 2 give a container: the kernel has its
// bounds, the command that the kernel has ended for want of memory says so, usage is
// counted, and a paused one is frozen as a whole.
func TestGroup(t *testing.T) {
	testenv.Require(t, "cgroup2")
	w := dockertest.New(t)
	s := w.Spec("group")
	s.Resources.Memory, s.Resources.MemorySwap, s.Resources.NanoCPUs = 96<<20, 96<<20, 5e8
	sb := w.Create(s)
	b, err := os.ReadFile("/proc/" + strconv.Itoa(sb.Info().PID) + "/cgroup")
	must(t, err)
	dir := filepath.Join("/sys/fs/cgroup", strings.TrimPrefix(strings.TrimSpace(string(b)), "0::"))
	file := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name))
		must(t, err)
		return strings.TrimSpace(string(b))
	}
	for name, want := range map[string]string{"memory.max": "100663296", "memory.swap.max": "0", "pids.max": "128", "cpu.max": "50000 100000"} {
		if got := file(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	run := func(line string) sandbox.Exit {
		t.Helper()
		ctx, done := context.WithTimeout(t.Context(), 5*time.Minute)
		defer done()
		p, err := sb.Start(ctx, sandbox.Command{Args: []string{"sh", "-c", line}})
		must(t, err)
		exit, err := p.Wait()
		must(t, err)
		return exit
	}
	if exit := run("exec dd if=/dev/zero of=/dev/null bs=200M count=1"); exit.Limit == nil || exit.Limit.Limit != sandbox.LimitSandboxMemory || exit.Limit.Bound != 96<<20 {
		t.Errorf("without memory: %+v, %v", exit, exit.Limit)
	}
	if exit := run("kill -KILL $$"); exit.Limit != nil {
		t.Errorf("killed: %+v, %v", exit, exit.Limit)
	}
	if exit := run("i=0; while [ $i -lt 200 ]; do i=$((i+1)); sleep 30 & done; wait"); exit.Limit == nil || exit.Limit.Limit != sandbox.LimitSandboxProcesses || exit.Limit.Bound != 128 {
		t.Errorf("without processes: %+v, %v", exit, exit.Limit)
	}
	u, err := sb.Usage(t.Context())
	must(t, err)
	if u.MemoryLimit != 96<<20 || u.Memory <= 0 || u.CPU <= 0 || u.PIDs < 1 || u.PIDsLimit != 128 {
		t.Errorf("%+v", u)
	}
	must(t, w.P.Pause(t.Context(), s.Name))
	if got := file("cgroup.events"); !strings.Contains(got, "frozen 1") {
		t.Errorf("paused: %q", got)
	}
	if info, err := w.P.Inspect(t.Context(), s.Name); err != nil || info.Status != sandbox.StatusPaused {
		t.Errorf("%+v, %v", info, err)
	}
	must(t, w.P.Unpause(t.Context(), s.Name))
	if exit := run("exit 3"); exit.Code != 3 || exit.Limit != nil {
		t.Errorf("after the pause: %+v", exit)
	}
}
