package docker_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/container"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
	"github.com/bulkhead-dev/sandbox/provider/docker"
)

// In a child these hold the Spec to create, or with "remove" as the step's
// first word to remove, and the step at which the child waits to be killed.
const (
	childCreate = "SANDBOX_TEST_CHILD_CREATE"
	childStop   = "SANDBOX_TEST_CHILD_STOP"
)

// runCreate is what the child does; it tells the code of the result.
func runCreate(spec, state, step string) string {
	var s sandbox.Spec
	if err := json.Unmarshal([]byte(spec), &s); err != nil {
		return err.Error()
	}
	api, err := container.Dial()
	if err != nil {
		return err.Error()
	}
	st, err := statedir.Open(state)
	if err != nil {
		return err.Error()
	}
	p := docker.New(stopping{container.New(api, testenv.Patient()), step}, docker.Options{Sockets: st, Instance: st.Instance()})
	ctx := context.Background()
	if strings.HasPrefix(step, "remove") {
		err = p.Remove(ctx, s.Name)
	} else {
		_, err = p.Create(ctx, s)
	}
	if err != nil {
		return string(sandbox.CodeOf(err)) + " " + err.Error()
	}
	return "made"
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

func (s stopping) CreateNetwork(ctx context.Context, p container.NetworkPlan) (string, error) {
	id, err := s.Engine.CreateNetwork(ctx, p)
	s.stop("after network")
	return id, err
}

func (s stopping) Create(ctx context.Context, p container.Plan) (string, []string, error) {
	id, w, err := s.Engine.Create(ctx, p)
	s.stop("after container")
	return id, w, err
}

func (s stopping) Start(ctx context.Context, name string) error {
	err := s.Engine.Start(ctx, name)
	s.stop("after start")
	return err
}

func (s stopping) Remove(ctx context.Context, name string) error {
	err := s.Engine.Remove(ctx, name)
	s.stop("remove: container is gone")
	return err
}

func childFor(t testing.TB, r *dockertest.Rig, s sandbox.Spec, step string) *exec.Cmd {
	t.Helper()
	spec, err := json.Marshal(s)
	must(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childCreate+"="+string(spec), childState+"="+r.State.Path(), childStop+"="+step)
	cmd.Stderr = os.Stderr
	return cmd
}

// killAt runs a child until it reaches step, and kills it there.
func killAt(t testing.TB, r *dockertest.Rig, s sandbox.Spec, step string) {
	t.Helper()
	cmd := childFor(t, r, s, step)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	cmd.Process.Kill()
	cmd.Wait()
	if strings.TrimSpace(line) != "AT "+step {
		t.Fatalf("the child says %q, %v", line, err)
	}
}

// TestOwnNetworkKilled kills a process between the steps. What it leaves is
// found by list, is used by the next create, and goes with remove.
func TestOwnNetworkKilled(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		step   string
		status sandbox.Status // of what is left
		busy   bool           // the container is there, so that a create finds it
	}{
		"before the container":          {"after network", sandbox.StatusMissing, false},
		"before the start":              {"after container", sandbox.StatusStopped, true},
		"before the guest":              {"after start", sandbox.StatusRunning, true},
		"between container and network": {"remove: container is gone", sandbox.StatusMissing, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r, ctx := dockertest.New(t), context.Background()
			s := ownSpec(r, "killed")
			if strings.HasPrefix(tt.step, "remove") {
				_, err := r.P.Create(ctx, s)
				must(t, err)
			}
			killAt(t, r, s, tt.step)
			left := networksOf(t, r, s.Name)
			infos, err := r.P.List(ctx, sandbox.Filter{Instance: r.State.Instance(), Name: s.Name})
			if err != nil || len(left) != 1 || len(infos) != 1 || infos[0].Status != tt.status || !infos[0].Owner.Same(s.Owner) || infos[0].CreatedAt.IsZero() {
				t.Fatalf("left %+v; listed %+v, %v", left, infos, err)
			}
			if tt.busy {
				if _, err := r.P.Create(ctx, s); sandbox.CodeOf(err) != sandbox.CodeBusy {
					t.Errorf("create says %v", err)
				}
			} else {
				_, err := r.P.Create(ctx, s)
				must(t, err)
			}
			if out, code := sh(t, r.Reopen(s), "echo ran"); out != "ran" || code != 0 {
				t.Errorf("%q, %d", out, code)
			}
			if n := networksOf(t, r, s.Name); len(n) != 1 || n[0].ID != left[0].ID {
				t.Errorf("networks %+v, want the one that was left", n)
			}
			must(t, r.P.Remove(ctx, s.Name))
			noNetworks(t, r)
		})
	}
}

// TestOwnNetworkLeftAlone removes what a killed process has left, without a
// create before.
func TestOwnNetworkLeftAlone(t *testing.T) {
	t.Parallel()
	r, ctx := dockertest.New(t), context.Background()
	s := ownSpec(r, "left")
	killAt(t, r, s, "after network")
	must(t, r.P.Remove(ctx, s.Name))
	noNetworks(t, r)
}

// TestOwnNetworkTwoProcesses lets processes create one sandbox at once,
// without the lease that the manager would take: one makes it, and it works.
func TestOwnNetworkTwoProcesses(t *testing.T) {
	t.Parallel()
	r, ctx := dockertest.New(t), context.Background()
	s := ownSpec(r, "two")
	type end struct {
		out []byte
		err error
	}
	ends := make(chan end, 3)
	for range cap(ends) {
		cmd := childFor(t, r, s, "")
		go func() {
			out, err := cmd.Output()
			ends <- end{out, err}
		}()
	}
	made := 0
	var texts []string // of the processes
	for range cap(ends) {
		e := <-ends
		must(t, e.err)
		texts = append(texts, string(e.out))
		switch text := string(e.out); {
		case strings.HasPrefix(text, "made"):
			made++
		case !strings.HasPrefix(text, string(sandbox.CodeBusy)):
			t.Errorf("a process says %s", text)
		}
	}
	if made != 1 {
		t.Fatalf("%d processes made it; they say %q", made, texts)
	}
	if out, code := sh(t, r.Reopen(s), "echo ran"); out != "ran" || code != 0 {
		t.Errorf("%q, %d", out, code)
	}
	if n := networksOf(t, r, s.Name); len(n) != 1 {
		t.Errorf("networks %+v", n)
	}
	must(t, r.P.Remove(ctx, s.Name))
	noNetworks(t, r)
}
