//go:build linux && !sandbox_front && !sandbox_engine

package orchestrator_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
)

// An apiGate stands before the API server and sees each request.
type apiGate struct {
	URL string

	mu     sync.Mutex
	before func(*http.Request)      // is called with each request; or nil
	after  func(*http.Request, int) // and with each answer; or nil
}

// newGate starts a gate. Requests pass without credentials: kubectl adds its own.
func newGate(t testing.TB) *apiGate {
	t.Helper()
	ctx, done := context.WithCancel(context.Background())
	cmd := testenv.Kubectl(ctx, t, "proxy", "--port=0", "--reject-paths=^$", "--accept-hosts=.*")
	out, err := cmd.StdoutPipe()
	fatal(t, err)
	fatal(t, cmd.Start())
	t.Cleanup(func() {
		done()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	fatal(t, err)
	_, address, ok := strings.Cut(strings.TrimSpace(line), "Starting to serve on ")
	if !ok {
		t.Fatalf("kubectl proxy: %s", line)
	}
	to, err := url.Parse("http://" + address)
	fatal(t, err)
	g := &apiGate{}
	pass := httputil.NewSingleHostReverseProxy(to)
	pass.FlushInterval = -1
	pass.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, err error) {
		http.Error(w, err.Error(), http.StatusBadGateway)
	}
	pass.ModifyResponse = func(r *http.Response) error {
		g.mu.Lock()
		after := g.after
		g.mu.Unlock()
		if after != nil {
			after(r.Request, r.StatusCode)
		}
		return nil
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		before := g.before
		g.mu.Unlock()
		if before != nil {
			before(r)
		}
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(server.CloseClientConnections)
	g.URL = server.URL
	return g
}

// watch has the gate call before and after.
func (g *apiGate) watch(before func(*http.Request), after func(*http.Request, int)) {
	g.mu.Lock()
	g.before, g.after = before, after
	g.mu.Unlock()
}

// through are the settings of the fleet with an API server behind the gate.
func (f *fleet) through(g *apiGate) string {
	f.Helper()
	file := filepath.Join(f.TempDir(), "kubeconfig")
	text := "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters:\n- name: c\n  cluster: {server: '" + g.URL + "'}\nusers:\n- name: u\n  user: {}\ncontexts:\n- name: c\n  context: {cluster: c, user: u}\n"
	fatal(f, os.WriteFile(file, []byte(text), 0o600))
	return strings.Replace(f.settings, fmt.Sprintf("%q", testenv.Kube(f)), fmt.Sprintf("%q", file), 1)
}

// aboutState reports whether a request is about what is kept of sandboxes, and not
// about replicas.
func aboutState(r *http.Request) bool {
	return strings.Contains(r.URL.Path, "/leases") && !strings.Contains(r.URL.Path, "sandbox-replica-") && !strings.Contains(r.URL.RawQuery, "replica") && r.URL.Query().Get("watch") == "" && !strings.Contains(r.URL.RawQuery, "sandbox.by-")
}

// renews reports whether a request is one that a replica makes from time to time,
// whatever it does: renewals of its own Lease, and what fills and follows its mirrors.
func renews(r *http.Request) bool {
	if q := r.URL.RawQuery; r.Method == http.MethodGet && (strings.HasSuffix(r.URL.Path, "/leases") && !strings.Contains(q, "role") || strings.HasSuffix(r.URL.Path, "/pods") && strings.Contains(q, "limit=500")) {
		return true
	}
	return r.Method == http.MethodPut && strings.Contains(r.URL.Path, "sandbox-replica-") || r.Method == http.MethodGet && (strings.Contains(r.URL.RawQuery, "replica") || strings.Contains(r.URL.RawQuery, "sandbox.by-"))
}

// TestKubeWarmCommandAsksNoState counts the requests that commands in a sandbox make which
// is in use already.
func TestKubeWarmCommandAsksNoState(t *testing.T) {
	f := newFleet(t)
	g := newGate(t)
	direct := f.settings
	f.settings = f.through(g)
	m := f.replica()
	f.settings = direct
	var mu sync.Mutex
	var seen []string
	g.watch(func(r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if !renews(r) && aboutState(r) {
			seen = append(seen, r.Method+" "+r.URL.RequestURI())
		}
	}, func(r *http.Request, status int) {
		if status >= 300 && aboutState(r) {
			t.Logf("%s %s -> %d", r.Method, r.URL.RequestURI(), status)
		}
	})
	count := func(what string, do func()) []string {
		mu.Lock()
		seen = nil
		mu.Unlock()
		begun := time.Now()
		do()
		took := time.Since(begun)
		mu.Lock()
		defer mu.Unlock()
		t.Logf("%s: %d requests about state, %v", what, len(seen), took.Round(time.Millisecond))
		return seen
	}
	create := count("create", func() { f.mustRun(m, "one", "true") })
	if len(create) > 8 {
		t.Errorf("creating makes %d requests: %v", len(create), create)
	}
	for range 5 {
		f.mustRun(m, "one", "true")
	}
	const times = 100
	if warm := count("100 warm commands", func() {
		for range times {
			f.mustRun(m, "one", "true")
		}
	}); len(warm) > 3 { // what was noted is written every 30 s, and once more where the answer was lost
		t.Errorf("%d warm commands make %d requests: %v", times, len(warm), warm)
	}
	row, _ := f.row(m, "one")
	count("remove", func() { fatal(t, m.Remove(t.Context(), row, manager.RemoveOptions{})) })
}

// The environment of a program that TestKubeKilledReplica starts.
const (
	killedSettings = "SANDBOX_TEST_REPLICA_SETTINGS"
	killedDoes     = "SANDBOX_TEST_REPLICA_DOES"
)

// TestReplicaProgram is the program that is killed. It serves one fleet with a folder
// of its own, and runs the calls that it reads.
func TestReplicaProgram(t *testing.T) {
	settings := os.Getenv(killedSettings)
	if settings == "" {
		return // it is no test
	}
	f := &fleet{TB: t}
	text, err := os.ReadFile(settings)
	fatal(t, err)
	f.settings = string(text)
	m := f.replica()
	switch does := os.Getenv(killedDoes); does {
	case "create", "exec":
		f.mustRun(m, "one", "echo "+does+" > /workspace/"+does)
	case "timeout":
		_, err := m.Create(t.Context(), manager.Request{Who: of("one")}, config.Creation{Timeout: 3600, Labels: map[string]string{"a": "b"}})
		fatal(t, err)
	case "remove":
		row, ok := f.row(m, "one")
		if !ok {
			t.Fatal("there is nothing to remove")
		}
		fatal(t, m.Remove(t.Context(), row, manager.RemoveOptions{}))
	case "prune":
		idle := time.Nanosecond
		_, err := m.Prune(t.Context(), manager.PruneOptions{Idle: &idle})
		fatal(t, err)
	default:
		t.Fatalf("%q is nothing to do", does)
	}
}

// killAt starts a program that does something, and kills it at its n-th request, when
// the API server has carried it out and before the program learns of that. killed is
// false where the program has ended before.
func (f *fleet) killAt(g *apiGate, settings, does string, n int) (at string, killed bool) {
	f.Helper()
	self, err := os.Executable()
	fatal(f, err)
	cmd := exec.CommandContext(f.Context(), self, "-test.run=^TestReplicaProgram$", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), killedSettings+"="+settings, killedDoes+"="+does)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	ended := make(chan struct{})
	var mu sync.Mutex
	count := 0
	g.watch(nil, func(r *http.Request, status int) {
		if renews(r) {
			return
		}
		mu.Lock()
		count++
		is := count == n
		if is {
			at, killed = fmt.Sprintf("%s %s -> %d", r.Method, r.URL.Path, status), true
			_ = cmd.Process.Kill()
		}
		mu.Unlock()
		if is {
			<-ended
		}
	})
	fatal(f, cmd.Start())
	err = cmd.Wait()
	close(ended)
	g.watch(nil, nil)
	mu.Lock()
	defer mu.Unlock()
	if !killed && err != nil {
		f.Fatalf("%s: %v: %s", does, err, out.Bytes())
	}
	return at, killed
}

// TestKubeKilledReplica kills a program at every second request of what it does to a
// sandbox. Another one goes on: nothing is made twice, nothing is lost that a command has
// written, and nothing is left when the sandbox is removed. What programs do is tested at
// the same time, each in a namespace of its own: most of the time passes until a Lease
// has ended and until the node has started a pod.
func TestKubeKilledReplica(t *testing.T) {
	for _, does := range []string{"create", "timeout", "exec", "remove", "prune"} {
		t.Run(does, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			g := newGate(t)
			settings := f.shortLived(g)
			b := f.replica()
			stride := 2
			if testing.Short() {
				stride = 6
			}
			for n := 1; f.goesOn(b, g, settings, does, n); n += stride {
			}
		})
	}
}

