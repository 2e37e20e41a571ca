package browser_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/images"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/provider/seccomp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	testenv.AtOnce(3)
	// The server of net/http sleeps half a second after closing a connection
	// for writing; the tests close them meanwhile.
	testenv.Main(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// patience bounds every wait for an event that takes a moment on an idle
// machine.
const patience = 2 * time.Minute

// A box is a container with the unmodified image, isolated as browsers are.
type box struct {
	t      testing.TB
	name   string
	cmd    *exec.Cmd
	stdout *bufio.Reader
	stderr *strings.Builder
	done   chan struct{} // closed when the supervisor has ended
	status int           // after done
}

// patiently returns settings with enough time to start: other tests start
// browsers too.
func patiently(settings map[string]string) map[string]string {
	out := map[string]string{"START_TIMEOUT": "60"}
	maps.Copy(out, settings)
	return out
}

// open starts a box with these settings, given without their prefix, behind a
// system-call filter.
func open(t testing.TB, filter string, settings map[string]string) *box {
	t.Helper()
	return openWith(t, filter, patiently(settings), nil)
}

// idle returns a box in which nothing runs yet.
func idle(t testing.TB) *box {
	t.Helper()
	b := openWith(t, seccomp.Browser(), patiently(nil), []string{"--entrypoint", "/bin/bash"}, "-c", "echo ready; exec sleep 600")
	b.ready()
	return b
}

func openWith(t testing.TB, filter string, settings map[string]string, options []string, command ...string) *box {
	t.Helper()
	testenv.Require(t, "browser")
	profile := filepath.Join(t.TempDir(), "seccomp.json")
	if err := os.WriteFile(profile, []byte(filter), 0o600); err != nil {
		t.Fatal(err)
	}
	id := make([]byte, 6)
	_, _ = rand.Read(id)
	b := &box{t: t, name: "sandbox-test-browser-" + hex.EncodeToString(id), stderr: &strings.Builder{}, done: make(chan struct{})}
	args := []string{"run", "--rm", "--init", "--name", b.name, "--label", "dev.bulkhead.sandbox.test=browser-image",
		"--network", "none", "--log-driver", "none", "--read-only", "--cap-drop", "ALL",
		"--security-opt", "no-new-privileges", "--security-opt", "seccomp=" + profile,
		"--user", "4711:4711", "--env", "HOME=/home/sandbox", "--pids-limit", "512", "--memory", "1g",
		"--tmpfs", "/tmp:rw,nosuid,nodev,noexec,size=67108864,mode=1777",
		"--tmpfs", "/run:rw,nosuid,nodev,noexec,size=67108864,mode=700,uid=4711,gid=4711",
		"--tmpfs", "/home/sandbox:rw,nosuid,nodev,noexec,size=268435456,mode=700,uid=4711,gid=4711"}
	for k, v := range settings {
		args = append(args, "--env", "SANDBOX_BROWSER_"+k+"="+v)
	}
	b.cmd = exec.Command("docker", append(append(append(args, options...), images.BrowserImage), command...)...)
	b.cmd.Stderr = b.stderr
	out, err := b.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	b.stdout = bufio.NewReader(out)
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = exec.Command("docker", "rm", "--force", b.name).Run()
		_ = b.cmd.Process.Kill()
		b.end()
	})
	return b
}

// browserBox returns a box whose browser is ready.
func browserBox(t testing.TB, settings map[string]string) *box {
	t.Helper()
	b := open(t, seccomp.Browser(), settings)
	b.ready()
	return b
}

// of is b for a test that is part of the one which has opened it.
func (b *box) of(t testing.TB) *box {
	part := *b
	part.t = t
	return &part
}

// ready waits for the one line that a supervisor writes.
func (b *box) ready() {
	b.t.Helper()
	line := make(chan string, 1)
	go func() {
		text, _ := b.stdout.ReadString('\n')
		line <- text
	}()
	select {
	case text := <-line:
		if text != "ready\n" {
			b.end()
			b.t.Fatalf("got %q instead of ready; status %d, errors:\n%s", text, b.status, b.stderr)
		}
	case <-time.After(patience):
		b.t.Fatalf("not ready after %v", patience)
	}
}

// end waits until the supervisor has ended, and returns its exit status and
// what it wrote after the line of ready.
func (b *box) end() (status int, output string) {
	select {
	case <-b.done:
		return b.status, ""
	default:
	}
	timer := time.AfterFunc(patience, func() { _ = b.cmd.Process.Kill() })
	defer timer.Stop()
	var rest strings.Builder
	_, _ = b.stdout.WriteTo(&rest)
	_ = b.cmd.Wait()
	b.status = b.cmd.ProcessState.ExitCode()
	close(b.done)
	return b.status, rest.String()
}

// signal sends one to the supervisor, as the end of a container does.
func (b *box) signal(name string) {
	b.t.Helper()
	if out, err := exec.Command("docker", "kill", "--signal", name, b.name).CombinedOutput(); err != nil {
		b.t.Fatalf("docker kill: %v: %s", err, out)
	}
}

// try runs a line of bash inside and returns its output and exit status.
func (b *box) try(line string, env ...string) (string, int) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	args := []string{"exec"}
	for _, e := range env {
		args = append(args, "--env", e)
	}
	cmd := exec.CommandContext(ctx, "docker", append(args, b.name, "bash", "-c", line)...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		b.t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// sh is try for a line that must succeed.
func (b *box) sh(line string) string {
	b.t.Helper()
	out, status := b.try(line)
	if status != 0 {
		b.t.Fatalf("%s: status %d: %s", line, status, out)
	}
	return out
}
