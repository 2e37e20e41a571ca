package main

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// A site is a state folder of a test's own and the program to use it with.
type site struct {
	t     *testing.T
	state string
	env   []string
}

func newSite(t *testing.T) *site {
	t.Helper()
	testenv.Require(t, "docker")
	s := &site{t: t, state: filepath.Join(t.TempDir(), "state")}
	s.env = append(os.Environ(), "SANDBOX_GUEST="+testenv.Guest(t), "SANDBOX_STATE_DIR="+s.state, "SANDBOX_CONFIG=")
	testenv.UnmountBelow(t, s.state) // the workspaces of sandboxes with checkpoints
	t.Cleanup(func() {
		if out, err := s.command("recreate", "--all", "--force").CombinedOutput(); err != nil {
			t.Errorf("clean up: %v\n%s", err, out)
		}
	})
	return s
}

func (s *site) command(args ...string) *exec.Cmd {
	cmd := exec.Command("sandbox", args...)
	cmd.Env = s.env
	return cmd
}

// inside returns the arguments of every process in the default sandbox.
func (s *site) inside() string {
	s.t.Helper()
	out, err := s.command("exec", "--", "ps", "-eo", "args").Output()
	if err != nil {
		s.t.Fatal(err)
	}
	return string(out)
}

// eitherSignal stands for the status of SIGINT or SIGTERM: the kernel does not
// keep the order of two that are under way.
const eitherSignal = -1

// manyCommands is the warning of a script with several commands.
const manyCommands = `sandbox: warning: ";" chains commands; strictness strict refuses such lines` + "\n"

// signalled runs a script until it is ready, sends the signals, and returns the
// status and how long the end took. Of the end the program has nothing to say:
// what it may warn of is that the script has several commands.
func (s *site) signalled(script string, sigs []syscall.Signal) (status int, took time.Duration) {
	s.t.Helper()
	cmd := s.command("run", "--", "sh", "-c", script)
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		s.t.Fatalf("it says %q, %v", line, err)
	}
	begin := time.Now()
	for _, sig := range sigs {
		cmd.Process.Signal(sig)
	}
	cmd.Wait()
	if text := said.String(); text != "" && text != manyCommands {
		s.t.Errorf("it says %q", text)
	}
	return cmd.ProcessState.ExitCode(), time.Since(begin)
}

// TestSignalsEndWhatRunsInside sends signals to the program and looks inside
// afterwards.
func TestSignalsEndWhatRunsInside(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	tests := []struct {
		name   string
		script string // prints "ready" once it runs
		sigs   []syscall.Signal
		want   int
		within time.Duration
	}{
		{"interrupt", `sleep 4301 & echo ready; wait`, []syscall.Signal{syscall.SIGINT}, 130, 2 * time.Second},
		{"terminate, with an escapee", `setsid sleep 4302 & echo ready; wait`, []syscall.Signal{syscall.SIGTERM}, 143, 2 * time.Second},
		{"hang up", `sleep 4303 & echo ready; wait`, []syscall.Signal{syscall.SIGHUP}, 129, 2 * time.Second},
		{"one that ignores it", `trap "" TERM; sh -c 'trap "" TERM; echo ready; exec sleep 4304'`, []syscall.Signal{syscall.SIGTERM}, 143, 10 * time.Second},
		{"twice", `trap "" TERM; sh -c 'trap "" TERM; echo ready; exec sleep 4305'`, []syscall.Signal{syscall.SIGTERM, syscall.SIGINT}, eitherSignal, 2 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			// The machine may be slow once; a program that waits for the
			// grace to pass is slow each time.
			var took time.Duration
			for range 10 {
				var got int
				if got, took = s.signalled(tt.script, tt.sigs); tt.want == eitherSignal && (got == 130 || got == 143) {
					got = eitherSignal
				}
				if got != tt.want {
					t.Errorf("status %d, want %d", got, tt.want)
				}
				if took <= tt.within {
					break
				}
			}
			if took > tt.within {
				t.Errorf("it took %v", took)
			}
			// The guest sees to the end of what a dead client left; look until it has.
			for deadline := time.Now().Add(time.Minute); strings.Contains(s.inside(), "sleep 430"); {
				if time.Now().After(deadline) {
					t.Fatalf("still inside:\n%s", s.inside())
				}
			}
		})
	}
}

