//go:build linux

package main

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// times is a summary with the median p50 of n samples.
func times(n int, p50, p99 time.Duration) Summary {
	return Summary{N: n, Min: p50 / 2, P50: p50, P95: (p50 + p99) / 2, P99: p99, Max: p99}
}

// example is a run with every kind of row: compared, faster and slower than
// the engine, not supported, with a rate, with nothing to compare.
func example() Report {
	const us = time.Microsecond
	r := Report{
		Machine: reportMachine{
			Cores: 2, Processor: "Some Processor", Memory: 8 << 30, Kernel: "6.1.0", Go: "go1.26",
			Engine: "20.10.24", API: "1.41", Runtime: "runc", Storage: "overlay2", Cgroup: "1", Workspace: "ext4", Load: 0.25,
		},
		Mode: "full", Took: 301.4,
		Results: []reportResult{
			{Op: OpExec, Way: WayEngine, Summary: times(150, 40_000*us, 54_000*us)},
			{Op: OpExec, Way: WaySocket, Summary: times(1500, 1_000*us, 2_125*us)},
			{Op: OpExec, Way: WayRelay, Summary: times(1500, 4_000*us, 5_000*us)},
			{Op: OpBuiltin, Way: WayEngine, Summary: times(100, 40_000*us, 50_000*us)},
			{Op: OpBuiltin, Way: WaySocket, Unsupported: "there are no shells"},
			{Op: OpStat, Way: WayEngine, Summary: times(100, 42_000*us, 50_000*us)},
			{Op: OpStat, Way: WaySocket, Summary: times(2000, 100*us, 150*us)},
			{Op: OpRead64M, Way: WayEngine, Bytes: 64 << 20, Summary: times(12, 500_000*us, 600_000*us)},
			{Op: OpRead64M, Way: WaySocket, Bytes: 64 << 20, Summary: times(24, 67_108_864*time.Nanosecond, 80_000*us)},
			{Op: OpWrite64M, Way: WaySocket, Bytes: 64 << 20, Summary: times(24, 134_217_728*time.Nanosecond, 160_000*us)},
			{Op: OpCallers64, Way: WaySocket, Summary: times(6400, 12_000*us, 20_000*us)},
			{Op: OpSandboxStart, Way: WayHand, Summary: times(40, 4_000*us, 5_000*us)},
			{Op: OpSandboxStart, Way: WayLocal, Summary: times(40, 16_000*us, 20_000*us)},
			{Op: OpOneShot, Way: WayHand, Summary: times(60, 4_000*us, 5_000*us)},
			{Op: OpOneShot, Way: WayLocal, Summary: times(60, 14_000*us, 18_000*us)},
			{Op: OpUserOnce, Way: WayHand, Summary: times(60, 5_000*us, 6_000*us)},
			{Op: OpUserOnce, Way: WayLocal, Summary: times(60, 15_000*us, 18_000*us)},
			{Op: OpUserRepo, Way: WayHand, Summary: times(60, 5_000*us, 6_000*us)},
			{Op: OpUserRepo, Way: WayLocal, Summary: times(60, 40_000*us, 48_000*us)},
			{Op: OpRootRepo, Way: WayHand, Unsupported: "git is missing"},
			{Op: OpRootRepo, Way: WayLocal, Unsupported: "git is missing"},
			{Op: OpProgram, Way: WayHost, Summary: times(50, 6_700*us, 7_300*us)},
			{Op: OpGuard, Way: WayHost, Summary: times(2000, 4*us, 60*us)},
			{Op: OpOperate, Way: WaySilent, Summary: times(600, 400*us, 600*us)},
			{Op: OpOperate, Way: WaySocket, Summary: times(600, 500*us, 900*us)},
			{Op: OpRequest, Way: WayHost, Summary: times(1200, 30*us, 50*us)},
			{Op: OpRequest, Way: WayLocal, Summary: times(1200, 120*us, 200*us)},
			{Op: OpRequest, Way: WaySocket, Summary: times(1200, 1_500*us, 2_000*us)},
			{Op: OpTunnel, Way: WayHost, Bytes: 1 << 30, Summary: times(8, 268_435_456*time.Nanosecond, 300_000*us)},
			{Op: OpTunnel, Way: WayLocal, Bytes: 1 << 30, Summary: times(8, 536_870_912*time.Nanosecond, 600_000*us)},
			{Op: OpBrowser, Way: WayEngine, Summary: times(10, 1_200_000*us, 2_000_000*us)},
			{Op: OpBrowser, Way: WaySocket, Summary: times(10, 1_600_000*us, 12_500_000*us)},
			{Op: OpServed, Way: WayManager, Summary: times(100, 1700*us, 2100*us)},
			{Op: OpServed, Way: WayHTTP, Summary: times(100, 2700*us, 3100*us)},
			{Op: OpServed, Way: WayTCP, Summary: times(100, 2800*us, 3300*us)},
			{Op: OpServed, Way: WaySocket, Summary: times(100, 850*us, 1100*us)},
			{Op: OpTool, Way: WayHTTP, Summary: times(60, 2000*us, 2600*us)},
			{Op: OpTool, Way: WayMCP, Summary: times(60, 2300*us, 2900*us)},
			{Op: OpWarm, Way: WayHealth, Summary: times(1200, 150*us, 300*us)},
			{Op: OpWarm, Way: WayStatHTTP, Summary: times(1200, 550*us, 900*us)},
			{Op: OpWarm, Way: WayReadHTTP, Summary: times(1200, 560*us, 900*us)},
			{Op: OpWarm, Way: WayHTTP, Summary: times(1200, 1150*us, 1900*us)},
			{Op: OpWarm, Way: WayGet, Summary: times(1200, 1350*us, 2100*us)},
			{Op: OpE2BBurst, Way: WayPool, Summary: times(100, 200_000*us, 280_000*us)},
			{Op: OpE2BCreate, Way: WayFloor, Summary: times(40, 2_000*us, 3_000*us)},
			{Op: OpE2BCreate, Way: WayPool, Summary: times(40, 9_000*us, 12_000*us)},
			{Op: OpE2BRun, Way: WayFloor, Summary: times(400, 1_500*us, 2_000*us)},
			{Op: OpE2BRun, Way: WayHTTP, Summary: times(400, 4_000*us, 5_000*us)},
			{Op: OpE2BRead, Way: WayFloor, Summary: times(400, 900*us, 1_500*us)},
			{Op: OpE2BRead, Way: WayHTTP, Summary: times(400, 1_400*us, 2_000*us)},
			{Op: OpClaim, Way: WayPool, Summary: times(40, 3000*us, 4000*us)},
			{Op: OpBurst, Way: WayPool, Summary: times(100, 100_000*us, 604_000*us)},
		},
		Memory: []reportMemory{
			{State: memoryFresh, Processes: 2, RSS: 5 << 20, PSS: 3 << 20},
			{State: memoryUsed, Processes: 2, RSS: 9 << 20, PSS: 7 << 20},
		},
	}
	r.Derive()
	return r
}

