package docker_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
)

// gvisor changes s so that it runs on runsc, where no socket crosses the
// boundary.
func gvisor(r *dockertest.Rig, s sandbox.Spec) sandbox.Spec {
	r.T.Helper()
	p, err := r.Engine.Posture(context.Background())
	must(r.T, err)
	if !slices.Contains(p.Runtimes, "runsc") {
		testenv.Lack(r.T, "runsc", "the engine has no such runtime")
	}
	s.Runtime = "runsc"
	// The threads of gVisor's own kernel count against the limit of
	// processes too, some ten for each process inside. Where it gets none it
	// ends, and the whole sandbox with it: what is a refused fork elsewhere
	// is a lost sandbox here, so the limit must be roomy.
	s.Resources.PIDs = 1024
	s.Mounts = slices.DeleteFunc(slices.Clone(s.Mounts), func(m sandbox.Mount) bool { return m.Role == sandbox.RoleSocket })
	return s
}

// TestRunsc checks that the sandbox works on gVisor, over the relay, with the
// hardening that fits it: a kernel of its own instead of our filter.
func TestRunsc(t *testing.T) {
	t.Parallel()
	r := dockertest.New(t)
	s := gvisor(r, r.Spec("runsc"))
	s.OnStart = []string{"echo started > /workspace/started"}
	sb := r.Create(s)
	tests := []struct{ name, line, want string }{
		{"own kernel", `dmesg | grep -c gVisor`, "1"},
		{"start command", `cat /workspace/started`, "started"},
		{"no capabilities", `grep -E '^Cap(Eff|Prm)' /proc/self/status | awk '{print $2}' | sort -u`, "0000000000000000"},
		{"not root", `test $(id -u) -gt 1000 && echo ok`, "ok"},
		{"root is read-only", `touch /x 2>/dev/null; echo $?`, "1"},
		{"workspace is writable", `echo y > /workspace/y && cat /workspace/y`, "y"},
		{"tmp executes", `printf '#!/bin/sh\necho ran\n' > /tmp/p && chmod +x /tmp/p && /tmp/p`, "ran"},
		{"only lo", `ls /sys/class/net 2>/dev/null || awk -F: 'NR>2{print $1}' /proc/net/dev | tr -d ' '`, "lo"},
		{"streams apart", `echo out; echo err >&2`, "out\nerr"},
		{"exit code", `exit 7`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, code := sh(t, sb, tt.line)
			if got != tt.want || (tt.name == "exit code") != (code == 7) {
				t.Errorf("%s printed %q, exit %d, want %q", tt.line, got, code, tt.want)
			}
		})
	}
	t.Run("timeout ends the command", func(t *testing.T) {
		// Weaker than elsewhere: gVisor has no subreapers, so a process
		// that leaves both its parent and its session is found by a sweep
		// that does not see every one. The guest says so when it greets.
		ctx, done := context.WithTimeout(context.Background(), time.Second)
		defer done()
		p, err := sb.Start(ctx, sandbox.Command{Args: []string{"sh", "-c", "sleep 7531 & sh -c 'sleep 7532 & sleep 7534' & exec sleep 7533"}})
		must(t, err)
		p.Wait()
		if out, _ := sh(t, sb, `cat /proc/[0-9]*/cmdline | tr '\0' ' '`); strings.Contains(out, "sleep 753") {
			t.Errorf("left: %s", out)
		}
	})
	t.Run("kill all", func(t *testing.T) {
		// Weaker than elsewhere: without Landlock the code inside can end
		// its own stage and the relay, which run as the same user. That
		// costs it its session, which ends with a clear error. It cannot
		// end the guest, and the sandbox serves the next session.
		ctx, done := context.WithTimeout(context.Background(), time.Minute)
		defer done()
		p, err := sb.Start(ctx, sandbox.Command{Args: []string{"sh", "-c", "kill -9 -1"}})
		if err == nil {
			_, err = p.Wait()
		}
		if code := sandbox.CodeOf(err); err != nil && code != sandbox.CodeUnavailable && code != sandbox.CodeExecution {
			t.Errorf("got %v", err)
		}
		if out, _ := sh(t, r.Reopen(s), "echo alive; cat /workspace/started"); out != "alive\nstarted" {
			t.Errorf("got %q", out)
		}
	})
}

// TestRelay holds that the relay alone carries a session on any runtime.
func TestRelay(t *testing.T) {
	t.Parallel()
	r := dockertest.New(t)
	s := r.Spec("relay")
	s.Mounts = slices.DeleteFunc(s.Mounts, func(m sandbox.Mount) bool { return m.Role == sandbox.RoleSocket })
	sb := r.Create(s)
	if out, code := sh(t, sb, "echo over the relay; exit 5"); out != "over the relay" || code != 5 {
		t.Errorf("%q, %d", out, code)
	}
	if out, _ := sh(t, sb, "head -c 20000000 /dev/zero | wc -c"); out != "20000000" {
		t.Errorf("got %q", out)
	}
	// Code inside cannot use the relay to command the guest.
	if out, code := sh(t, sb, `printf x | timeout 5 /.sandbox/bin/sandbox-guest relay 2>&1 | head -c 200`); code != 0 && out == "" {
		t.Errorf("relay from inside: %q, %d", out, code)
	}
}
