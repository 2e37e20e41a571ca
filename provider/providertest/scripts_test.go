package providertest

import (
	"bytes"
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
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// onHost runs a portable program on the machine itself: the scripts are tested
// without a sandbox, in every shell that is installed.
func onHost(t *testing.T, c sandbox.Command, stdin string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errOut bytes.Buffer
	cmd := exec.CommandContext(t.Context(), c.Args[0], c.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errOut
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatalf("%.60q: %v", c.Args, err)
	}
	ws := cmd.ProcessState.Sys().(syscall.WaitStatus)
	code = ws.ExitStatus()
	if ws.Signaled() {
		code = 128 + int(ws.Signal())
	}
	return code, out.String(), errOut.String()
}

func TestScripts(t *testing.T) {
	p := scripts()
	tests := []struct {
		name           string
		c              sandbox.Command
		stdin          string
		code           int
		stdout, stderr string
	}{
		{"true", p.True(), "", 0, "", ""},
		{"exit", p.Exit(255), "", 255, "", ""},
		{"raise", p.Raise("TERM"), "", 143, "", ""},
		{"raise KILL", p.Raise("KILL"), "", 137, "", ""},
		{"echo", p.Echo("%s\\n -n", "err"), "", 0, "%s\\n -n", "err"},
		{"echo nothing", p.Echo("", ""), "", 0, "", ""},
		{"copy", p.Copy(), "a\x00\xff", 0, "a\x00\xff", ""},
		{"copy to stderr", p.CopyToStderr(), "a\x00\xff", 0, "", "a\x00\xff"},
		{"zeros", p.Zeros(3), "", 0, "\x00\x00\x00", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, stdout, stderr := onHost(t, tt.c, tt.stdin)
			if code != tt.code || stdout != tt.stdout || stderr != tt.stderr {
				t.Errorf("status %d, stdout %q, stderr %q", code, stdout, stderr)
			}
		})
	}
	if _, out, _ := onHost(t, p.OpenFiles(), ""); !isNumber(out) {
		t.Errorf("OpenFiles printed %q", out)
	}
}

func isNumber(s string) bool {
	_, err := strconv.Atoi(strings.TrimSpace(s))
	return err == nil
}

// carriers returns the processes that are "sleep MARKER", read without the
// script under test.
func carriers(t *testing.T, marker int) []int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err == nil && string(b) == "sleep\x00"+strconv.Itoa(marker)+"\x00" {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(f)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestTreeAndCount holds that Tree starts TreeSize carriers and that Count
// sees exactly those.
func TestTreeAndCount(t *testing.T) {
	p := scripts()
	marker := newMarker()
	count := func() string {
		_, out, _ := onHost(t, p.Count(marker), "")
		return strings.TrimSpace(out)
	}
	if got := count(); got != "0" {
		t.Errorf("before the start Count says %s", got)
	}
	cmd := exec.Command("sh", p.Tree(marker).Args[1:]...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		for _, pid := range carriers(t, marker) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		cmd.Wait()
	})
	testenv.Success(t, func() error {
		if n := len(carriers(t, marker)); n != TreeSize {
			return fmt.Errorf("%d carriers, want %d", n, TreeSize)
		}
		return nil
	})
	if got := count(); got != strconv.Itoa(TreeSize) {
		t.Errorf("Count says %s, want %d", got, TreeSize)
	}
}

// TestTermScripts holds what the programs that handle TERM do with it.
func TestTermScripts(t *testing.T) {
	p := scripts()
	marker := newMarker()
	t.Cleanup(func() {
		for _, pid := range carriers(t, marker) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	ready := newGather()
	cmd := exec.Command("sh", p.OnTerm(marker, 7).Args[1:]...)
	cmd.Stdout = ready
	cmd.WaitDelay = time.Second // its child holds the output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := &rig{TB: t, h: Harness{Patience: testenv.Patience}}
	r.await(ready, "ready")
	cmd.Process.Signal(syscall.SIGTERM)
	r.await(ready, "term")
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 7 {
		t.Errorf("OnTerm ended with %d after %q", code, ready.String())
	}
}
