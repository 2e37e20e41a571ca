package docker_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
)

// escapee is a program with descendants that left its group and session, and
// with output that goes on.
const escapee = `n=8640; setsid sleep ${n}1 & (setsid sh -c "sleep ${n}2 & sleep ${n}3 &" &); trap '' TERM HUP
while [ $(cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' ' ' | grep -o 'sleep 8640[123]' | sort -u | wc -l) -lt 3 ]; do sleep 0.01; done
echo ready; while :; do echo tick; sleep 0.05; done`

// insideOf returns the processes of a container as the host's /proc shows
// them, by host process id, without those of ours.
func insideOf(t testing.TB, pid int) map[int]string {
	t.Helper()
	return processesOf(t, pid, func(words []string) bool { return !strings.HasSuffix(words[0], "sandbox-guest") })
}

// relaysOf counts the relays in a container.
func relaysOf(t testing.TB, pid int) int {
	t.Helper()
	return len(processesOf(t, pid, func(words []string) bool { return len(words) > 1 && words[1] == "relay" }))
}

// processesOf returns the command lines that count, by host process id.
func processesOf(t testing.TB, pid int, counts func(words []string) bool) map[int]string {
	t.Helper()
	ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
	must(t, err)
	dirs, err := filepath.Glob("/proc/[0-9]*")
	must(t, err)
	found := map[int]string{}
	for _, d := range dirs {
		link, err := os.Readlink(d + "/ns/pid")
		if err != nil || link != ns {
			continue
		}
		line, err := os.ReadFile(d + "/cmdline")
		words := strings.Split(string(line), "\x00")
		if err != nil || !counts(words) {
			continue
		}
		id, err := strconv.Atoi(filepath.Base(d))
		must(t, err)
		found[id] = strings.Join(words, " ")
	}
	return found
}

// soon waits until ok returns true, at least for patience: its callers check
// that the event comes, not how fast.
func soon(t testing.TB, within time.Duration, what string, ok func() bool) {
	t.Helper()
	within = max(within, patience)
	for deadline := time.Now().Add(within); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}

// emptied waits until nothing of a user runs in the container.
func emptied(t testing.TB, pid int) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("left inside: %v", insideOf(t, pid))
		}
	}()
	soon(t, 10*time.Second, "nothing is left inside", func() bool { return len(insideOf(t, pid)) == 0 })
}

// waited holds that p ends within a bound, with an error of the code. The bound
// is at least 20 seconds: less than the half minute after which a guest is given
// up that says nothing, and more than a busy machine takes.
func waited(t testing.TB, p sandbox.Process, within time.Duration, code sandbox.Code) {
	t.Helper()
	within = max(within, 20*time.Second)
	ended := make(chan error, 1)
	go func() { _, err := p.Wait(); ended <- err }()
	select {
	case err := <-ended:
		if sandbox.CodeOf(err) != code {
			t.Errorf("the command ends with %v, want %q", err, code)
		}
	case <-time.After(within):
		t.Fatalf("the command has not ended after %v", within)
	}
}

