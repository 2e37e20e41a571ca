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
func (f *fleet) replica() *manager.Manager {
	f.Helper()
	m, err := f.open().Manager()
	fatal(f, err)
	return m
}

// open is replica with what the manager is a part of.
func (f *fleet) open() *orchestrator.Orchestrator {
	f.Helper()
	dir := f.TempDir()
	file := filepath.Join(dir, "settings.jsonc")
	fatal(f, os.WriteFile(file, []byte(f.settings), 0o600))
	log := logrus.New()
	log.SetOutput(testLog{f})
	h, err := orchestrator.Open(orchestrator.Options{ConfigFile: file, StateDir: filepath.Join(dir, "state"), Log: log})
	fatal(f, err)
	f.Cleanup(h.Close)
	return h
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

// TestKubeTwoReplicas holds that two programs with folders of their own serve one fleet:
// each sees, uses, explains and removes what the other one has made.
func TestKubeTwoReplicas(t *testing.T) {
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

// TestKubeReplicasMakeOne has many callers of two programs make one sandbox.
func TestKubeReplicasMakeOne(t *testing.T) {
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

// TestKubeReplicasPrune holds that prune and timeouts of one program are by what another
// has noted, and that pods and records without each other are found.
func TestKubeReplicasPrune(t *testing.T) {
	f := newFleet(t)
	first := f.open()
	a, err := first.Manager()
	fatal(t, err)
	b := f.replica()
	long, now := time.Hour, time.Nanosecond

	// A command runs by a: b spares the sandbox. It has ended: b sees the last use.
	started, end := make(chan struct{}), make(chan struct{})
	ended := make(chan error, 1)
	in, write, err := os.Pipe()
	fatal(t, err)
	go func() {
		var once sync.Once
		_, err := a.Run(t.Context(), manager.Request{Who: of("one"), Started: func(sandbox.Process) { once.Do(func() { close(started) }) }, Command: sandbox.Command{Args: []string{"cat"}, Stdin: in}})
		ended <- err
		close(end)
	}()
	select {
	case <-started:
	case err := <-ended:
		t.Fatalf("the command has ended: %v", err)
	}
	out, err := b.Prune(t.Context(), manager.PruneOptions{Idle: &now})
	if err != nil || len(out.Removed)+len(out.Failed) > 0 {
		t.Errorf("while a command runs: %+v, %v", out, err)
	}
	write.Close()
	<-end
	if out, err = b.Prune(t.Context(), manager.PruneOptions{Idle: &long}); err != nil || len(out.Removed) > 0 {
		t.Errorf("after a use: %+v, %v", out, err)
	}
	if out, err = b.Prune(t.Context(), manager.PruneOptions{Idle: &now}); err != nil || len(out.Removed) != 1 {
		t.Errorf("one that is idle: %+v, %v", out, err)
	}

	// A timeout that a has set is kept by b when a is gone.
	_, err = a.Create(t.Context(), manager.Request{Who: of("timed")}, config.Creation{Timeout: 2, Metadata: map[string]string{"k": "v"}})
	fatal(t, err)
	if row, ok := f.row(b, "timed"); !ok || row.Metadata["k"] != "v" || row.OnTimeout != "kill" {
		t.Errorf("b lists %+v", row)
	}
	first.Close()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for begun := time.Now(); ; <-tick.C {
		names, _, err := b.Expire(t.Context())
		fatal(t, err)
		if len(names) == 1 {
			break
		}
		if time.Since(begun) > time.Minute {
			t.Fatal("b does not end what a has made")
		}
	}
	if pods, leases := f.names("pods"), f.names("leases"); len(pods)+len(leases) > 0 {
		t.Errorf("left: %v, %v", pods, leases)
	}

	// A record that is damaged is made again from the pod; one that is gone makes the
	// pod an orphan, a minute after it was made; a pod that is gone leaves a record.
	_, made := f.mustRun(b, "two", "true")
	lease := func(args ...string) {
		f.kubectl(append(args, "--namespace", f.namespace)...)
	}
	lease("annotate", "--overwrite", "lease", made.Name, "dev.bulkhead.sandbox.record={")
	c := f.replica()
	if row, ok := f.row(c, "two"); !ok || row.Status != sandbox.StatusRunning {
		t.Errorf("a damaged record: %+v", row)
	}
	f.mustRun(c, "two", "true")
	lease("delete", "lease", made.Name)
	if row, ok := f.row(c, "two"); !ok || row.Status != sandbox.StatusOrphan {
		t.Errorf("without a record: %+v", row)
	}
	// Nothing but the age of the pod, by the clock of the API server, says that it is one.
	prune := func() {
		for begun := time.Now(); ; <-tick.C {
			out, err = c.Prune(t.Context(), manager.PruneOptions{})
			if err != nil || len(out.Removed) > 0 || time.Since(begun) > 3*time.Minute {
				return
			}
		}
	}
	if prune(); err != nil || len(out.Removed) != 1 || !strings.Contains(out.Removed[0].Reason, "orphan") {
		t.Errorf("an orphan: %+v, %v", out, err)
	}
	_, made = f.mustRun(b, "three", "true")
	lease("delete", "pod", made.Name, "--wait=true", "--grace-period=0", "--force")
	if prune(); err != nil || len(out.Removed) != 1 || !strings.Contains(out.Removed[0].Reason, "missing") {
		t.Errorf("a record without a pod: %+v, %v", out, err)
	}
	if pods, leases := f.names("pods"), f.names("leases"); len(pods)+len(leases) > 0 {
		t.Errorf("left: %v, %v", pods, leases)
	}
}

// TestKubeReplicaOtherTenant holds that a record of another tenant that was edited by hand
// opens no sandbox: the pod says whose it is.
func TestKubeReplicaOtherTenant(t *testing.T) {
	f := newFleet(t)
	m := f.replica()
	mine, theirs := config.Who{Tenant: "mine", Agent: "main", Session: "s"}, config.Who{Tenant: "theirs", Agent: "main", Session: "s"}
	p, err := m.Ready(t.Context(), manager.Request{Who: theirs})
	fatal(t, err)
	q, err := m.Ready(t.Context(), manager.Request{Who: mine})
	fatal(t, err)
	if p.Name == q.Name {
		t.Fatal("two tenants have one sandbox")
	}
	text := f.kubectl("get", "lease", p.Name, "--namespace", f.namespace, "--output", `jsonpath={.metadata.annotations.dev\.bulkhead\.sandbox\.record}`)
	f.kubectl("annotate", "--overwrite", "--namespace", f.namespace, "lease", p.Name, "dev.bulkhead.sandbox.record="+strings.Replace(text, `"theirs"`, `"mine"`, 1))
	other := f.replica()
	l, err := other.List(t.Context(), manager.ListOptions{Tenant: "mine"})
	fatal(t, err)
	for _, r := range l.Containers {
		if r.Name == p.Name {
			t.Errorf("it is listed for another tenant: %+v", r)
		}
	}
	// Its own tenant goes on, whatever the record says.
	if _, err := other.Ready(t.Context(), manager.Request{Who: theirs, MustExist: true}); err != nil {
		t.Errorf("its own tenant: %v", err)
	}
}

// TestKubeReplicaQuota holds what a ResourceQuota that is used up is reported as.
func TestKubeReplicaQuota(t *testing.T) {
	f := newFleet(t)
	m := f.replica()
	f.kubectl("create", "quota", "pods", "--hard=pods=1", "--namespace", f.namespace)
	f.mustRun(m, "one", "true")
	_, _, err := f.run(m, "two", "true")
	if sandbox.CodeOf(err) != sandbox.CodeBudgetExceeded {
		t.Errorf("a second pod: %v", err)
	}
	if pods, leases := f.names("pods"), f.names("leases"); len(pods) != 1 || len(leases) != 1 {
		t.Errorf("there are %v, %v", pods, leases)
	}
}
