//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/container"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// asProgram makes the test binary be the program, for the tests that send it
// a signal.
const asProgram = "SANDBOX_BENCH_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	testenv.AtOnce(4)
	os.Exit(m.Run())
}

// needs skips or fails the test where no sandbox can be made.
func needs(t *testing.T) *container.Engine {
	t.Helper()
	testenv.Require(t, "docker")
	testenv.Require(t, "root")
	api, err := container.Dial()
	if err != nil {
		t.Fatal(err)
	}
	e := container.New(api, container.Deadlines{})
	t.Cleanup(func() { e.Close() })
	return e
}

// TestSmallRun measures everything a few times and holds that each operation
// has worked, that what the sandbox can do was measured, and that nothing is
// left behind. It is "make bench" in small, and comes with "make test-all": the
// operations have tests of their own in the packages that do them.
func TestSmallRun(t *testing.T) {
	testenv.Exhaustive(t, "each operation of make bench, with everything that it is compared with")
	t.Parallel()
	e := needs(t)
	o := options{
		slack: 1, image: "sandbox:bookworm-slim", guest: testenv.Guest(t), in: passable(t), program: program(t),
		json: filepath.Join(t.TempDir(), "report.json"), doc: filepath.Join(t.TempDir(), "doc.md"),
		effort: Effort{Name: "tiny", Least: 2, Callers: 1, Sandboxes: 3, Bytes: 1 << 20, Large: 2 << 20, Burst: 2, Boxes: 2, Making: time.Minute, Resting: 100 * time.Millisecond},
	}
	if err := os.WriteFile(o.doc, []byte("above\n"+Begin+"\n"+End+"\nbelow\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	name := ""
	rep, err := o.measure(t.Context(), func(format string, args ...any) {
		t.Logf(format, args...)
		if strings.HasPrefix(format, "making the container") {
			name = args[0].(string)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	checkGone(t, e, name, o.in)
	checkResults(t, rep)

	var out bytes.Buffer
	if err := o.hand(rep, &out); err != nil {
		t.Fatal(err)
	}
	checkHanded(t, o, rep, out.String())
}

// passable is a temporary folder that ordinary users may go through.
func passable(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// program builds sandbox(1), whose daemon is measured, as "make build" does: what
// it is made of has been compiled already then.
func program(t *testing.T) string {
	t.Helper()
	path := filepath.Join(passable(t), "sandbox")
	c := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-tags", "urfave_cli_no_docs", "-o", path, "github.com/bulkhead-dev/sandbox/cmd/sandbox")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// checkResults looks at every row that a run must have.
func checkResults(t *testing.T, rep Report) {
	t.Helper()
	ways := map[string][]string{}
	for _, res := range rep.Results {
		ways[res.Op] = append(ways[res.Op], res.Way)
		switch {
		case res.Unsupported != "":
			if res.N != 0 {
				t.Errorf("%s by %s is not supported and was measured", res.Op, res.Way)
			}
		case res.N < 2 || res.P50 <= 0 || res.P50 > res.P95 || res.P95 > res.P99:
			t.Errorf("%s by %s is %+v", res.Op, res.Way, res.Summary)
		}
	}
	all := []string{WayEngine, WaySocket, WayRelay, WayHost}
	withLocal := append(slices.Clone(all), WayLocal)
	want := map[string][]string{
		OpPing: all[:3], OpBuiltin: append(slices.Clone(all[:3]), WayLocal), OpAssign: append(slices.Clone(all[:3]), WayLocal),
		OpStart: all[:2],
		OpExec:  withLocal, OpRested: withLocal, OpSandboxStart: {WayHand, WayLocal},
	}
	for _, op := range []string{
		OpStat, OpList, OpRead4K, OpRead1M, OpRead64M,
		OpWrite4K, OpWrite1M, OpWrite64M, OpCallers16, OpCallers64,
	} {
		want[op] = all
	}
	for _, op := range []string{OpRequest, OpConnect, OpTunnel, OpFetch} {
		want[op] = []string{WayHost, WayLocal, WaySocket, WayRelay}
	}
	want[OpBrowser] = []string{WayEngine, WaySocket}
	want[OpDevTools] = want[OpBrowser]
	want[OpShot], want[OpPage] = []string{WaySocket}, []string{WaySocket}
	want[OpOperate] = []string{WaySilent, WaySocket}
	want[OpProfile], want[OpGuard] = []string{WayHost}, []string{WayHost}
	want[OpClaim] = []string{WayEngine, WayExec, WayPool, WayFrozen, WayManager}
	want[OpBurst] = []string{WayEngine, WayPool}
	want[OpServed] = []string{WayEngine, WaySocket, WayManager, WayHTTP, WaySSE, WayTCP}
	want[OpTool] = []string{WayEngine, WayHTTP, WayMCP}
	want[OpWarm] = []string{WayHealth, WayStatHTTP, WayReadHTTP, WayHTTP, WayGet}
	want[OpE2BBurst] = []string{WayPool}
	want[OpE2BCreate] = []string{WayFloor, WayPool}
	want[OpE2BRun], want[OpE2BRead] = []string{WayFloor, WayHTTP}, []string{WayFloor, WayHTTP}
	want[OpServed1M] = []string{WayEngine, WayHTTP}
	want[OpPort] = []string{WayHost, WayForward, WayHTTP}
	want[OpPortLarge] = want[OpPort]
	want[OpOneShot], want[OpProgram] = []string{WayHand, WayLocal}, []string{WayHost}
	for _, op := range []string{OpUserOnce, OpUserRepo, OpRootOnce, OpRootRepo} {
		want[op] = []string{WayHand, WayLocal}
	}
	want[OpHold] = []string{WayHost, WayLocal}
	for op, names := range want {
		if got := strings.Join(ways[op], " "); got != strings.Join(names, " ") {
			t.Errorf("%s was measured by %q, want %v", op, got, names)
		}
	}
	if len(rep.Memory) != 4 || len(rep.Verdicts) == 0 {
		t.Errorf("memory %+v, verdicts %+v", rep.Memory, rep.Verdicts)
	}
	if i := rep.Idle; i == nil || i.Sandboxes != 2 || i.Wanted != 2 || i.RSS < 1<<20 || i.Rest < 100*time.Millisecond {
		t.Errorf("idle %+v", i)
	}
	for i, m := range rep.Memory[:min(3, len(rep.Memory))] { // the last is a difference, and may be anything
		if m.Processes < 1+i/2 || m.PSS <= 0 || m.RSS < m.PSS {
			t.Errorf("memory %+v", m)
		}
	}
}

// checkHanded looks at what the program prints and writes.
func checkHanded(t *testing.T, o options, rep Report, out string) {
	t.Helper()
	if out != rep.Text() {
		t.Errorf("it prints %q", out)
	}
	doc, err := os.ReadFile(o.doc)
	if err != nil {
		t.Fatal(err)
	}
	if s := string(doc); !strings.Contains(s, strings.TrimSpace(rep.Page())) || !strings.HasPrefix(s, "above\n") || !strings.HasSuffix(s, "\nbelow\n") {
		t.Errorf("the document is %q", s)
	}
	var back Report
	text, err := os.ReadFile(o.json)
	if err == nil {
		err = json.Unmarshal(text, &back)
	}
	if err != nil || back.Text() != rep.Text() {
		t.Errorf("the file is not the report: %v", err)
	}
}

// checkGone holds that neither container nor file is left, nor a home that is
// mounted or has a device.
func checkGone(t *testing.T, e *container.Engine, name, dir string) {
	t.Helper()
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	if name == "" {
		t.Error("no container was made")
	} else if info, err := e.Inspect(ctx, name); !sandbox.IsNotFound(err) {
		t.Errorf("the container is left: %+v, %v", info, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left in the folder: %v, %v", left, err)
	}
	if left := homesBelow(t, dir); len(left) > 0 {
		t.Errorf("left mounted: %q", left)
	}
}

// homesBelow are the mounts below dir, and the files below dir that loop devices
// have.
func homesBelow(t *testing.T, dir string) (found []string) {
	t.Helper()
	backing, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(backing, "/proc/self/mountinfo") {
		text, err := os.ReadFile(name)
		if err != nil && name == "/proc/self/mountinfo" {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) { // a device that is gone has none
			if strings.Contains(line, dir+"/") {
				found = append(found, strings.TrimSpace(line))
			}
		}
	}
	return found
}

// TestFailureLeavesNothing has a row fail after sandboxes of a pool have been
// claimed and a session of another manager has its home.
func TestFailureLeavesNothing(t *testing.T) {
	t.Parallel()
	e := needs(t)
	dir := passable(t)
	o := options{slack: 1, image: "sandbox:bookworm-slim", guest: testenv.Guest(t), in: dir, only: OpClaim,
		effort: Effort{Name: "tiny", Least: 2, Callers: 1, Sandboxes: 3, Bytes: 1 << 20, Large: 2 << 20, Burst: 1, Boxes: 1, Making: time.Minute, Resting: 100 * time.Millisecond}}
	ctx, fail := context.WithCancelCause(t.Context())
	broken := errors.New("the row fails")
	ended := make(chan struct{})
	go func() { // when the homes are there
		defer close(ended)
		for ctx.Err() == nil {
			if found := homesBelow(t, dir); slices.ContainsFunc(found, func(s string) bool { return strings.Contains(s, "/within/") }) {
				fail(broken)
			}
			time.Sleep(time.Millisecond)
		}
	}()
	name := ""
	_, err := o.measure(ctx, func(format string, args ...any) {
		if strings.HasPrefix(format, "making the container") {
			name = args[0].(string)
		}
	})
	fail(nil)
	<-ended
	if err == nil || context.Cause(ctx) != broken {
		t.Errorf("it ended with %v, %v", err, context.Cause(ctx))
	}
	checkGone(t, e, name, dir)
}

// TestSignalLeavesNothing ends the program in the middle of its work.
func TestSignalLeavesNothing(t *testing.T) {
	t.Parallel()
	e := needs(t)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			c := exec.Command(os.Args[0], "--only", "exec", "--dir", dir, "--guest", testenv.Guest(t))
			c.Env = append(os.Environ(), asProgram+"=1")
			stderr, err := c.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			defer c.Process.Kill()
			name, said := "", ""
			for lines := bufio.NewScanner(stderr); lines.Scan(); {
				said += lines.Text() + "\n"
				if _, rest, ok := strings.Cut(lines.Text(), "making the container "); ok {
					name = rest
				}
				if strings.HasSuffix(lines.Text(), OpExec) {
					if err := c.Process.Signal(sig); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := c.Wait(); c.ProcessState.ExitCode() != 1 {
				t.Errorf("it ended with %v: %s", err, said)
			}
			checkGone(t, e, name, dir)
		})
	}
}

func TestUsage(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want int
	}{
		{"help", []string{"--help"}, 0},
		{"unknown flag", []string{"--nonsense"}, 2},
		{"arguments", []string{"x"}, 2},
		{"slack that tightens", []string{"--slack", "0.5"}, 2},
		{"a short run for the document", []string{"--quick", "--doc", "x"}, 2},
		{"a part for the document", []string{"--only", "exec", "--doc", "x"}, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			if got := run(t.Context(), tt.args, &out, &errOut); got != tt.want || errOut.Len() == 0 {
				t.Errorf("exit status %d, %q", got, errOut.String())
			}
		})
	}
}

func TestCheckJudges(t *testing.T) {
	kept := Verdict{Budget: "a", Limit: 2, Value: 1, Outcome: Met}
	missed := Verdict{Budget: "b", Limit: 2, Value: 3, Outcome: Missed}
	left := Verdict{Budget: "c", Limit: 2, Outcome: NotMeasured}
	tests := []struct {
		name     string
		o        options
		verdicts []Verdict
		want     int
	}{
		{"all kept", options{check: true, slack: 1}, []Verdict{kept}, 0},
		{"one missed", options{check: true, slack: 1}, []Verdict{kept, missed}, 1},
		{"missed within slack", options{check: true, slack: 1.5}, []Verdict{kept, missed}, 0},
		{"not measured", options{check: true, slack: 9}, []Verdict{left}, 1},
		{"nobody asked", options{slack: 1}, []Verdict{missed, left}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.o.judge(Report{Verdicts: tt.verdicts}, t.Logf)
			if got != tt.want {
				t.Errorf("exit status %d", got)
			}
		})
	}
}