// shortLived writes the settings of a program that is killed, whose Leases end soon.
func (f *fleet) shortLived(g *apiGate) string {
	f.Helper()
	settings := filepath.Join(f.TempDir(), "settings")
	short := strings.Replace(f.through(g), `"kubernetes": {`, `"kubernetes": {"lease": "4s", `, 1)
	fatal(f, os.WriteFile(settings, []byte(short), 0o600))
	return settings
}

// goesOn kills a program at its n-th request and has b go on. It returns false where the
// program has made fewer requests.
func (f *fleet) goesOn(b *manager.Manager, g *apiGate, settings, does string, n int) bool {
	f.Helper()
	if does != "create" && does != "timeout" {
		f.mustRun(b, "one", "echo before > /workspace/before")
	}
	at, killed := f.killAt(g, settings, does, n)
	begun := time.Now()
	out, _ := f.mustRun(b, "one", "cat /workspace/before 2>/dev/null; true")
	took := time.Since(begun)
	if does == "exec" && out != "before" {
		f.Errorf("at request %d (%s) the files are lost: %q", n, at, out)
	}
	if took > time.Minute {
		f.Errorf("at request %d (%s) another program goes on after %v", n, at, took)
	}
	if pods := f.names("pods"); len(pods) != 1 {
		f.Errorf("at request %d (%s) there are the pods %v", n, at, pods)
	}
	row, ok := f.row(b, "one")
	if !ok || row.Status != sandbox.StatusRunning {
		f.Errorf("at request %d (%s) the sandbox is %+v", n, at, row)
	}
	remove(f, b, row)
	if pods, leases := f.names("pods"), f.left(); len(pods)+len(leases) > 0 {
		f.Errorf("at request %d (%s) are left: %v, %v", n, at, pods, leases)
	}
	if !killed {
		f.Logf("%d steps", n-1)
		return false
	}
	f.Logf("killed at request %d: %s; another goes on after %v", n, at, took.Round(time.Millisecond))
	return true
}

