//go:build linux

package local_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/policy/hardening"
	"github.com/bulkhead-dev/sandbox/provider/local"
	"github.com/bulkhead-dev/sandbox/provider/local/launch"
)

// doomedEnv makes the test binary the program that puts up an instance and waits
// to be killed.
const doomedEnv = "LOCAL_TEST_DOOMED"

// A doomed program's orders.
type doomed struct {
	State, Home string
	Spec        sandbox.Spec
}

// TestMain makes the test binary the programs that are killed and that attack,
// too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "attempt" {
		os.Exit(attemptMain(os.Args[2:]))
	}
	if order := os.Getenv(doomedEnv); order != "" {
		fmt.Fprintln(os.Stderr, "doomed:", beDoomed(order))
		os.Exit(1)
	}
	testenv.Main(m)
}

func beDoomed(order string) error {
	var d doomed
	if err := json.Unmarshal([]byte(order), &d); err != nil {
		return err
	}
	p := local.New(local.Options{State: d.State, World: func() hardening.World {
		return hardening.World{Canonical: hostpath.Canonical, Sensitive: []string{d.State}, Workspaces: []string{filepath.Join(d.State, "workspaces")}, Home: d.Home}
	}})
	ctx := context.Background()
	if _, err := p.Create(ctx, d.Spec); err != nil {
		return err
	}
	sb, err := p.Open(ctx, d.Spec)
	if err != nil {
		return err
	}
	_, err = sb.Start(ctx, sandbox.Command{Args: []string{"sh", "-c", "setsid sleep 1000 & sleep 1000"}, Detach: true})
	if err != nil {
		return err
	}
	fmt.Println(sb.Info().PID)
	select {}
}

// TestKilledOrchestrator kills a program that has an instance up, with a process in
// a session of its own and stubs on the host.
func TestKilledOrchestrator(t *testing.T) {
	t.Run("the next use clears", func(t *testing.T) { killedOrchestrator(t, false, false) })
	t.Run("a sweep clears", func(t *testing.T) { killedOrchestrator(t, true, false) })
	t.Run("paused", func(t *testing.T) { killedOrchestrator(t, false, true) })
}

func killedOrchestrator(t *testing.T, sweep, paused bool) {
	r := newRig(t)
	s := r.spec("a")
	open := filepath.Join(r.home, "open")
	must(t, os.Mkdir(open, 0o755))
	must(t, os.Chown(open, s.UID, s.GID))
	must(t, os.Chown(r.home, s.UID, s.GID))
	closed := filepath.Join(open, "closed")
	s.Filesystem.AllowWrite = []string{open, r.home}
	order, err := json.Marshal(doomed{State: r.state.Path(), Home: r.home, Spec: s})
	must(t, err)
	self, err := os.Executable()
	must(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), doomedEnv+"="+string(order))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	text, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	var pid int
	if _, err := fmt.Sscan(text, &pid); err != nil {
		t.Fatal(err)
	}
	first, err := launch.Of(pid)
	must(t, err)
	placeholders := listing(t, r.home)
	p := r.provider(t)
	if info, err := p.Inspect(context.Background(), s.Name); err != nil || info.Status != sandbox.StatusRunning || info.PID != pid {
		t.Errorf("while it runs: %+v, %v", info, err)
	}
	if paused {
		must(t, p.Pause(t.Context(), s.Name))
	}
	inside := states(t, pid)
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	testenv.Until(t, "the sandbox ends", func() bool { return !alive(t, first) })
	for n, state := range inside {
		if state[2:] == "" {
			continue // it was ending already, so that its number says nothing
		}
		testenv.Until(t, fmt.Sprintf("%d ends, which was %s", n, state), func() bool {
			now, err := launch.Of(n)
			return err != nil || !alive(t, now) || now.Start < first.Start || !strings.Contains(states(t, n)[n], state[2:])
		})
	}
	if info, err := p.Inspect(context.Background(), s.Name); err != nil || info.Status != sandbox.StatusStopped || info.PID != 0 {
		t.Errorf("after the kill: %+v, %v", info, err)
	}
	if left := listing(t, r.home); left != placeholders {
		t.Errorf("before anybody clears there is %q, want %q", left, placeholders)
	}
	if sweep {
		must(t, p.Sweep(context.Background()))
		if left := listing(t, r.home); left != "open " {
			t.Errorf("after a sweep there is %q", left)
		}
	}
	sb := r.reopen(p, s)
	if out, code := sh(t, sb, "echo works; touch "+closed); code != 0 || out != "works" {
		t.Errorf("status %d, %q", code, out)
	}
	must(t, sb.Close())
	must(t, p.Remove(context.Background(), s.Name))
	must(t, p.Close())
	must(t, os.Remove(closed))
	if placeholders == "open " {
		t.Error("there were no stubs to leave behind")
	}
	if left := listing(t, r.home); left != "open " {
		t.Errorf("in the home there is %q; while the sandbox stood there was %q", left, placeholders)
	}
	r.leaks(t)
}

func listing(t testing.TB, dir string) (all string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		all += e.Name() + " "
	}
	return all
}

// TestTwoProgramsOnOneState has two providers use and remove one sandbox.
func TestTwoProgramsOnOneState(t *testing.T) {
	r := newRig(t)
	s := r.spec("a")
	one, two := r.provider(t), r.provider(t)
	a := r.open(one, s)
	b := r.reopen(two, s)
	if _, code := sh(t, a, "echo shared >file"); code != 0 {
		t.Error("it cannot write")
	}
	if out, _ := sh(t, b, "cat file"); out != "shared" {
		t.Errorf("the other one reads %q", out)
	}
	if a.Info().PID == b.Info().PID {
		t.Error("they have one sandbox")
	}
	if _, err := two.Create(context.Background(), s); sandbox.CodeOf(err) != sandbox.CodeBusy {
		t.Errorf("Create over it: %v", err)
	}
	must(t, two.Remove(context.Background(), s.Name))
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	if _, err := a.Start(ctx, sandbox.Command{Args: []string{"true"}}); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("after the removal by the other: %v", err)
	}
	if _, err := one.Open(ctx, s); !sandbox.IsNotFound(err) {
		t.Errorf("Open: %v", err)
	}
	r.leaks(t)
}

func alive(t *testing.T, id launch.ID) bool {
	t.Helper()
	up, err := id.Alive()
	must(t, err)
	return up
}

// TestGuestThatCannotBegin holds that the words of a guest reach whoever asked
// for its instance, also when it has greeted before it failed.
func TestGuestThatCannotBegin(t *testing.T) {
	r := newRig(t)
	p := r.provider(t)
	for i := range 10 {
		s := r.spec(fmt.Sprint("few", i))
		s.Resources.Ulimits = []sandbox.Ulimit{{Name: "nofile", Soft: 10, Hard: 10}}
		_, err := p.Create(context.Background(), s)
		if sandbox.CodeOf(err) != sandbox.CodeUnavailable || !strings.Contains(err.Error(), "sandbox-guest: ") || !strings.Contains(err.Error(), "too many open files") {
			t.Errorf("%v; want %s and what the guest says", err, sandbox.CodeUnavailable)
		}
	}
	r.leaks(t)
}
