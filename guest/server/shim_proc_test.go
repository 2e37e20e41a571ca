//go:build linux && !cgo

package server

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

// A rig is a shim of the test process.
type rig struct {
	t       testing.TB
	maker   *shimMaker
	null    int
	pid     int
	control int
	reports int
}

func newRig(t testing.TB, base wire.Start) *rig {
	t.Helper()
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	shimMust(t, err)
	maker, err := newMaker(base, null, shimConfinement{})
	shimMust(t, err)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	shimMust(t, err)
	var pipe [2]int
	shimMust(t, unix.Pipe2(pipe[:], unix.O_CLOEXEC))
	r := &rig{t: t, maker: maker, null: null, control: pair[0], reports: pipe[0]}
	r.pid, err = maker.Fork(pair[1], pipe[1], false)
	shimMust(t, err)
	unix.Close(pair[1])
	unix.Close(pipe[1])
	t.Cleanup(r.end)
	return r
}

// end lets go of the shim and holds that it ends.
func (r *rig) end() {
	if r.pid == 0 {
		return
	}
	unix.Close(r.control)
	var status unix.WaitStatus
	if _, err := unix.Wait4(r.pid, &status, 0, nil); err != nil || status != 0 {
		r.t.Errorf("the stage ended with %#x, %v", status, err)
	}
	r.pid = 0
	unix.Close(r.reports)
	unix.Close(r.null)
	shimMust(r.t, unix.Munmap(r.maker.memory))
}

func shimMust(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (r *rig) send(s wire.Start, out int) {
	r.t.Helper()
	body, failure := r.maker.Request(s)
	if failure != nil {
		r.t.Fatalf("%+v", *failure)
	}
	n, err := unix.SendmsgN(r.control, body, unix.UnixRights(r.null, out, out), nil, 0)
	shimMust(r.t, err)
	for n < len(body) {
		more, err := unix.Write(r.control, body[n:])
		shimMust(r.t, err)
		n += more
	}
}

func (r *rig) report() shimReport {
	r.t.Helper()
	var b [reportLen]byte
	if n, err := unix.Read(r.reports, b[:]); n != len(b) {
		r.t.Fatalf("%d bytes, %v", n, err)
	}
	return decodeReport(b[:])
}

// run runs a command that leaves nothing behind, and returns what it wrote.
func (r *rig) run(s wire.Start) (shimReport, string) {
	r.t.Helper()
	out, err := os.CreateTemp(r.t.TempDir(), "out")
	shimMust(r.t, err)
	defer out.Close()
	r.send(s, int(out.Fd()))
	first := r.report()
	if first.Kind != shimStarted {
		return first, ""
	}
	last := r.report()
	if last.Kind != shimExited || !last.Empty {
		r.t.Errorf("%+v", last)
	}
	text, err := os.ReadFile(out.Name())
	shimMust(r.t, err)
	return last, string(text)
}

func shimShell(script string) wire.Start { return wire.Start{Args: []string{"/bin/sh", "-c", script}} }

func TestStage(t *testing.T) {
	r := newRig(t, wire.Start{Env: []string{"PATH=/usr/bin:/bin", "BASE=1"}, Limits: []wire.Limit{{Kind: wire.LimitOpenFiles, Value: 77}}})
	for _, tt := range []struct {
		name string
		s    wire.Start
		want string
	}{
		{"arguments", wire.Start{Args: []string{"printf", "%s|", "", "a b", "\xff"}}, "|a b|\xff|"},
		{"environment", wire.Start{Args: []string{"env"}, Env: []string{"BASE=2", "OTHER="}}, "PATH=/usr/bin:/bin\nBASE=2\nOTHER=\n"},
		{"directory", wire.Start{Args: []string{"/bin/pwd"}, Dir: "/usr/bin"}, "/usr/bin\n"},
		{"open files", shimShell("ulimit -Sn"), "77\n"},
		{"limits", func() wire.Start {
			s := shimShell("ulimit -Hn; ulimit -Hf; ulimit -Ht")
			s.Limits = []wire.Limit{{Kind: wire.LimitOpenFiles, Value: 55}, {Kind: wire.LimitFileSize, Value: 1 << 20}, {Kind: wire.LimitCPU, Value: 9}}
			return s
		}(), "55\n2048\n10\n"},
		{"session", shimShell("cut -d' ' -f6 /proc/$$/stat | grep -qx $$ && echo own"), "own\n"},
		{"descriptors", shimShell("ls /proc/$$/fd"), "0\n1\n2\n"},
		{"signals", shimShell("grep -E '^(SigBlk|SigIgn)' /proc/self/status | sort -u"), "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n"},
		{"mode", shimShell("umask; grep -E '^NoNewPrivs' /proc/self/status; cat /proc/self/oom_score_adj"), "0022\nNoNewPrivs:\t1\n1000\n"},
	} {
		got, out := r.run(tt.s)
		if got.Status != 0 || out != tt.want {
			t.Errorf("%s: %+v\n%q, want\n%q", tt.name, got, out, tt.want)
		}
	}
}

// TestStageFailures holds that every step says of itself that it failed, and
// that the shim is there for the next command afterwards.
func TestStageFailures(t *testing.T) {
	r := newRig(t, wire.Start{Env: []string{"PATH=/nowhere:/usr/bin:/bin"}})
	dir := t.TempDir()
	script := filepath.Join(dir, "script")
	shimMust(t, os.WriteFile(script, []byte("#!/no/such/interpreter\n"), 0o755))
	plain := filepath.Join(dir, "plain")
	shimMust(t, os.WriteFile(plain, nil, 0o644))
	for _, tt := range []struct {
		name  string
		s     wire.Start
		step  uint16
		errno unix.Errno
	}{
		{"no program", wire.Start{Args: []string{"no-such-program"}}, stepExecGone, unix.ENOENT},
		{"no interpreter", wire.Start{Args: []string{script}}, stepExec, unix.ENOENT},
		{"not executable", wire.Start{Args: []string{plain}}, stepExec, unix.EACCES},
		{"no directory", wire.Start{Args: []string{"true"}, Dir: "/no/such/folder"}, stepDir, unix.ENOENT},
		{"no terminal", wire.Start{Args: []string{"true"}, Flags: wire.FlagTTY}, stepTerminal, unix.ENOTTY},
		{"too long for the kernel", wire.Start{Args: []string{"true", strings.Repeat("x", 1<<20)}}, stepExec, unix.E2BIG},
	} {
		got, _ := r.run(tt.s)
		if got.Kind != shimFailed || got.Step != tt.step || got.Errno != uint32(tt.errno) {
			t.Errorf("%s: %+v", tt.name, got)
		}
		if got, _ := r.run(wire.Start{Args: []string{"true"}}); got.Kind != shimExited || got.Status != 0 {
			t.Fatalf("after %s: %+v", tt.name, got)
		}
	}
}

// TestStageKeepsLittle looks at a shim from outside: it has nothing of the
// memory and the descriptors of the process that made it.
func TestStageKeepsLittle(t *testing.T) {
	r := newRig(t, wire.Start{})
	r.run(wire.Start{Args: []string{"/bin/true"}})
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", r.pid))
	shimMust(t, err)
	var writable int64
	for line := range strings.Lines(string(maps)) {
		m, ok := parseMapping(strings.TrimSpace(line))
		if !ok {
			t.Fatalf("%q", line)
		}
		if m.writable {
			writable += int64(m.to - m.from)
		}
	}
	if most := int64(memorySize + 8*os.Getpagesize()); writable > most {
		t.Errorf("%d bytes are writable, at most %d should be:\n%s", writable, most, maps)
	}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", r.pid))
	shimMust(t, err)
	if len(files) > othersFD {
		t.Errorf("%d descriptors", len(files))
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.pid))
	shimMust(t, err)
	for _, want := range []string{"Name:\tsandbox-guest\n", "Threads:\t1\n", "SigCgt:\t0000000000000000\n"} {
		if !strings.Contains(string(status), want) {
			t.Errorf("no %q in\n%s", want, status)
		}
	}
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", r.pid))
	shimMust(t, err)
	if !bytes.HasPrefix(line, []byte("sandbox-guest\x00stage\x00")) {
		t.Errorf("command line %q", line)
	}
}

