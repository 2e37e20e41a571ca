package hostscan

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
)

// helperEnv makes the test binary act as another orchestrator process.
const helperEnv = "SANDBOX_STUB_HELPER"

func TestMain(m *testing.M) {
	if os.Getenv(helperEnv) != "" {
		helper()
		return
	}
	os.Exit(m.Run())
}

// helper creates stubs, reports that, and releases them when its input ends. It
// kills itself at the step that its last argument names.
func helper() {
	state, root := os.Args[1], os.Args[2]
	left, _ := strconv.Atoi(os.Args[3])
	fail := func(err error) {
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	d, err := OpenPlaceholders(state)
	fail(err)
	d.step = func() {
		if left--; left == 0 {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	r := placeholderRig{root: root}
	h, err := d.Make(context.Background(), r.placeholders("f", "d/", "d/g"))
	fail(err)
	fmt.Println("made")
	io.Copy(io.Discard, os.Stdin)
	fail(h.Release())
	fmt.Println("released")
}

// start runs the helper until it has created its stubs, or is dead.
func (r placeholderRig) start(dieAt int) (cmd *exec.Cmd, in io.Closer, made bool) {
	r.t.Helper()
	cmd = exec.Command(os.Args[0], r.state, r.root, strconv.Itoa(dieAt))
	cmd.Env = append(os.Environ(), helperEnv+"=1")
	stdin, err := cmd.StdinPipe()
	r.must(err)
	out, err := cmd.StdoutPipe()
	r.must(err)
	r.must(cmd.Start())
	line, _ := bufio.NewReader(out).ReadString('\n')
	return cmd, stdin, line == "made\n"
}

// TestKilledAtEveryStep verifies that a sweep after kill -9 leaves nothing,
// whatever step the process had reached, and that changes by a person in
// between stay.
func TestKilledAtEveryStep(t *testing.T) {
	people := map[string]func(r placeholderRig) []string{
		"nobody": func(placeholderRig) []string { return nil },
		"writes": func(r placeholderRig) []string {
			os.Remove(r.at("f"))
			os.RemoveAll(r.at("d"))
			r.must(os.WriteFile(r.at("f"), []byte("mine"), 0o600))
			r.must(os.MkdirAll(r.at("d/g/h"), 0o700))
			return []string{"d", "d/g", "d/g/h", "f"}
		},
		"makes alike": func(r placeholderRig) []string {
			os.Remove(r.at("f"))
			r.must(os.WriteFile(r.at("f"), nil, 0o644))
			r.must(os.Chmod(r.at("f"), fileMode))
			return []string{"f"}
		},
	}
	for who, act := range people {
		t.Run(who, func(t *testing.T) {
			steps := 0
			for ended := false; !ended; {
				steps++
				r := placeholderNewRig(t)
				cmd, in, _ := r.start(steps)
				in.Close()
				err := cmd.Wait()
				ended = err == nil
				if !ended && cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
					t.Fatalf("step %d: %v", steps, err)
				}
				left := act(r)
				if _, err := r.d.Sweep(context.Background()); err != nil {
					t.Errorf("step %d: %v", steps, err)
				}
				r.want(left...)
				r.noRecords()
			}
			if steps < 15 {
				t.Errorf("only %d steps were tried", steps)
			}
		})
	}
}

// TestTwoProcesses verifies that stubs are removed with the last process that
// needs them, whether it was killed or not.
func TestTwoProcesses(t *testing.T) {
	r := placeholderNewRig(t)
	h := r.make("f", "d/")
	cmd, in, made := r.start(0)
	if !made {
		t.Fatal("the other process made no stubs")
	}
	r.must(h.Release())
	r.want("d", "d/g", "f")
	in.Close()
	r.must(cmd.Wait())
	r.want()
	r.noRecords()

	cmd, _, _ = r.start(0)
	h = r.make("f", "d/")
	r.must(cmd.Process.Kill())
	cmd.Wait()
	r.want("d", "d/g", "f")
	if got, err := r.d.Sweep(context.Background()); err != nil || len(got) != 1 || got[0] != r.at("d/g") {
		t.Errorf("the sweep removed %q, %v", got, err)
	}
	if !h.Intact() {
		t.Error("a sweep after another process was killed removed what we hold")
	}
	r.must(h.Release())
	r.want()
	r.noRecords()
}

// TestKilledBeforeAdopting verifies that the next process that needs a stub of
// a killed process takes it over.
func TestKilledBeforeAdopting(t *testing.T) {
	r := placeholderNewRig(t)
	cmd, _, _ := r.start(0)
	r.must(cmd.Process.Kill())
	cmd.Wait()
	if !r.d.Is(r.at("f")) {
		t.Error("what was left is not known as a stub")
	}
	h := r.make("f", "d/", "d/g")
	r.must(h.Release())
	r.want()
	r.noRecords()
}
