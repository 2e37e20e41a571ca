package manager_test

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/container"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/provider/docker"
)

// The test program runs itself as a child that ensures a sandbox, so that
// processes can race each other and be killed at a chosen step.
const (
	childState = "SANDBOX_TEST_CHILD_STATE" // state folder; set in children only
	childStop  = "SANDBOX_TEST_CHILD_STOP"  // step at which the child stops and waits
	childSet   = "SANDBOX_TEST_CHILD_SETTINGS"
	childLine  = "SANDBOX_TEST_CHILD_LINE" // what the child runs

	childTenant  = "SANDBOX_TEST_CHILD_TENANT"  // whose session the child is
	childSession = "SANDBOX_TEST_CHILD_SESSION" // its session, which is "s" without

	childRefills = "SANDBOX_TEST_CHILD_REFILLS" // it refills the pool and runs nothing
)

func TestMain(m *testing.M) {
	if os.Getenv(childState) != "" {
		child()
		return
	}
	testenv.AtOnce(4)
	os.Exit(withImages(m))
}

// withImages runs the tests with the folder of [testenv.Images], also where no run of
// all tests has one.
func withImages(m *testing.M) int {
	if testenv.Images() != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "manager-images-")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer os.RemoveAll(dir)
	os.Setenv(testenv.ImagesVariable, dir)
	return m.Run()
}

// childTB lets the rig work outside a test: a failure ends the process.
type childTB struct{ testing.TB }

func (childTB) Helper()        {}
func (childTB) Cleanup(func()) {}
func (childTB) Fatal(a ...any) { fmt.Println(append([]any{"FATAL"}, a...)...); os.Exit(3) }

func child() {
	if os.Getenv(childWork) != "" {
		childOperates()
		return
	}
	r := &rig{t: childTB{}, dir: os.Getenv(childState), log: &logBuffer{}, clock: &clock{}, limits: testenv.Patient()}
	r.connect()
	if step := os.Getenv(childStop); step != "" {
		r.wrap = func(e docker.Engine) docker.Engine { return stopping{Engine: e, at: step} }
	}
	line := os.Getenv(childLine)
	if line == "" {
		line = "echo ran"
	}
	session := cmp.Or(os.Getenv(childSession), "s")
	m := r.manager(os.Getenv(childSet))
	manager.PoolFault(m, stopping{at: os.Getenv(childStop)}.stop)
	if os.Getenv(childRefills) == "after" {
		if _, o, err := run(m, session, "true"); err != nil || !o.Claimed {
			fmt.Println("not claimed", o.Miss, err)
		}
	}
	if os.Getenv(childRefills) != "" {
		_, _, err := m.Refill(context.Background())
		fmt.Println("refilled", err)
		return
	}
	out, o, err := run(m, session, line, as(os.Getenv(childTenant)))
	fmt.Println(o.Name, o.Created, out, err)
	if err != nil {
		os.Exit(1)
	}
}

// stopping is an engine that reports a step and then waits to be killed.
type stopping struct {
	docker.Engine
	at string
}

func (s stopping) stop(step string) {
	if s.at == step {
		fmt.Println("AT " + step)
		select {}
	}
}

func (s stopping) Create(ctx context.Context, p container.Plan) (string, []string, error) {
	s.stop("before create")
	id, w, err := s.Engine.Create(ctx, p)
	s.stop("after create")
	return id, w, err
}

func (s stopping) CreateNetwork(ctx context.Context, p container.NetworkPlan) (string, error) {
	id, err := s.Engine.CreateNetwork(ctx, p)
	s.stop("after network")
	return id, err
}

func (s stopping) Start(ctx context.Context, name string) error {
	s.stop("before start")
	err := s.Engine.Start(ctx, name)
	s.stop("after start")
	return err
}

func (s stopping) Inspect(ctx context.Context, name string) (sandbox.Info, error) {
	info, err := s.Engine.Inspect(ctx, name)
	if err == nil && info.Status == sandbox.StatusRunning {
		s.stop("before guest")
	}
	return info, err
}

func childCmd(r *rig, extra ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), append([]string{childState + "=" + r.dir}, extra...)...)
	cmd.Stderr = os.Stderr
	return cmd
}