// TestStageWaitsForAll holds that what leaves its parent and its session
// stays below the shim, and that the shim says when it is gone.
func TestStageWaitsForAll(t *testing.T) {
	r := newRig(t, wire.Start{Env: []string{"PATH=/usr/bin:/bin"}})
	fifo := filepath.Join(t.TempDir(), "fifo")
	shimMust(t, unix.Mkfifo(fifo, 0o600))
	r.send(shimShell("(setsid sh -c 'read line <"+fifo+"' &); exit 3"), r.null)
	if got := r.report(); got.Kind != shimStarted {
		t.Fatalf("%+v", got)
	}
	if got := r.report(); got.Kind != shimExited || got.Empty || unix.WaitStatus(got.Status).ExitStatus() != 3 {
		t.Fatalf("%+v", got)
	}
	shimMust(t, os.WriteFile(fifo, []byte("go\n"), 0))
	if got := r.report(); got.Kind != shimEmpty {
		t.Errorf("%+v", got)
	}
}

// TestStageTakesLargeRequests holds that a request of any size arrives, and
// is not kept.
func TestStageTakesLargeRequests(t *testing.T) {
	r := newRig(t, wire.Start{Env: []string{"PATH=/usr/bin:/bin"}})
	s := wire.Start{Args: []string{"sh", "-c", "echo $#", "sh"}}
	s.Args = append(s.Args, slices.Repeat([]string{strings.Repeat("x", 1000)}, 1500)...)
	if got, out := r.run(s); got.Status != 0 || out != "1500\n" {
		t.Errorf("%+v, %q", got, out)
	}
	if _, failure := r.maker.Request(wire.Start{Args: slices.Repeat([]string{"x"}, 1<<20)}); failure == nil || failure.Errno != uint32(unix.E2BIG) {
		t.Errorf("more than a stage can take: %+v", failure)
	}
	var kib int64
	rollup, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", r.pid))
	shimMust(t, err)
	for line := range strings.Lines(string(rollup)) {
		if n, _ := fmt.Sscanf(line, "Rss: %d kB", &kib); n == 1 {
			break
		}
	}
	if kib == 0 || kib > 1024 {
		t.Errorf("%d KiB are resident", kib)
	}
}
