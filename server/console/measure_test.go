package console

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox/audit/violation"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/policy"
)

// TestManySandboxes measures the console with 1,000 sandboxes and 100 records a second:
// the page holds less than 200 MB, and the daemon takes at most a twentieth of a
// processor for it, and the median of the times in which the page answers a key is at
// most 100 ms. Single keys depend on what else the machine does, so the slowest are
// logged, and how long the page's thread is busy is bounded. It is run by make
// test-all.
func TestManySandboxes(t *testing.T) {
	testenv.Exhaustive(t, "it measures for half a minute")
	modules := testenv.Playwright(t)
	r := newRig(t)
	for i := range 999 { // beside that of the rig
		r.Ready("acme", fmt.Sprintf("session-%d", i))
	}
	devtools := os.Getenv("CONSOLE_DEVTOOLS")
	if devtools == "" {
		devtools = testenv.Chromium(t)
	}
	const seconds = 20
	cmd := exec.CommandContext(t.Context(), "node", filepath.Join("testdata", "measure.cjs"))
	cmd.Env = append(os.Environ(), "NODE_PATH="+modules, "CONSOLE_DEVTOOLS="+devtools, "CONSOLE_LINK="+r.base+"/ui/#login="+r.secret("acme", false), fmt.Sprintf("CONSOLE_SECONDS=%d", seconds))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var flood sync.WaitGroup
	flood.Go(func() {
		every := time.NewTicker(10 * time.Millisecond)
		defer every.Stop()
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case now := <-every.C:
				r.live.Violations([]violation.Record{{
					Time: now, Tenant: "acme", Agent: "main", Session: fmt.Sprintf("session-%d", i%999), Type: violation.NetworkViolation, Severity: policy.Medium, Verdict: policy.Deny,
					Kind: "network", Op: "connect", Resource: fmt.Sprintf("host-%d.example", i), Rule: "network.allowedDomains", Message: "denied", Program: "curl", Count: 1,
				}})
			}
		}
	})
	defer flood.Wait()
	defer close(stop)
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "ready" {
	}
	began, used := time.Now(), processTime(t)
	if !lines.Scan() {
		t.Fatal("the page was not measured")
	}
	share := float64(processTime(t)-used) / float64(time.Since(began))
	var m struct {
		Presses, Slow, Measured, Elements, Points int
		Median, P95, Worst, Memory, Heap, Busy    float64
	}
	if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
		t.Fatalf("%v %s", err, lines.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	load, _ := os.ReadFile("/proc/loadavg")
	t.Logf("page %.0f MB (heap %.0f MB, %d elements, %d points), input median %.0f ms, p95 %.0f ms, worst %.0f ms of %d presses, %d of them over 16 ms, its thread busy for %.0f %% of the time; daemon %.1f %% of a processor; load %s",
		m.Memory/1e6, m.Heap/1e6, m.Elements, m.Points, m.Median, m.P95, m.Worst, m.Presses, m.Measured, m.Busy*100, share*100, strings.TrimSpace(string(load)))
	if m.Memory > 200e6 || m.Memory == 0 || m.Elements > 3000 || m.Presses < 50 {
		t.Errorf("the page holds too much, or was not used: %+v", m)
	}
	if m.Median > 100 || m.Measured == 0 {
		t.Errorf("half of %d keys, of which %d were measured, are answered in %.0f ms or more", m.Presses, m.Measured, m.Median)
	}
	if m.Busy > 0.6 {
		t.Errorf("the page's thread is busy for %.0f %% of the time", m.Busy*100)
	}
	if share > 0.05 {
		t.Errorf("the daemon takes %.1f %% of a processor", share*100)
	}
}

func processTime(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
