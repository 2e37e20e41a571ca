package manager_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/policy/hardening"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/provider/kubernetes"
)

// A podRig is a manager on the cluster of testenv.Kube, in a namespace of its own. All
// its requests to the API server go through calls.
type podRig struct {
	*rig
	namespace    string
	image, guest string
	address      string
	calls        *apiCalls
}

func newPodRig(t testing.TB) *podRig {
	t.Helper()
	kubeconfig := testenv.Kube(t)
	r := &podRig{rig: newRig(t), calls: newAPICalls(t, kubeconfig), address: testenv.KubeAddress(t)}
	var id [6]byte
	rand.Read(id[:])
	r.namespace = "pool-" + hex.EncodeToString(id[:])
	kubectl(t, "create", "namespace", r.namespace)
	t.Cleanup(func() {
		if out, err := testenv.Kubectl(context.Background(), t, "delete", "namespace", r.namespace, "--wait=false").CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	r.image = strings.TrimSpace(testenv.KubeNode(t, "import", "sandbox:bookworm-slim"))
	r.guest = testenv.KubeGuest(t, r.namespace, testenv.KubeNode)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(file, fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: x, clusters: [{name: x, cluster: {server: %q}}], users: [{name: x}], contexts: [{name: x, context: {cluster: x, user: x}}]}`, r.calls.URL), 0o600))
	r.rig.change = func(o *manager.Options) {
		p, err := kubernetes.New(kubernetes.Options{
			Kubeconfig: file, Namespace: r.namespace, Trust: r.state.Trust,
			Warn: func(name, text string) { fmt.Fprintf(r.log, "%s: %s\n", name, text) },
			World: func() hardening.World {
				return hardening.World{Canonical: func(p string) (string, error) { return p, nil }, Workspaces: []string{r.state.Workspaces()}}
			},
		})
		must(t, err)
		t.Cleanup(func() { p.Close() })
		o.Providers, err = provider.New(p)
		must(t, err)
	}
	return r
}

// pooled are settings of a pool of pods that take little.
func (r *podRig) pooled(size int, more ...string) string {
	sb := strings.Join(append([]string{
		fmt.Sprintf(`"pool":{"size":%d},"provider":"kubernetes","docker":{"image":%q,"memory":"64m","env":{"COLOR":"red"}}`, size, r.image),
	}, more...), ",")
	return fmt.Sprintf(`{"kubernetes":{"guestImage":%q,"imagePullPolicy":"Never","requestPercent":1,"workspaceSize":"64m","way":"tls","wayFromCIDRs":["%s/32"]},"agents":{"defaults":{"sandbox":{%s}}}}`,
		r.guest, r.address, sb)
}

func kubectl(t testing.TB, args ...string) string {
	t.Helper()
	out, err := testenv.Kubectl(t.Context(), t, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// apiCalls is a way to the API server that counts requests.
type apiCalls struct {
	*httptest.Server
	next     http.RoundTripper // over one connection, as a program itself would
	upgrades http.RoundTripper // of HTTP/1.1, which streams of exec need

	mu  sync.Mutex
	all []string
}

func newAPICalls(t testing.TB, kubeconfig string) *apiCalls {
	t.Helper()
	conf, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	must(t, err)
	next, err := rest.TransportFor(conf)
	must(t, err)
	conf.NextProtos = []string{"http/1.1"}
	upgrades, err := rest.TransportFor(conf)
	must(t, err)
	to, err := url.Parse(conf.Host)
	must(t, err)
	a := &apiCalls{next: next, upgrades: upgrades}
	p := httputil.NewSingleHostReverseProxy(to)
	p.Transport, p.FlushInterval = a, -1
	a.Server = httptest.NewServer(p)
	t.Cleanup(a.CloseClientConnections)
	return a
}

// RoundTrip implements [http.RoundTripper].
func (a *apiCalls) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.Contains(r.URL.Path, "/leases/sandbox-replica-") { // which a program renews whatever it does
		a.mu.Lock()
		a.all = append(a.all, r.Method+" "+r.URL.Path)
		a.mu.Unlock()
	}
	if r.Header.Get("Upgrade") != "" {
		return a.upgrades.RoundTrip(r)
	}
	return a.next.RoundTrip(r)
}

// since returns the requests after the first n, and how many there are now.
func (a *apiCalls) since(n int) ([]string, int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.all[n:]), len(a.all)
}

// maxCalls is how many requests to the API server a claim may make: the claim is written
// on the Lease of the slot, and that of the sandbox is made with the record and the claim.
const maxCalls = 2

// TestKubePodPool holds that a pod that is ready becomes the sandbox of a session with
// what is the session's own, that it is the session's from then on and no other's,
// and that the pod is what it was before.
func TestKubePodPool(t *testing.T) {
	r := newPodRig(t)
	defer func() {
		if t.Failed() {
			t.Logf("%.3000s", r.log.String())
		}
	}()
	m := r.manager(r.pooled(4, `"limits":{"openFiles":77}`))
	if n := fillPool(t, m); n != 4 {
		t.Fatalf("%d slots were started", n)
	}
	specs := func() string {
		return kubectl(t, "get", "pods", "-n", r.namespace, "-o", `jsonpath={range .items[*]}{.metadata.name} {.metadata.labels} {.metadata.annotations} {.spec}{"\n"}{end}`)
	}
	before := specs()
	if strings.Contains(before, "COLOR") {
		t.Error("the environment is part of a pod")
	}
	// The first command of a program sweeps all sandboxes.
	if _, o := mustRun(t, m, "zero", "true"); !o.Claimed {
		t.Errorf("%+v", o)
	}
	_, seen := r.calls.since(0)
	out, o := mustRun(t, m, "one", `echo $COLOR $(ulimit -n) $(id -u); echo mine > f`)
	calls, seen := r.calls.since(seen)
	if !o.Claimed || !strings.HasPrefix(out, "red 77 ") {
		t.Errorf("%q, %+v", out, o)
	}
	if len(calls) > maxCalls {
		t.Errorf("a claim makes %d requests: %q", len(calls), calls)
	}
	t.Logf("the requests of a claim: %q", calls)
	if after := specs(); after != before {
		t.Errorf("the pods were changed:\n%s\n%s", before, after)
	}

	// The session has its files still; another tenant's has another pod.
	if out, o := mustRun(t, m, "one", "cat f"); out != "mine" || o.Created {
		t.Errorf("%q, %+v", out, o)
	}
	out, o, err := run(m, "one", "cat f 2>&1; echo $?", func(q *manager.Request) { q.Who.Tenant = "other" })
	must(t, err)
	if !o.Claimed || strings.Contains(out, "mine") {
		t.Errorf("another tenant sees %q, %+v", out, o)
	}
	calls, _ = r.calls.since(seen)
	if len(calls) > maxCalls { // the commands make none
		t.Errorf("two more commands and a claim make %d requests: %q", len(calls), calls)
	}

	// Another process finds the sandbox, and refills what is missing.
	m.Close()
	m2 := r.manager(r.pooled(4, `"limits":{"openFiles":77}`))
	if out, o := mustRun(t, m2, "one", "cat f"); out != "mine" || o.Created {
		t.Errorf("after a restart: %q, %+v", out, o)
	}
	if n := fillPool(t, m2); n != 3 {
		t.Errorf("%d slots were started, want 3", n)
	}
	l, err := m2.List(t.Context(), manager.ListOptions{All: true})
	must(t, err)
	var sessions, slots int
	for _, row := range l.Containers {
		if row.Kind == sandbox.KindPool {
			slots++
		} else if row.Session == "one" {
			sessions++
		}
	}
	if sessions != 2 || slots != 4 {
		t.Errorf("%d sandboxes and %d slots are listed", sessions, slots)
	}
	for _, row := range l.Containers {
		if row.Tenant == "other" {
			must(t, m2.Remove(t.Context(), row, manager.RemoveOptions{}))
		}
	}
	if out, _ := mustRun(t, m2, "one", "cat f"); out != "mine" {
		t.Errorf("after the removal of another tenant's: %q", out)
	}

	// A slot whose guest has ended becomes no sandbox.
	if n := fillPool(t, m2); n != 0 {
		t.Errorf("%d slots were started, want none", n)
	}
	kubectl(t, "delete", "pods", "-n", r.namespace, "-l", "dev.bulkhead.sandbox.kind=pool", "--field-selector=metadata.name!="+slotOf(t, r, "one"), "--grace-period=0", "--force", "--wait=true")
	out, o, err = run(m2, "two", "echo fresh")
	must(t, err)
	if out != "fresh" || o.Claimed {
		t.Errorf("from slots that are gone: %q, %+v", out, o)
	}
}

// slotOf returns the pod of a session.
func slotOf(t testing.TB, r *podRig, session string) string {
	t.Helper()
	for line := range strings.Lines(kubectl(t, "get", "pods", "-n", r.namespace, "-o", `jsonpath={range .items[*]}{.metadata.name}{"\n"}{end}`)) {
		name := strings.TrimSpace(line)
		if out, err := testenv.Kubectl(t.Context(), t, "exec", "-n", r.namespace, name, "-c", "sandbox", "--", "cat", "/workspace/f").Output(); err == nil && strings.TrimSpace(string(out)) == "mine" {
			return name
		}
	}
	t.Fatalf("no pod has the files of %s", session)
	return ""
}

// TestKubePodClaims measures claims of pods: many at once, and one after the other. How
// many at once SANDBOX_TEST_PODS says, 20 by default, because each takes the kubelet
// a second or more to make. Of a number that it names those count that are ready in
// some minutes.
func TestKubePodClaims(t *testing.T) {
	const slowest = 2 * time.Second // a pod that is made takes longer, also on a busy machine
	size, all := 20, true
	if n := os.Getenv("SANDBOX_TEST_PODS"); n != "" {
		_, err := fmt.Sscan(n, &size)
		must(t, err)
		all = false
	}
	r := newPodRig(t)
	defer func() {
		if t.Failed() {
			t.Logf("%.3000s", r.log.String())
		}
	}()
	m := r.manager(r.pooled(size))
	if n := r.fill(m, 1); n < 1 {
		t.Fatal("no slot is ready")
	}
	firstOutput(t, m, "zero") // the first command of a program sweeps all sandboxes
	if n := r.fill(m, size); n < size && (all || n < 20) {
		t.Fatalf("%d of %d slots are ready", n, size)
	} else {
		size = n
	}
	_, seen := r.calls.since(0)
	before := processors(t)
	took := atOnce(t, m, size, true)
	if t.Failed() {
		return
	}
	calls, _ := r.calls.since(seen)
	for name, used := range processors(t) {
		t.Logf("processor time of %s: %v, %v for each claim", name, used-before[name], (used-before[name])/time.Duration(size))
	}
	t.Logf("%d claims at once, to the first output: p50 %v, p95 %v; %d requests to the API server", size, took[size/2], took[size*95/100], len(calls))
	bound := maxCalls * size
	if !all {
		bound += size / 20 // the keeper of the pool still tries to make the pods that the node has no room for
	}
	if len(calls) > bound {
		t.Errorf("%d claims make %d requests", size, len(calls))
	}
	if took[size*95/100] > slowest {
		t.Errorf("p95 of %d claims at once is %v, want at most %v", size, took[size*95/100], slowest)
	}
	again := atOnce(t, m, size, false)
	t.Logf("%d commands at once in the same pods: p50 %v, p95 %v", size, again[size/2], again[size*95/100])

	must(t, m.Close())
	// A node has room for some hundred pods.
	kubectl(t, "delete", "pods", "-n", r.namespace, "--all", "--grace-period=0", "--force", "--wait=true")
	const few = 10
	m = r.manager(r.pooled(few))
	if n := r.fill(m, 1); n < 1 {
		t.Fatal("no slot is ready")
	}
	firstOutput(t, m, "zero again")
	if n := r.fill(m, few); n < few {
		t.Fatalf("%d of %d slots are ready", n, few)
	}
	var one []time.Duration
	for i := range few {
		_, seen := r.calls.since(0)
		one = append(one, firstOutput(t, m, fmt.Sprintf("one-%d", i)))
		if calls, _ := r.calls.since(seen); len(calls) > maxCalls {
			t.Errorf("claim %d makes %d requests: %q", i, len(calls), calls)
		}
	}
	slices.Sort(one)
	t.Logf("%d claims one after the other, to the first output: p50 %v, most %v", few, one[few/2], one[few-1])
	if one[few/2] > slowest {
		t.Errorf("p50 of a claim is %v, want at most %v", one[few/2], slowest)
	}
}

// processors returns the time of a processor that this program and those of the cluster
// have taken, in steps of 10 ms.
func processors(t testing.TB) map[string]time.Duration {
	t.Helper()
	const tick = 10 * time.Millisecond // USER_HZ of Linux
	number := cmp.Or(os.Getenv("SANDBOX_KUBE_NUMBER"), "0")
	out := map[string]time.Duration{}
	dirs, err := filepath.Glob("/proc/[0-9]*")
	must(t, err)
	for _, dir := range dirs {
		groups, _ := os.ReadFile(dir + "/cgroup")
		if dir != fmt.Sprintf("/proc/%d", os.Getpid()) && !strings.Contains(string(groups), "/sandbox-kube-"+number+"/node") {
			continue
		}
		stat, _ := os.ReadFile(dir + "/stat") // PID (COMM) STATE …, with the times as fields 14 and 15
		name, rest, _ := strings.Cut(string(stat), ") ")
		f := strings.Fields(rest)
		if len(f) < 13 {
			continue // it has ended
		}
		_, name, _ = strings.Cut(name, "(")
		for _, text := range f[11:13] {
			n, err := strconv.Atoi(text)
			must(t, err)
			out[name] += time.Duration(n) * tick
		}
	}
	return out
}

// fill waits until so many slots are ready, for some minutes, and returns how many are.
func (r *podRig) fill(m *manager.Manager, size int) int {
	r.t.Helper()
	began := time.Now()
	for r.ready(m) < size && time.Since(began) < 5*time.Minute {
		_, next, err := m.Refill(r.t.Context())
		if err != nil {
			r.t.Log(err)
		}
		select {
		case <-time.After(min(next, time.Second)):
		case <-m.RefillDue():
		}
	}
	n := r.ready(m)
	r.t.Logf("%d of %d pods were made ready in %v", n, size, time.Since(began).Round(time.Second))
	return n
}

// ready counts the slots that run.
func (r *podRig) ready(m *manager.Manager) (n int) {
	r.t.Helper()
	l, err := m.List(r.t.Context(), manager.ListOptions{All: true})
	must(r.t, err)
	for _, row := range l.Containers {
		if row.Kind == sandbox.KindPool && row.Status == sandbox.StatusRunning {
			n++
		}
	}
	return n
}

// atOnce runs a command in so many sessions at once, and returns how long each took
// until its first output, from the start of all, in order.
func atOnce(t testing.TB, m *manager.Manager, size int, claimed bool) []time.Duration {
	t.Helper()
	var mu sync.Mutex
	var all []time.Duration
	began := time.Now()
	together(size, func(i int) {
		out := &firstWrite{}
		o, err := m.Run(context.Background(), manager.Request{Who: who(fmt.Sprintf("all-%d", i)), Command: sandbox.Command{Args: []string{"/bin/echo", "x"}, Stdout: out}})
		mu.Lock()
		defer mu.Unlock()
		if err != nil || o.Claimed != claimed {
			t.Errorf("command %d: %v, %+v", i, err, o.Miss)
			return
		}
		all = append(all, out.at.Sub(began))
	})
	slices.Sort(all)
	return all
}