// TestSignalsReachTheProgram sends signals to "sandbox run" and holds what the
// program inside sees of them: the signal itself, then SIGTERM, then SIGKILL.
func TestSignalsReachTheProgram(t *testing.T) {
	t.Parallel()
	testenv.Require(t, "local")
	s := newSite(t)
	const loop = `while :; do sleep 0.05; done`
	hear := func(then string) string { // bash runs traps between commands
		return `trap 'echo int; ` + then + `' INT; trap 'echo term' TERM; trap 'echo hup; exit 4' HUP; trap 'echo quit; exit 5' QUIT; echo ready; ` + loop
	}
	// The parent waits for the child: before, SIGINT would end it, as bash has it.
	const asleep = `until read -r _ _ state _ </proc/$PPID/stat && test $state = S; do sleep 0.01; done;`
	const grace = 3 * time.Second // before SIGTERM
	for _, tt := range []struct {
		name   string
		script string
		sigs   []syscall.Signal
		want   int
		prints string
		least  time.Duration
	}{
		{"cleans up", hear("echo cleaned up; exit 0"), []syscall.Signal{syscall.SIGINT}, 0, "int\ncleaned up\n", 0},
		{"dies of it", `echo ready; exec sleep 4310`, []syscall.Signal{syscall.SIGINT}, 130, "", 0},
		{"hang up", hear(""), []syscall.Signal{syscall.SIGHUP}, 4, "hup\n", 0},
		{"quit", hear(""), []syscall.Signal{syscall.SIGQUIT}, 5, "quit\n", 0},
		{"a child too", `sh -c 'trap "echo child; exit" INT; ` + asleep + ` echo ready; ` + loop + `'; echo after`, []syscall.Signal{syscall.SIGINT}, 0, "child\nafter\n", 0},
		{"goes on", hear(":"), []syscall.Signal{syscall.SIGINT}, 130, "int\nterm\n", grace},
		{"twice", hear(":"), []syscall.Signal{syscall.SIGINT, syscall.SIGINT}, 130, "int\nterm\n", 0},
		{"thrice", hear(":"), []syscall.Signal{syscall.SIGINT, syscall.SIGINT, syscall.SIGINT}, 130, "", 0},
	} {
		for _, kind := range []string{"docker", "local"} {
			t.Run(tt.name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				cmd := s.command("--provider", kind, "run", "--", "bash", "-c", tt.script)
				cmd.Dir = t.TempDir()
				out, err := cmd.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				lines := bufio.NewReader(out)
				line, err := lines.ReadString('\n')
				if line != "ready\n" {
					t.Fatalf("it says %q, %v", line, err)
				}
				begin := time.Now()
				var before string
				for i, sig := range tt.sigs {
					if i == 1 && tt.prints != "" { // the first has arrived
						before, err = lines.ReadString('\n')
						if err != nil {
							t.Fatal(err)
						}
					}
					cmd.Process.Signal(sig)
				}
				rest, err := io.ReadAll(lines)
				if err != nil {
					t.Fatal(err)
				}
				took := time.Since(begin)
				cmd.Wait()
				if got := before + string(rest); tt.prints != "" && got != tt.prints {
					t.Errorf("it prints %q, want %q", got, tt.prints)
				}
				if got := cmd.ProcessState.ExitCode(); got != tt.want {
					t.Errorf("status %d, want %d", got, tt.want)
				}
				if took < tt.least || took > 40*time.Second {
					t.Errorf("it took %v", took)
				}
			})
		}
	}
}

// TestClosedOutputEndsWhatRunsInside is "sandbox run -- yes | head -1".
func TestClosedOutputEndsWhatRunsInside(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	cmd := s.command("run", "--", "yes")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	bufio.NewReader(out).ReadString('\n')
	out.Close()
	cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 141 || said.Len() > 0 {
		t.Errorf("status %d and %q, want 141 and nothing said", got, said.String())
	}
	// The guest sees to the end of what a client that has gone left.
	testenv.Success(t, func() error {
		if ps := s.inside(); strings.Contains(ps, "yes") {
			return fmt.Errorf("still inside:\n%s", ps)
		}
		return nil
	})
}

// buildProgram puts the program, or the part of it with a tag, at path.
func buildProgram(t *testing.T, path, tag string) {
	t.Helper()
	program, err := builtProgram(tag)
	if err != nil {
		t.Fatal(err)
	}
	// Not by this process: one that it starts meanwhile would have the file open for
	// writing, and the program could not be started.
	if out, err := exec.Command("cp", program, path).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// builtDir is the folder of what builtProgram builds, which goes with the tests.
var builtDir = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "sandbox-shipped-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	return dir, err
})

// builders build the program and its parts once for all tests, by their tags.
var builders = map[string]func() (string, error){
	"":               sync.OnceValues(func() (string, error) { return build("") }),
	"sandbox_engine": sync.OnceValues(func() (string, error) { return build("sandbox_engine") }),
	"sandbox_front":  sync.OnceValues(func() (string, error) { return build("sandbox_front") }),
}

// builtProgram is the path of the program, or of the part of it with a tag, in a
// folder of its own.
func builtProgram(tag string) (string, error) { return builders[tag]() }

// build builds the program as "make build" does: what it is made of has been
// compiled already then.
func build(tag string) (string, error) {
	dir, err := builtDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, cmp.Or(tag, "whole"), "sandbox")
	if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-tags", "urfave_cli_no_docs,"+tag, "-o", path, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, nil
}

// maxGrowth is what 100 MB of output may cost us, in KiB. It does not include what
// a command takes without output, most of which is the program's file: how much of
// a file is mapped at once depends on how the kernel has cached it.
const maxGrowth = 16 << 10

// TestMemory passes 100 MB through standard output and asks the kernel what
// that took at most. The program is built as it is shipped, without the race
// detector.
func TestMemory(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	program := filepath.Join(t.TempDir(), "sandbox")
	buildProgram(t, program, "sandbox_engine")
	const total = 100_000_000
	cmd := exec.Command(program, "run", "-i", "--", "sh", "-c", "echo; read go; head -c "+strconv.Itoa(total)+" /dev/zero; read done")
	cmd.Env = s.env
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(io.Discard, out, 1); err != nil {
		t.Fatal(err)
	}
	before := highWater(t, cmd.Process.Pid)
	if _, err := io.WriteString(in, "\n"); err != nil {
		t.Fatal(err)
	}
	n, err := io.CopyN(io.Discard, out, total)
	if err != nil {
		t.Errorf("%d bytes came: %v", n, err)
	}
	if kib := highWater(t, cmd.Process.Pid); kib > before+maxGrowth {
		t.Errorf("%d KiB resident at most, %d before the output, %d more are allowed", kib, before, maxGrowth)
	}
	in.Close()
	cmd.Wait()
}

// highWater is the most memory that a process had resident so far, in KiB.
func highWater(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("the kernel does not tell")
	return 0
}

// BenchmarkVersion is the cost of starting the program.
func BenchmarkVersion(b *testing.B) {
	for b.Loop() {
		if err := exec.Command("sandbox", "version").Run(); err != nil {
			b.Fatal(err)
		}
	}
}
