//go:build linux && !sandbox_front && !sandbox_engine

package orchestrator_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/orchestrator"
)

// A fleet is a namespace of the cluster of [testenv.Kube] that several programs serve,
// each with a state folder of its own.
type fleet struct {
	testing.TB
	namespace string
	settings  string
}

func newFleet(t testing.TB) *fleet {
	t.Helper()
	testenv.Require(t, "docker")
	kubeconfig := testenv.Kube(t)
	var id [4]byte
	rand.Read(id[:])
	f := &fleet{TB: t, namespace: "fleet-" + hex.EncodeToString(id[:])}
	image := strings.TrimSpace(testenv.KubeNode(t, "import", "sandbox:bookworm-slim"))
	guest := f.importGuest("sandbox-guest:" + f.namespace)
	f.kubectl("create", "namespace", f.namespace)
	t.Cleanup(func() {
		ctx, done := context.WithTimeout(context.Background(), 2*time.Minute)
		defer done()
		if out, err := testenv.Kubectl(ctx, t, "delete", "namespace", f.namespace, "--wait=false").CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	f.settings = fmt.Sprintf(`{
		"kubernetes": {"kubeconfig": %q, "namespace": %q, "guestImage": %q, "imagePullPolicy": "Never", "workspaceSize": "64m", "requestPercent": 1, "networkPolicy": "trust"},
		"agents": {"defaults": {"sandbox": {"provider": "kubernetes", "docker": {"image": %q, "memory": "128m", "cpus": 0.5}}}}}`,
		kubeconfig, f.namespace, guest, image)
	return f
}

// importGuest gives the node an image that has nothing but the guest.
func (f *fleet) importGuest(tag string) string {
	f.Helper()
	pack := exec.Command("tar", "--create", "--owner=0", "--group=0", "--mode=0755", "--transform=s|.*|sandbox-guest|", "--absolute-names", testenv.Guest(f))
	load := exec.Command("docker", "import", "-", tag)
	var err error
	load.Stdin, err = pack.StdoutPipe()
	fatal(f, err)
	fatal(f, pack.Start())
	out, err := load.CombinedOutput()
	if err = errors.Join(err, pack.Wait()); err != nil {
		f.Fatalf("the image of the guest: %v: %s", err, out)
	}
	f.Cleanup(func() {
		if out, err := exec.Command("docker", "rmi", tag).CombinedOutput(); err != nil {
			f.Errorf("%v: %s", err, out)
		}
	})
	return strings.TrimSpace(testenv.KubeNode(f, "import", tag))
}

func fatal(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (f *fleet) kubectl(args ...string) string {
	f.Helper()
	out, err := testenv.Kubectl(f.Context(), f, args...).CombinedOutput()
	if err != nil {
		f.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// names lists the objects of a kind, without the replicas' own.
func (f *fleet) names(kind string) []string {
	var out []string
	for _, name := range strings.Fields(f.kubectl("get", kind, "--namespace", f.namespace, "--output", "name")) {
		if !strings.Contains(name, "sandbox-replica-") {
			out = append(out, name)
		}
	}
	return out
}

// replica is one program of the fleet, in this process.
func (f *fleet) replica(change ...func(*orchestrator.Options)) *manager.Manager {
	f.Helper()
	dir := f.TempDir()
	file := filepath.Join(dir, "settings.jsonc")
	fatal(f, os.WriteFile(file, []byte(f.settings), 0o600))
	log := logrus.New()
	log.SetOutput(testLog{f})
	o := orchestrator.Options{ConfigFile: file, StateDir: filepath.Join(dir, "state"), Log: log}
	for _, c := range change {
		c(&o)
	}
	h, err := orchestrator.Open(o)
	fatal(f, err)
	f.Cleanup(h.Close)
	m, err := h.Manager()
	fatal(f, err)
	return m
}

// testLog is the log of the test.
type testLog struct{ t testing.TB }

func (l testLog) Write(p []byte) (int, error) {
	if l.t.Context().Err() == nil {
		l.t.Log(strings.TrimSpace(string(p)))
	}
	return len(p), nil
}

func of(session string) config.Who { return config.Who{Agent: "main", Session: session} }

// run runs a line of a shell.
func (f *fleet) run(m *manager.Manager, session, line string) (string, manager.Outcome, error) {
	var out bytes.Buffer
	ctx, done := context.WithTimeout(f.Context(), 3*time.Minute)
	defer done()
	o, err := m.Run(ctx, manager.Request{Who: of(session), Command: sandbox.Command{Args: []string{"sh", "-c", line}, Stdout: &out, Stderr: &out}})
	return strings.TrimSpace(out.String()), o, err
}

func (f *fleet) mustRun(m *manager.Manager, session, line string) (string, manager.Outcome) {
	f.Helper()
	out, o, err := f.run(m, session, line)
	if err != nil || o.Exit.Code != 0 {
		f.Fatalf("%s: %s: %v, %+v: %s", session, line, err, o.Exit, out)
	}
	return out, o
}

// row finds a sandbox by its session.
func (f *fleet) row(m *manager.Manager, session string) (manager.Row, bool) {
	f.Helper()
	l, err := m.List(f.Context(), manager.ListOptions{})
	fatal(f, err)
	for _, r := range l.Containers {
		if r.Session == session {
			return r, true
		}
	}
	return manager.Row{}, false
}

// TestTwoReplicas holds that two programs with folders of their own serve one fleet:
// each sees, uses, explains and removes what the other one has made.
func TestTwoReplicas(t *testing.T) {
	f := newFleet(t)
	a, b := f.replica(), f.replica()
	_, made := f.mustRun(a, "one", "echo from-a > /workspace/f")
	if !made.Created {
		t.Error("a has not made the sandbox")
	}
	out, used := f.mustRun(b, "one", "cat /workspace/f; echo from-b > /workspace/g")
	if used.Created || used.Name != made.Name || out != "from-a" {
		t.Errorf("b: %+v, %q", used, out)
	}
	if out, _ := f.mustRun(a, "one", "cat /workspace/g"); out != "from-b" {
		t.Errorf("a reads %q", out)
	}
	row, ok := f.row(b, "one")
	if !ok || row.Status != sandbox.StatusRunning || row.ConfigMatch == nil || !*row.ConfigMatch {
		t.Errorf("b lists %+v", row)
	}
	e, err := b.Explain(t.Context(), of("one"), nil, manager.Questions{})
	if err != nil || e.Status != sandbox.StatusRunning || len(e.Drift) > 0 {
		t.Errorf("b explains %v, %+v, %v", e.Status, e.Drift, err)
	}
	if got := f.names("pods"); len(got) != 1 {
		t.Errorf("pods: %v", got)
	}
	fatal(t, b.Remove(t.Context(), row, manager.RemoveOptions{}))
	if _, ok := f.row(a, "one"); ok {
		t.Error("a lists what b has removed")
	}
	if pods, leases := f.names("pods"), f.names("leases"); len(pods)+len(leases) > 0 {
		t.Errorf("left: %v, %v", pods, leases)
	}
	if _, again := f.mustRun(a, "one", "test ! -e /workspace/f"); !again.Created {
		t.Error("a has not made it anew")
	}
}

// TestReplicasMakeOne has many callers of two programs make one sandbox.
func TestReplicasMakeOne(t *testing.T) {
	f := newFleet(t)
	both := []*manager.Manager{f.replica(), f.replica()}
	var wait sync.WaitGroup
	var mu sync.Mutex
	created := 0
	for i := range 40 {
		wait.Go(func() {
			out, o, err := f.run(both[i%2], "one", "echo ok")
			if err != nil || out != "ok" {
				t.Errorf("caller %d: %v: %s", i, err, out)
			}
			mu.Lock()
			defer mu.Unlock()
			if o.Created {
				created++
			}
		})
	}
	wait.Wait()
	if pods := f.names("pods"); created != 1 || len(pods) != 1 {
		t.Errorf("created %d times; pods %v", created, pods)
	}
}
