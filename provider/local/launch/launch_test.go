//go:build linux

package launch_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/provider/local/launch"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const guestInside = "/.sandbox/bin/sandbox-guest"

// plain is a small instance: the system's programs and the guest.
func plain(t testing.TB) launch.Order {
	t.Helper()
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		testenv.Lack(t, "local", err)
	}
	guest := testenv.Guest(t)
	const uid = 471100
	o := launch.Order{Bwrap: bwrap, Guest: guestInside}
	source := func(path string) string { return path }
	if os.Geteuid() == 0 {
		o.Down = &launch.Down{UID: uid, GID: uid}
		source = func(path string) string {
			o.Down.Sources = append(o.Down.Sources, path)
			return launch.Staged(len(o.Down.Sources) - 1)
		}
	}
	o.Args = []string{
		"--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--disable-userns",
		"--die-with-parent", "--new-session", "--as-pid-1", "--clearenv", "--setenv", "PATH", "/usr/bin:/bin", "--cap-drop", "ALL",
		"--uid", strconv.Itoa(uid), "--gid", strconv.Itoa(uid),
		"--ro-bind", source("/usr"), "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
		"--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--ro-bind", source(guest), guestInside,
	}
	return o
}

func output(t testing.TB, c *client.Client, args ...string) string {
	t.Helper()
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	var out bytes.Buffer
	p, err := c.Start(ctx, sandbox.Command{Args: args, Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out.String())
}

func start(t testing.TB, o launch.Order) *launch.Instance {
	t.Helper()
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	w, err := launch.Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !w.Kill() {
			t.Error("the sandbox does not end")
		}
	})
	return w
}

func connect(t testing.TB, w *launch.Instance) *client.Client {
	t.Helper()
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	c, err := w.Connect(ctx, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestSandboxRunsCommands(t *testing.T) {
	w := start(t, plain(t))
	a, b := connect(t, w), connect(t, w)
	if got := output(t, a, "echo", "first"); got != "first" {
		t.Errorf("got %q", got)
	}
	a.Close()
	if got := output(t, b, "id", "-u"); got != "471100" {
		t.Errorf("the second session, after the first was closed: %q", got)
	}
	status, err := os.ReadFile("/proc/" + strconv.Itoa(w.First().PID) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if uids, ok := strings.CutPrefix(line, "Uid:"); ok && strings.Fields(uids)[0] == "0" {
			t.Errorf("the sandbox's first process is root on the host: %s", line)
		}
	}
	if !w.Close() {
		t.Error("it does not end")
	}
	if up, err := w.First().Alive(); up || err != nil {
		t.Error("its first process lives on")
	}
}

// TestSandboxSharesNothingOfOurs holds that an instance is not ended by what a
// terminal sends to our programs, and that a service which the kernel spares
// when memory runs out does not have its instances spared too.
func TestSandboxSharesNothingOfOurs(t *testing.T) {
	const score = "/proc/self/oom_score_adj"
	before, err := os.ReadFile(score)
	if err != nil {
		t.Fatal(err)
	}
	protected := os.WriteFile(score, []byte("-300"), 0) == nil
	w := start(t, plain(t))
	if protected {
		if err := os.WriteFile(score, before, 0); err != nil {
			t.Fatal(err)
		}
	}
	c := connect(t, w)
	if got := output(t, c, "cat", score); strings.HasPrefix(got, "-") {
		t.Errorf("commands have the score %s", got)
	}
	ours, err := unix.Getsid(0)
	if err != nil {
		t.Fatal(err)
	}
	status, err := os.ReadFile("/proc/" + strconv.Itoa(w.First().PID) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, "PPid:"); ok {
			parent, err := strconv.Atoi(strings.TrimSpace(text))
			if err != nil {
				t.Fatal(err)
			}
			if sid, err := unix.Getsid(parent); err != nil || sid == ours || sid != parent {
				t.Errorf("bubblewrap, %d, is in session %d, %v; we are in %d", parent, sid, err, ours)
			}
		}
	}
}

func TestSandboxThatCannotBeBuilt(t *testing.T) {
	o := plain(t)
	o.Args = append(o.Args, "--ro-bind", "/no/such/folder", "/x")
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	w, err := launch.Start(ctx, o)
	if err == nil {
		defer w.Kill()
		_, err = w.Connect(ctx, client.Options{})
	}
	if err == nil || !strings.Contains(err.Error(), "/no/such/folder") {
		t.Errorf("got %v", err)
	}
}

// TestSandboxThatEndsEarly holds that a program which ends before it has read what
// to build is reported with what it said, and not as a broken pipe.
func TestSandboxThatEndsEarly(t *testing.T) {
	o := plain(t)
	o.Bwrap = filepath.Join(t.TempDir(), "bwrap")
	if err := os.WriteFile(o.Bwrap, []byte("#!/bin/sh\necho out of order >&2\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	o.Down = nil
	o.Args = append(o.Args, strings.Repeat("x", 1<<20)) // more than a pipe holds
	_, err := launch.Start(context.Background(), o)
	if err == nil || errors.Is(err, unix.EPIPE) || !strings.Contains(err.Error(), "out of order") || !strings.Contains(err.Error(), "it ended before") {
		t.Errorf("%v", err)
	}
}

func TestSandboxThatHangs(t *testing.T) {
	o := plain(t)
	script := filepath.Join(t.TempDir(), "bwrap")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nexec sleep 1000\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	o.Bwrap, o.Down = script, nil
	ctx, done := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer done()
	begin := time.Now()
	if _, err := launch.Start(ctx, o); err == nil || ctx.Err() == nil {
		t.Errorf("got %v", err)
	}
	if took := time.Since(begin); took > time.Minute { // it would wait for a thousand seconds
		t.Errorf("it took %v", took)
	}
}

func BenchmarkWall(b *testing.B) {
	o := plain(b)
	for b.Loop() {
		w := start(b, o)
		c := connect(b, w)
		output(b, c, "true")
		b.StopTimer()
		c.Close()
		w.Kill()
		b.StartTimer()
	}
}