// killAt runs a child until it reaches step, and kills it there.
func killAt(t *testing.T, r *rig, step string, extra ...string) {
	t.Helper()
	cmd := childCmd(r, append(extra, childStop+"="+step)...)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if strings.TrimSpace(line) != "AT "+step {
		t.Fatalf("the child printed %q, %v", line, err)
	}
	must(t, cmd.Process.Kill())
	cmd.Wait()
}

// TestKilledDuringCreate kills the orchestrator at each step of create. What
// is left is listed, never counts as ready, is finished by the next run, and
// is cleared by prune.
func TestKilledDuringCreate(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"before create", "after create", "before start", "after start", "before guest"} {
		for _, then := range []string{"run", "prune"} {
			t.Run(step+", "+then, func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				onStart := settings(`"docker":{"onStart":["echo once >> /workspace/started"]}`)
				killAt(t, r, step, childSet+"="+onStart)
				m := r.manager(onStart)
				live, err := r.engine.List(context.Background(), sandbox.Filter{Instance: r.state.Instance()})
				must(t, err)
				l, err := m.List(context.Background(), manager.ListOptions{})
				must(t, err)
				if len(live) > 0 && len(l.Containers) != 1 {
					t.Errorf("%d containers exist, list shows %+v", len(live), l.Containers)
				}
				if then == "run" {
					if out, _ := mustRun(t, m, "s", "cat started"); out != "once" {
						t.Errorf("start commands left %q", out)
					}
					return
				}
				zero := time.Nanosecond
				p, err := m.Prune(context.Background(), manager.PruneOptions{Idle: &zero})
				must(t, err)
				live, err = r.engine.List(context.Background(), sandbox.Filter{Instance: r.state.Instance()})
				must(t, err)
				if l, err = m.List(context.Background(), manager.ListOptions{}); err != nil || len(live)+len(l.Containers) != 0 {
					t.Errorf("prune did %+v and left %+v, %+v", p, live, l.Containers)
				}
			})
		}
	}
}

// TestKilledDuringStartCommand kills the orchestrator while a start command
// runs: the sandbox must not count as ready.
func TestKilledDuringStartCommand(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	set := settings(`"docker":{"onStart":["echo begun >> /workspace/log; test -e /workspace/go || sleep 60; echo done >> /workspace/log"]}`)
	cmd := childCmd(r, childSet+"="+set)
	must(t, cmd.Start())
	m := r.manager(set)
	l := waitFor(t, func() *manager.Row {
		l, err := m.List(context.Background(), manager.ListOptions{})
		must(t, err)
		for _, row := range l.Containers {
			if b, _ := os.ReadFile(row.Workspace + "/log"); len(b) > 0 {
				return &row
			}
		}
		return nil
	})
	must(t, cmd.Process.Kill())
	cmd.Wait()
	must(t, os.WriteFile(l.Workspace+"/go", nil, 0o644))
	if out, _ := mustRun(t, m, "s", "tail -n 1 log; grep -c begun log"); out != "done\n2" {
		t.Errorf("got %q", out)
	}
}

// TestTwoProcesses lets processes ensure one scope at the same moment.
func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const n = 4
	outs := make(chan string, n)
	for range n {
		cmd := childCmd(r)
		go func() {
			b, err := cmd.Output()
			outs <- strings.TrimSpace(string(b)) + fmt.Sprint(err)
		}()
	}
	made := 0
	for range n {
		out := <-outs
		if !strings.Contains(out, "ran") || !strings.Contains(out, "<nil>") {
			t.Errorf("a child said %q", out)
		}
		if strings.Contains(out, " true ran") {
			made++
		}
	}
	live, err := r.engine.List(context.Background(), sandbox.Filter{Instance: r.state.Instance()})
	if err != nil || len(live) != 1 || made != 1 {
		t.Errorf("%d containers, %d processes say they made it, %v", len(live), made, err)
	}
}

// waitFor asks until there is an answer.
func waitFor[T any](t testing.TB, ask func() *T) (answer *T) {
	t.Helper()
	testenv.Until(t, "an answer", func() bool {
		answer = ask()
		return answer != nil
	})
	return answer
}
