//go:build linux

package local_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/provider/local/launch"
)

// groupDir returns the folder of the control group that pid is in.
func groupDir(t *testing.T, pid int) string {
	t.Helper()
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	must(t, err)
	path, ok := strings.CutPrefix(strings.TrimSpace(string(b)), "0::")
	if !ok {
		t.Fatalf("%q", b)
	}
	return filepath.Join("/sys/fs/cgroup", path)
}

func groupFile(t *testing.T, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	must(t, err)
	return strings.TrimSpace(string(b))
}

// leaveLandlock leaves Landlock out where the kernel has none, as that of User Mode Linux.
func leaveLandlock(s sandbox.Spec) sandbox.Spec {
	if _, err := launch.RealHost("").Landlock(); err != nil {
		s.Options = map[string]any{"withoutLandlock": true}
	}
	return s
}

// bounded is a Spec whose bounds a control group holds, if it has the controllers.
func bounded(r *rig, key string) sandbox.Spec {
	s := leaveLandlock(r.spec(key))
	s.Resources.Memory, s.Resources.MemorySwap = 96<<20, 96<<20
	s.Resources.NanoCPUs = 5e8
	return s
}

// exitOf runs a shell line and returns how it has ended.
func exitOf(t *testing.T, sb sandbox.Sandbox, line string) (sandbox.Exit, string) {
	t.Helper()
	ctx, done := context.WithTimeout(context.Background(), 5*time.Minute)
	defer done()
	var out bytes.Buffer
	p, err := sb.Start(ctx, sandbox.Command{Args: []string{"sh", "-c", line}, Stdout: &out, Stderr: &out})
	must(t, err)
	exit, err := p.Wait()
	must(t, err)
	return exit, strings.TrimSpace(out.String())
}

