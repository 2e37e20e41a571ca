//go:build linux

package local_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// eventually waits until ok holds, or fails.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

// begin starts a script in sb and returns when it has said "ready".
func begin(t testing.TB, sb sandbox.Sandbox, script string, env map[string]string) (sandbox.Process, *watched) {
	t.Helper()
	out := &watched{want: "ready\n", seen: make(chan struct{})}
	p, err := sb.Start(t.Context(), sandbox.Command{Args: []string{"bash", "-c", script}, Env: env, Stdout: out, Stderr: out})
	must(t, err)
	select {
	case <-out.seen:
	case <-time.After(patience):
		t.Fatalf("it does not start: %q", out.String())
	}
	return p, out
}

// output runs a script in sb and returns what it says.
func output(t testing.TB, sb sandbox.Sandbox, script string) string {
	t.Helper()
	ctx, done := context.WithTimeout(t.Context(), patience)
	defer done()
	var out bytes.Buffer
	p, err := sb.Start(ctx, sandbox.Command{Args: []string{"bash", "-c", script}, Stdout: &out, Stderr: &out})
	must(t, err)
	_, err = p.Wait()
	must(t, err)
	return strings.TrimSpace(out.String())
}

// running returns the processes of the host whose command line has text.
func running(text string) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range all {
		line, err := os.ReadFile(p)
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(p)))
		if err == nil && pid != os.Getpid() && bytes.Contains(line, []byte(text)) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestForkBomb holds that a bomb is bounded, that neighbours do not feel it,
// and that it can be put out.
func TestForkBomb(t *testing.T) {
	k := newKit(t)
	a, b := newFixture(t, k), newFixture(t, k)
	a.up()
	b.up()
	p, _ := begin(t, a.sb, `exec /.sandbox/bin/sandbox-guest probe fork-bomb`, nil)
	if got := output(t, b.sb, "echo alive"); got != "alive" {
		t.Errorf("the neighbour says %q", got)
	}
	// The guest makes threads when it needs them, and the bomb has left no room
	// for any but those: whatever comes of this, the guest stands it.
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			if i%16 == 0 { // it looks at all processes of the machine, beside a hundred that want the processor
				if _, err := a.sb.Usage(t.Context()); err != nil {
					t.Errorf("what it uses: %v", err)
				}
			}
			ctx, done := context.WithTimeout(t.Context(), patience)
			defer done()
			if p, err := a.sb.Start(ctx, sandbox.Command{Args: []string{"true"}}); err == nil {
				_, _ = p.Wait()
			}
		})
	}
	wg.Wait()
	usage, err := a.sb.Usage(t.Context())
	must(t, err)
	if most := a.spec.Resources.PIDs; usage.PIDs > most {
		t.Errorf("%d processes, at most %d are allowed", usage.PIDs, most)
	}
	ctx, done := context.WithTimeout(t.Context(), patience)
	defer done()
	must(t, p.Kill(ctx))
	if got := output(t, a.sb, "echo alive"); got != "alive" {
		t.Errorf("the wall says %q", got)
	}
}

// TestFullMemory holds that what can be written without a disk is bounded.
func TestFullMemory(t *testing.T) {
	s := newFixture(t, newKit(t))
	s.up()
	out := output(t, s.sb, `for d in /tmp /var/tmp /run /home/sandbox /dev/shm /dev /proc / /.sandbox /etc; do dd if=/dev/zero of=$d/full bs=1M count=200 status=none 2>/dev/null; stat -c %s $d/full 2>/dev/null; done | awk '{n+=$1} END {print n}'`)
	n, err := strconv.ParseInt(out, 10, 64)
	if most := int64(16+8+8+4+4) << 20; err != nil || n > most {
		t.Errorf("%q bytes of memory, at most %d are allowed", out, most)
	}
	if n < 16<<20 {
		t.Errorf("only %d bytes: nothing was filled", n)
	}
	if got := output(t, s.sb, "rm -f /tmp/full; echo alive"); got != "alive" {
		t.Errorf("the wall says %q", got)
	}
}