// TestOutlastFall ends the sandbox in the middle of a command: the command
// ends with an error in bounded time, its processes are gone, and the next
// call works where there still is a sandbox.
func TestOutlastFall(t *testing.T) {
	t.Parallel()
	cli := func(args ...string) func(*dockertest.Rig, sandbox.Sandbox) error {
		return func(_ *dockertest.Rig, sb sandbox.Sandbox) error {
			return exec.Command("docker", append(args, sb.Info().Name)...).Run()
		}
	}
	for name, fall := range map[string]func(*dockertest.Rig, sandbox.Sandbox) error{
		"guest killed": func(_ *dockertest.Rig, sb sandbox.Sandbox) error {
			return syscall.Kill(sb.Info().PID, syscall.SIGKILL)
		},
		"restarted": cli("restart", "-t", "5"),
		"stopped":   cli("stop", "-t", "5"),
		"removed":   cli("rm", "-f"),
	} {
		t.Run(name, func(t *testing.T) {
			overSocket(t, "fall"+name, overRelayToo(name, "guest killed"), func(t *testing.T, w *dockertest.Rig, s sandbox.Spec) {
				sb := w.Reopen(s)
				p, _ := background(t, sb, "sh", "-c", escapee)
				before := insideOf(t, sb.Info().PID)
				soon(t, 10*time.Second, "its processes run", func() bool {
					before = insideOf(t, sb.Info().PID)
					return len(before) >= 4
				})
				must(t, fall(w, sb))
				begin := time.Now()
				waited(t, p, 10*time.Second, sandbox.CodeUnavailable)
				t.Logf("ended %v after the fall", time.Since(begin).Round(time.Millisecond))
				soon(t, 10*time.Second, "its processes are gone", func() bool {
					for pid, line := range before {
						now, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
						if err == nil && strings.Join(strings.Split(string(now), "\x00"), " ") == line {
							return false
						}
					}
					return true
				})
				if _, err := sb.Start(context.Background(), sandbox.Command{Args: []string{"true"}}); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
					t.Errorf("the handle from before says %v", err)
				}
				if name == "removed" {
					if _, err := w.P.Open(context.Background(), s); !sandbox.IsNotFound(err) {
						t.Errorf("open says %v", err)
					}
					return
				}
				again := w.Reopen(s)
				if out, code := sh(t, again, "echo back"); out != "back" || code != 0 {
					t.Errorf("the next call: %q, %d", out, code)
				}
				emptied(t, again.Info().PID)
			})
		})
	}
}

// TestOutlastPause freezes the container under a command that is then to
// end: the caller is not frozen with it, and after the thaw nothing of the
// command is left.
func TestOutlastPause(t *testing.T) {
	t.Parallel()
	overBoth(t, "pause", func(t *testing.T, w *dockertest.Rig, s sandbox.Spec) {
		needGroups(t, w)
		sb := w.Reopen(s)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		out := &watched{seen: make(chan struct{})}
		p, err := sb.Start(ctx, sandbox.Command{Args: []string{"sh", "-c", escapee}, Stdout: out})
		must(t, err)
		<-out.seen
		must(t, w.Engine.Pause(context.Background(), s.Name))
		defer w.Engine.Unpause(context.Background(), s.Name)
		cancel()
		begin := time.Now()
		waited(t, p, 15*time.Second, sandbox.CodeUnavailable)
		t.Logf("ended after %v", time.Since(begin).Round(time.Millisecond))
		again := w.Reopen(s) // thaws
		if out, code := sh(t, again, "echo back"); out != "back" || code != 0 {
			t.Errorf("the next call: %q, %d", out, code)
		}
		emptied(t, again.Info().PID)
	})
}

// TestOutlastShortPause freezes the container for a moment: nothing is lost.
func TestOutlastShortPause(t *testing.T) {
	t.Parallel()
	overSocket(t, "nap", "a short pause, through the relay of TestOutlastPause", func(t *testing.T, w *dockertest.Rig, s sandbox.Spec) {
		needGroups(t, w)
		sb := w.Reopen(s)
		out := &watched{seen: make(chan struct{})}
		p, err := sb.Start(context.Background(), sandbox.Command{
			Args: []string{"sh", "-c", "echo ready; for i in $(seq 200); do echo $i; sleep 0.005; done; exit 9"}, Stdout: out,
		})
		must(t, err)
		<-out.seen
		must(t, w.Engine.Pause(context.Background(), s.Name))
		time.Sleep(time.Second) // the length of the pause is what is tested
		must(t, w.Engine.Unpause(context.Background(), s.Name))
		exit, err := p.Wait()
		if err != nil || exit.Code != 9 || len(strings.Fields(out.String())) != 201 {
			t.Errorf("%+v, %v, %d lines", exit, err, len(strings.Fields(out.String())))
		}
	})
}