func TestTextIsTheGoldenTable(t *testing.T) {
	r := example()
	golden(t, "table.golden", r.Text())
}

// TestPageIsTheGoldenTable checks the form for the documentation, which has
// one table.
func TestPageIsTheGoldenTable(t *testing.T) {
	r := example()
	got := r.Page()
	golden(t, "page.golden", got)
	if n := strings.Count(got, "\n|---"); n != 1 {
		t.Errorf("%d tables, want 1", n)
	}
}

// golden compares got with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the text is\n%s\nwant\n%s", got, want)
	}
	for line := range strings.Lines(got) {
		if strings.TrimRight(line, " \n") != strings.TrimSuffix(line, "\n") {
			t.Errorf("%q ends with blanks", line)
		}
	}
}

func TestVerdicts(t *testing.T) {
	want := map[string]string{
		"exec over the socket, p50":                            Met,         // 1.00 of 1.5
		"exec over the socket, against the engine":             Met,         // 40 of 25
		"shell builtin over the socket, p50":                   NotMeasured, // not supported
		"read of 4 KiB over the socket, p50":                   NotMeasured, // left out
		"read of 4 KiB over the socket, against the engine":    NotMeasured,
		"stat over the socket, p50":                            Met,    // 0.10 of 0.15
		"stat over the socket, against the engine":             Met,    // 420 of 250
		"read of 64 MiB over the socket":                       Met,    // 1000 of 500 MB/s
		"write of 64 MiB over the socket":                      Met,    // 500 of 500
		"exec over the relay, against the engine":              Missed, // 10 of 15
		"read of 4 KiB over the relay, against the engine":     NotMeasured,
		"64 callers over the socket, p99 in p50 of one caller": Met, // 20 of 20

		"local sandbox and first command in a running program, p50":     Met, // 16 of 30
		"exec in a local sandbox, p50":                                  NotMeasured,
		"shell builtin in a local sandbox, p50":                         NotMeasured,
		"decision about a typical line, p50":                            NotMeasured,
		"decision about 64 KiB, p99":                                    NotMeasured,
		"sandbox --provider local run, in the same bwrap typed by hand": Missed, // 3.5 of 3

		"one command, scratch workspace, ordinary user, in bwrap typed by hand": Met,    // 3 of 3
		"one command, repository of 300 files, ordinary user, in the same":      Missed, // 8 of 4
		"one command, scratch workspace, root, in the same":                     NotMeasured,
		"one command, repository of 300 files, root, in the same":               NotMeasured, // not supported

		"profile of a call, p95":                                    NotMeasured,
		"operation held against it, p95":                            Missed, // 0.032 of 0.02
		"evidence, added to an operation, p50":                      Met,    // 0.1 of 0.2
		"egress of a local sandbox, added to a request, p50":        Met,    // 0.09 of 1
		"way out of a container, added to a request, p50":           Missed, // 1.47 of 1
		"egress of a local sandbox, added to a new connection, p50": NotMeasured,
		"download through a tunnel out of a local sandbox":          Met, // 2000 of 400 MB/s
		"download through a tunnel out of a container":              NotMeasured,

		"browser ready, p50":                         Met,    // 1.6 of 3 s
		"browser ready, worst":                       Missed, // 12.5 of 12 s
		"page of the workspace and its picture, p50": NotMeasured,

		"guest and stages, idle, fresh (PSS)":                Met,    // 3 of 6 MiB
		"guest and stages, idle, after 1,000 commands (PSS)": Missed, // 7 of 6
	}
	for name, outcome := range map[string]string{
		"daemon over its unix socket, added to an exec, p50":    Met,    // 1 of 1
		"daemon over TCP with a token, added to an exec, p50":   Missed, // 1.1 of 1
		"daemon with a stream of events, added to an exec, p50": NotMeasured,
		"warm stat over HTTP, added to healthz, p50":            Met,    // 0.4 of 0.4
		"warm read of 4 KiB over HTTP, added to healthz, p50":   Missed, // 0.41 of 0.4
		"warm exec over HTTP, added to healthz, p50":            Met,    // 1 of 1
		"GET of a sandbox, added to healthz, p50":               Missed, // 1.2 of 0.2
		"shell line by MCP, in the same over HTTP, p50":         Missed, // 1.15 of 1.1

		"exec, judged and on record, in the same over the guest's socket alone, p50": Met, // 2 of 2

		"create out of the pool by E2B's client, added to the floor, p50": Met,    // 7 of 8
		"commands.run by E2B's client, added to the floor, p50":           Missed, // 2.5 of 2
		"files.read by E2B's client, added to the floor, p50":             Met,    // 0.5 of 0.5
		"100 creates at once by E2B's client, p95":                        Met,    // about 280 of 300
		"forwarded request, added to the same on the host, p50":           NotMeasured, "request to a port by a daemon, added to the same on the host, p50": NotMeasured, "download through a forwarded port": NotMeasured,

		"checkpoint of a workspace of 1 GiB in 50,000 files, p50":        NotMeasured,
		"copy of it where no means shares files, speed in that of cp -a": NotMeasured,
		"rollback of it, p50":                                            NotMeasured,
		"list of 100 changes in it, p50":                                 NotMeasured,
		"fork of it out of the pool and first output, p50":               NotMeasured,
		"reads of files after 1,000 checkpoints, in the same after none": NotMeasured,
		"claim from the pool and first output, p50":                      Met, // 3 of 5
		"thaw and first output, p50":                                     NotMeasured,
		"100 claims at once, p95 of first outputs":                       Missed, // 352 of 350
		"daemon with 500 idle sandboxes (RSS)":                           NotMeasured,
		"daemon with idle sandboxes, of one processor":                   NotMeasured,
	} {
		want[name] = outcome
	}
	got := map[string]string{}
	for _, v := range example().Verdicts {
		got[v.Budget] = v.Outcome
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}

func TestSlackRelaxesLimits(t *testing.T) {
	tests := []struct {
		name  string
		v     Verdict
		slack float64
		want  bool
	}{
		{"at most, kept", Verdict{Limit: 6, Value: 6, Outcome: Met}, 1, true},
		{"at most, missed", Verdict{Limit: 6, Value: 6.01, Outcome: Missed}, 1, false},
		{"at most, within slack", Verdict{Limit: 6, Value: 7, Outcome: Missed}, 1.2, true},
		{"at most, beyond slack", Verdict{Limit: 6, Value: 8, Outcome: Missed}, 1.2, false},
		{"at least, kept", Verdict{AtLeast: true, Limit: 25, Value: 25, Outcome: Met}, 1, true},
		{"at least, missed", Verdict{AtLeast: true, Limit: 25, Value: 24, Outcome: Missed}, 1, false},
		{"at least, within slack", Verdict{AtLeast: true, Limit: 25, Value: 13, Outcome: Missed}, 2, true},
		{"at least, beyond slack", Verdict{AtLeast: true, Limit: 25, Value: 12, Outcome: Missed}, 2, false},
		{"slack never tightens", Verdict{Limit: 6, Value: 6, Outcome: Met}, 0.5, true},
		{"not measured is not kept", Verdict{Limit: 6, Outcome: NotMeasured}, 100, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.v.Holds(tt.slack); got != tt.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestJSONKeepsTheReport(t *testing.T) {
	want := example()
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Report
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	for _, key := range []string{`"p50Ns":1000000`, `"ratio":40`, `"outcome":"met"`, `"unsupported":"there are no shells"`} {
		if !strings.Contains(string(text), key) {
			t.Errorf("%s is not in %s", key, text)
		}
	}
}

func TestSplice(t *testing.T) {
	tests := []struct {
		name, doc, want string // an empty want is an error
	}{
		{"replaced", "a\n" + Begin + "\nold\n" + End + "\nz\n", "a\n" + Begin + "\nnew\n" + End + "\nz\n"},
		{"empty before", Begin + End, Begin + "\nnew\n" + End},
		{"no markers", "a\n", ""},
		{"no end", Begin + "\nold\n", ""},
		{"in the wrong order", End + "\n" + Begin, ""},
		{"two beginnings", Begin + Begin + End, ""},
		{"two ends", Begin + End + End, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Splice(tt.doc, "\nnew\n")
			if tt.want == "" {
				if sandbox.CodeOf(err) != sandbox.CodeValidation {
					t.Errorf("got %q, %v", got, err)
				}
				return
			}
			if err != nil || got != tt.want {
				t.Errorf("got %q, %v", got, err)
			}
			if again, err := Splice(got, "\nnew\n"); err != nil || again != got {
				t.Errorf("the second time it is %q, %v", again, err)
			}
		})
	}
}