// left lists the Leases that do not go within a minute. What a program held that was
// killed goes when another one has found out.
func (f *fleet) left() []string {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for begun := time.Now(); ; <-tick.C {
		if leases := f.names("leases"); len(leases) == 0 || time.Since(begun) > time.Minute {
			return leases
		}
	}
}

// remove removes a sandbox as soon as no program can hold it any more that was killed.
func remove(f *fleet, m *manager.Manager, row manager.Row) {
	f.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for begun := time.Now(); ; <-tick.C {
		err := m.Remove(f.Context(), row, manager.RemoveOptions{})
		if err == nil {
			return
		}
		if sandbox.CodeOf(err) != sandbox.CodeBusy || time.Since(begun) > time.Minute {
			f.Fatal(err)
		}
	}
}

// TestKubeKilledClaim kills a program at every second request of a claim, and of the sweep
// before it. Another program, which keeps
// the pool, goes on with the session: the sandbox is made once, no pod is that of two
// sessions, and what is left of the claim goes with the next round of the pool.
func TestKubeKilledClaim(t *testing.T) {
	t.Parallel()
	const size = 2
	f := newFleet(t)
	f.settings = strings.Replace(f.settings, `"sandbox": {"provider"`, fmt.Sprintf(`"sandbox": {"pool": {"size": %d}, "provider"`, size), 1)
	g := newGate(t)
	settings := f.shortLived(g)
	b := f.replica()
	stride := 2
	if testing.Short() {
		stride = 6
	}
	fill := func() {
		for deadline := time.Now().Add(3 * time.Minute); ; {
			_, next, err := b.Refill(t.Context())
			if err != nil {
				t.Log(err)
			}
			pods, leases := f.names("pods"), f.kept()
			if len(pods) == size && len(leases) == size && f.freeSlots(b) == size {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("the pool of %d has the pods %v and the Leases %v", size, pods, leases)
			}
			select {
			case <-time.After(min(next, time.Second)):
			case <-b.RefillDue():
			}
		}
	}
	claims := 0
	for n := 1; ; n += stride {
		fill()
		at, killed := f.killAt(g, settings, "exec", n)
		begun := time.Now()
		f.mustRun(b, "one", "cat /workspace/mine 2>/dev/null; echo one > /workspace/mine")
		took := time.Since(begun)
		if out, _ := f.mustRun(b, "two", "cat /workspace/mine /workspace/exec 2>/dev/null; true"); out != "" {
			t.Errorf("at request %d (%s) the pod is that of two sessions: %q", n, at, out)
		}
		if out, _ := f.mustRun(b, "one", "cat /workspace/mine"); out != "one" {
			t.Errorf("at request %d (%s) the files of the session are %q", n, at, out)
		}
		if took > time.Minute {
			t.Errorf("at request %d (%s) another program goes on after %v", n, at, took)
		}
		for _, session := range []string{"one", "two"} {
			row, ok := f.row(b, session)
			if !ok || row.Status != sandbox.StatusRunning {
				t.Errorf("at request %d (%s) the sandbox of %s is %+v", n, at, session, row)
			}
			remove(f, b, row)
		}
		if !killed {
			t.Logf("%d steps", n-1)
			if claims == 0 {
				t.Error("no claim was cut short")
			}
			return
		}
		if strings.Contains(at, "sbx-pool-") {
			claims++
		}
		t.Logf("killed at request %d: %s; another goes on after %v", n, at, took.Round(time.Millisecond))
	}
}

// kept lists the Leases on which something is kept, or a lock to make a sandbox is held.
func (f *fleet) kept() (out []string) {
	f.Helper()
	for line := range strings.Lines(f.kubectl("get", "leases", "--namespace", f.namespace, "--output", `jsonpath={range .items[*]}{.metadata.name} {.metadata.annotations}{"\n"}{end}`)) {
		if name, annotations, _ := strings.Cut(strings.TrimSpace(line), " "); annotations != "" && annotations != "{}" && !strings.HasPrefix(name, "sandbox-replica-") {
			out = append(out, name)
		}
	}
	return out
}

// freeSlots counts the slots of the pool that run.
func (f *fleet) freeSlots(m *manager.Manager) (n int) {
	f.Helper()
	l, err := m.List(f.Context(), manager.ListOptions{All: true})
	fatal(f, err)
	for _, row := range l.Containers {
		if row.Kind == sandbox.KindPool && row.Status == sandbox.StatusRunning {
			n++
		}
	}
	return n
}