// TestFlood holds that output that no reader reads fast enough costs us nothing.
func TestFlood(t *testing.T) {
	s := newFixture(t, newKit(t))
	s.up()
	before := resident()
	slow := &slowWriter{}
	p, err := s.sb.Start(t.Context(), sandbox.Command{Args: []string{"sh", "-c", "yes | head -c 150000000"}, Stdout: slow})
	must(t, err)
	_, err = p.Wait()
	must(t, err)
	if slow.n != 150_000_000 {
		t.Errorf("%d bytes came", slow.n)
	}
	if more := resident() - before; more > 64<<20 {
		t.Errorf("it has cost %d bytes of memory", more)
	}
}

// resident is the most memory that this process has had, in bytes.
func resident() int64 {
	text, _ := os.ReadFile("/proc/self/status")
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	n, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	return n << 10
}

type slowWriter struct{ n int }

func (w *slowWriter) Write(p []byte) (int, error) {
	w.n += len(p)
	runtime.Gosched()
	return len(p), nil
}

// TestProgramOfTheSandboxKilled holds that nothing of a sandbox stays when the
// program that built it is killed, or the guest.
func TestProgramOfTheSandboxKilled(t *testing.T) {
	k := newKit(t)
	for _, which := range []string{"bwrap", "guest"} {
		t.Run(which, func(t *testing.T) {
			s := newFixture(t, k, func(s *fixture) { s.must(os.RemoveAll(s.agent + "/.git")) })
			s.up()
			mark := "77" + strconv.FormatInt(time.Now().UnixNano()%1e9, 10)
			p, _ := begin(t, s.sb, `(setsid sleep `+mark+` &) ; (sleep `+mark+` &) ; echo ready; sleep `+mark, nil)
			victim := s.sb.Info().PID
			if which == "bwrap" {
				victim = parent(t, victim)
			}
			must(t, killOf(victim))
			if _, err := p.Wait(); err == nil {
				t.Error("the command's end is told as if it had ended by itself")
			}
			eventually(t, "processes stay", func() bool { return len(running(mark)) == 0 })
			s.sb.Close()
			s.provider.Close()
			must(t, s.newProvider().Remove(t.Context(), s.spec.Name))
			s.untouched(t)
			s.sb, s.provider = nil, nil
		})
	}
}

// TestClose holds that an orderly end leaves nothing either, and that a
// command that tries to stay does not.
func TestClose(t *testing.T) {
	s := newFixture(t, newKit(t))
	s.up()
	mark := "78" + strconv.FormatInt(time.Now().UnixNano()%1e9, 10)
	output(t, s.sb, `trap '' TERM HUP INT; (trap '' TERM; setsid nohup sleep `+mark+` >/dev/null 2>&1 &); echo x`)
	s.sb.Close()
	s.provider.Close()
	eventually(t, "processes stay", func() bool { return len(running(mark)) == 0 })
	must(t, s.newProvider().Remove(t.Context(), s.spec.Name))
	s.untouched(t)
	s.sb, s.provider = nil, nil
}

// untouched holds that no mount and no stub is left on the host.
func (s *fixture) untouched(t testing.TB) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	must(t, err)
	if bytes.Contains(mounts, []byte(s.kit.dir)) {
		t.Errorf("mounts are left:\n%s", mounts)
	}
	for _, name := range []string{".git", "HEAD", ".claude", ".agents", ".mcp.json", ".vscode", ".idea", ".zed"} {
		if _, err := os.Lstat(filepath.Join(s.agent, name)); err == nil {
			t.Errorf("%s is left", name)
		}
	}
	for _, f := range []string{"shared/file", "readme"} {
		if _, err := os.Lstat(filepath.Join(s.agent, f)); err != nil {
			t.Errorf("%s is gone, so this shows nothing", f)
		}
	}
}

func parent(t testing.TB, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	must(t, err)
	_, rest, _ := strings.Cut(string(text), ") ")
	n, err := strconv.Atoi(strings.Fields(rest)[1])
	must(t, err)
	return n
}

func killOf(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Kill()
}