// TestGroup holds that the kernel has the bounds of a sandbox, that all of its processes
// are in its control group, and that nothing is left of the group when it has ended.
func TestGroup(t *testing.T) {
	testenv.Require(t, "cgroup2")
	r := newRig(t)
	p := r.provider(t)
	s := bounded(r, "a")
	sb := r.open(p, s)
	inside := groupDir(t, sb.Info().PID)
	dir := filepath.Dir(inside)
	for name, want := range map[string]string{"memory.max": "100663296", "memory.swap.max": "0", "pids.max": "640", "cpu.max": "50000 100000"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil && strings.HasPrefix(name, "cpu") && os.Geteuid() != 0 {
			continue // a user may lack the controller
		}
		if got := groupFile(t, dir, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	procs := strings.Fields(groupFile(t, inside, "cgroup.procs"))
	if got := groupDir(t, os.Getpid()); strings.HasPrefix(got, dir) || len(procs) < 2 {
		t.Errorf("we are in %s; in %s are %v", got, inside, procs)
	}
	_, err := sb.Start(t.Context(), sandbox.Command{Detach: true, Args: []string{"sh", "-c", "setsid sh -c 'setsid sleep 1000 & sleep 1000' & wait"}})
	must(t, err)
	testenv.Until(t, "the command's processes are in the group", func() bool {
		return len(strings.Fields(groupFile(t, inside, "cgroup.procs"))) >= len(procs)+3
	})
	if exit, out := exitOf(t, sb, "cat /proc/self/cgroup; ls /sys/fs/cgroup 2>&1 | head -1"); exit.Code != 0 || !strings.HasPrefix(out, "0::/\n") {
		t.Errorf("inside there is %q", out)
	}
	u, err := sb.Usage(t.Context())
	must(t, err)
	if u.MemoryLimit != s.Resources.Memory || u.Memory <= 0 || u.CPU <= 0 || u.PIDs < 4 {
		t.Errorf("%+v", u)
	}
	must(t, p.Remove(t.Context(), s.Name))
	testenv.Until(t, "the group is gone", func() bool { _, err := os.Stat(dir); return os.IsNotExist(err) })
}

// TestGroupOutOfMemory holds that a sandbox has no more memory than it may have, all of
// its processes and files in memory together; that the command which was ended for want
// of it says so; that the next one runs; and that what ends for another reason is not
// taken for that.
func TestGroupOutOfMemory(t *testing.T) {
	testenv.Require(t, "cgroup2")
	r := newRig(t)
	s := bounded(r, "a")
	s.Resources.Memory, s.Resources.MemorySwap, s.Resources.NanoCPUs = 64<<20, 64<<20, 0
	sb := r.open(r.provider(t), s)
	const hog = "dd if=/dev/zero of=/dev/null bs=200M count=1"
	for _, tt := range []struct {
		name, line string
		hit        bool
	}{
		{"a process", hog + "; true", true},
		{"a process in the shell's place", "exec " + hog, true},
		{"a file in memory", "head -c 50000000 /dev/zero >/tmp/x; dd if=/dev/zero of=/dev/null bs=30M count=1; s=$?; rm -f /tmp/x; exit $s", true},
		{"a killed process", "kill -KILL $$", false},
		{"a failure", "exit 3", false},
		{"a success", "dd if=/dev/zero of=/dev/null bs=9M count=1", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			exit, out := exitOf(t, sb, tt.line)
			if !tt.hit {
				if exit.Limit != nil {
					t.Errorf("%+v with %v, %q", exit, exit.Limit, out)
				}
				return
			}
			if exit.Limit == nil || exit.Limit.Limit != sandbox.LimitSandboxMemory || exit.Limit.Bound != 64<<20 {
				t.Errorf("%+v with %v, %q", exit, exit.Limit, out)
			}
		})
	}
	sh, err := sb.OpenShell(t.Context(), sandbox.ShellOptions{})
	must(t, err)
	defer sh.Close()
	ctx, done := context.WithTimeout(t.Context(), 5*time.Minute)
	defer done()
	line, err := sh.Run(ctx, "( "+hog+" )", sandbox.Command{})
	must(t, err)
	if exit, err := line.Wait(); err != nil || exit.Limit == nil || exit.Limit.Limit != sandbox.LimitSandboxMemory {
		t.Errorf("a line: %+v, %v", exit, err)
	}
	if exit, out := exitOf(t, sb, "echo ok"); out != "ok" || exit.Limit != nil {
		t.Errorf("after that: %+v, %q", exit, out)
	}
}

// TestGroupProcessor holds that a sandbox which would keep two processors busy gets no
// more than its share: the kernel counts the times that it was held.
func TestGroupProcessor(t *testing.T) {
	testenv.Require(t, "cgroup2")
	testenv.Require(t, "root") // a user may lack the controller
	r := newRig(t)
	s := bounded(r, "a")
	s.Resources.NanoCPUs = 1e8
	sb := r.open(r.provider(t), s)
	dir := filepath.Dir(groupDir(t, sb.Info().PID))
	before := groupFile(t, dir, "cpu.stat")
	exitOf(t, sb, "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done & j=0; while [ $j -lt 20000 ]; do j=$((j+1)); done; wait")
	throttled := func(text string) (n int) {
		for line := range strings.Lines(text) {
			if f := strings.Fields(line); f[0] == "nr_throttled" {
				n, _ = strconv.Atoi(f[1])
			}
		}
		return n
	}
	if after := groupFile(t, dir, "cpu.stat"); throttled(after) <= throttled(before) {
		t.Errorf("it was never held:\n%s", after)
	}
}

// TestGroupOfAnother holds that a record which names a group that is not the sandbox's
// freezes nothing.
func TestGroupOfAnother(t *testing.T) {
	testenv.Require(t, "cgroup2")
	self, err := launch.Of(os.Getpid())
	must(t, err)
	for _, group := range []string{
		"/sys/fs/cgroup/sandbox-0.scope", filepath.Dir(groupDir(t, os.Getpid())), "/sys/fs/cgroup/../../tmp/sandbox-0.scope", "/tmp/sandbox-0.scope",
	} {
		if has, err := (launch.Record{Process: self, Group: group}).Freeze(t.Context()); err == nil || has {
			t.Errorf("%s: %v, %v", group, has, err)
		}
	}
}

// TestGroupPause holds that a paused sandbox is frozen as a whole, as each provider of
// the state folder sees, that it goes on where it was, and that a frozen one can be
// removed by another program than the one that has it.
func TestGroupPause(t *testing.T) {
	testenv.Require(t, "cgroup2")
	r := newRig(t)
	p, other := r.provider(t), r.provider(t)
	s := bounded(r, "a")
	sb := r.open(p, s)
	count := filepath.Join(s.Mounts[3].Source, "n")
	_, err := sb.Start(t.Context(), sandbox.Command{Detach: true, Args: []string{"sh", "-c", "i=0; while :; do i=$((i+1)); echo $i >n; sleep 0.01; done"}})
	must(t, err)
	changed := func(from string) func() bool {
		return func() bool {
			b, err := os.ReadFile(count)
			return err == nil && len(b) > 0 && string(b) != from
		}
	}
	testenv.Until(t, "it runs", changed(""))
	dir := filepath.Dir(groupDir(t, sb.Info().PID))
	for range 3 {
		must(t, p.Pause(t.Context(), s.Name))
		must(t, other.Pause(t.Context(), s.Name)) // it is left alone
		if got := groupFile(t, dir, "cgroup.events"); !strings.Contains(got, "frozen 1") {
			t.Errorf("%q", got)
		}
		if info, err := other.Inspect(t.Context(), s.Name); err != nil || info.Status != sandbox.StatusPaused {
			t.Errorf("%+v, %v", info, err)
		}
		b, err := os.ReadFile(count)
		must(t, err)
		must(t, other.Unpause(t.Context(), s.Name))
		must(t, p.Unpause(t.Context(), s.Name))
		testenv.Until(t, "it goes on", changed(string(b)))
	}
	must(t, p.Pause(t.Context(), s.Name))
	must(t, other.Remove(t.Context(), s.Name))
	testenv.Until(t, "the group is gone", func() bool { _, err := os.Stat(dir); return os.IsNotExist(err) })
}
