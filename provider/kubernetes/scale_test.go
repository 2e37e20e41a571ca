package kubernetes_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	client "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/confighash"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/provider/kubernetes"
)

const (
	// scaleSize names the variable with the number of sandboxes, 1,000 without it.
	// docs/scaling.md has the figures of 10,000. There is a node for each ten.
	scaleSize = "SANDBOX_SCALE"

	// scaleChild names the variable with the kubeconfig that has this program be a
	// process which only lists.
	scaleChild = "SANDBOX_SCALE_CHILD"
)

// listProcessor is how much time of a processor our process may take for a list, for
// each sandbox. It is three times what was measured on a busy machine.
const listProcessor = 450 * time.Microsecond

// TestKubeScale measures a cluster of many nodes and sandboxes, whose kubelets are played
// by the test, and holds bounds. The time that a list takes depends on the API server
// and on what else the machine does, so it is reported alone.
func TestKubeScale(t *testing.T) {
	if file := os.Getenv(scaleChild); file != "" {
		listAlone(t, file)
		return
	}
	pods := 1000
	if text := os.Getenv(scaleSize); text != "" {
		var err error
		pods, err = strconv.Atoi(text)
		must(t, err)
	}
	c := testenv.OwnKube(t, "--without-kubelet")
	kubernetes.Quiet()
	// Its controllers would take nodes without kubelets for dead.
	c.Node(t, "signal", "kube-controller-manager", "STOP")
	r := &rig{TB: t, kubeconfig: c.Kubeconfig(), instance: "00112233445566aa", image: "registry.example/sandbox@sha256:" + strings.Repeat("a", 64), guest: "registry.example/guest@sha256:" + strings.Repeat("b", 64)}
	s := newScale(t, r, pods)
	s.began(t, "nodes", s.nodes, func() { s.each(t, s.nodes, s.node) })
	s.began(t, "sandboxes", pods, func() { s.each(t, pods, s.sandbox) })
	records := keeps(t, r.kubeconfig)
	s.began(t, "records", pods, func() {
		s.each(t, pods, func(i int) error {
			rec, spec := record(s.name(i)), r.spec(strconv.Itoa(i))
			rec.Spec = &spec
			return records.records.Put(rec)
		})
	})
	// A list of all pods takes the API server longer than a call may on a busy machine.
	p := r.providerWith(t, kubernetes.Options{Kubeconfig: r.kubeconfig, Namespace: r.namespace, Call: 10 * time.Minute})

	t.Run("list", func(t *testing.T) {
		for range 2 {
			began, before := time.Now(), processorTime(t)
			list, err := p.List(t.Context(), sandbox.Filter{Instance: r.instance})
			took, used := time.Since(began), processorTime(t)-before
			if err != nil || len(list) != pods {
				t.Fatalf("%d sandboxes, %v", len(list), err)
			}
			t.Logf("list of %d: %v, of which %v of our processor", len(list), took.Round(time.Millisecond), used)
			if used > time.Duration(pods)*listProcessor {
				t.Errorf("a list of %d takes %v of a processor", pods, used)
			}
		}
		eventually(t, time.Minute, "lists are answered from memory", p.Follows)
		var took []time.Duration
		for range 5 {
			began, before := time.Now(), processorTime(t)
			list, err := p.List(t.Context(), sandbox.Filter{Instance: r.instance})
			took = append(took, time.Since(began))
			if err != nil || len(list) != pods {
				t.Fatalf("%d sandboxes, %v", len(list), err)
			}
			t.Logf("list of %d from memory: %v, of which %v of our processor", len(list), took[len(took)-1].Round(time.Millisecond), processorTime(t)-before)
		}
		if slices.Min(took) > time.Second {
			t.Errorf("a list of %d from memory takes %v", pods, took)
		}
		for what := range 3 { // before and after the program has joined the fleet
			began, before := time.Now(), records.calls.Load()
			list, err := records.docs.List()
			if err != nil || len(list) != pods {
				t.Fatalf("%d records, %v", len(list), err)
			}
			t.Logf("list %d of %d records: %v, %d requests", what, len(list), time.Since(began).Round(time.Millisecond), records.calls.Load()-before)
			records.joined(t)
		}
		began := time.Now()
		list, err := p.List(t.Context(), sandbox.Filter{Instance: r.instance, Tenant: "tenant-7"})
		if err != nil || len(list) != pods/100 {
			t.Fatalf("%d sandboxes, %v", len(list), err)
		}
		t.Logf("list of the %d of a tenant: %v", len(list), time.Since(began).Round(time.Millisecond))
	})
	t.Run("memory", func(t *testing.T) {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKubeScale$", "-test.v")
		cmd.Env = append(os.Environ(), scaleChild+"="+r.kubeconfig, scaleSize+"="+strconv.Itoa(pods))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		_, text, _ := bytes.Cut(out, []byte("FIGURES "))
		var got figures
		must(t, json.NewDecoder(bytes.NewReader(text)).Decode(&got))
		t.Logf("%+v", got)
		if got.Most > 300<<10 {
			t.Errorf("a process that lists %d sandboxes takes %d KiB", pods, got.Most)
		}
	})
	t.Run("watch", func(t *testing.T) { s.watch(t) })
	t.Run("reconnect", func(t *testing.T) { s.reconnect(t) })
	t.Run("remove", func(t *testing.T) {
		many := pods / 10
		stop := s.kubelets(t)
		defer stop()
		took := s.began(t, "removals", many, func() {
			s.each(t, many, func(i int) error { return p.Remove(t.Context(), s.name(i)) })
		})
		if rate := float64(many) / took.Seconds(); rate < 2 {
			t.Errorf("%.0f sandboxes are removed a second", rate)
		}
		list, err := p.List(t.Context(), sandbox.Filter{Instance: r.instance})
		if err != nil || len(list) != pods-many {
			t.Errorf("%d sandboxes, %v", len(list), err)
		}
	})
}

// figures are what a process that lists takes.
type figures struct {
	Most  int // KiB of memory that are resident at most
	Now   int // after the lists
	Live  int // KiB of the heap, with one list held
	CPU   time.Duration
	Lists int
}

// listAlone lists as a daemon does, and prints what that takes.
func listAlone(t *testing.T, kubeconfig string) {
	p, err := kubernetes.New(kubernetes.Options{Kubeconfig: kubeconfig})
	must(t, err)
	const lists = 3
	var held []sandbox.Info
	var records []statedir.Document
	state := keeps(t, kubeconfig)
	state.joined(t)
	for range lists {
		held, err = p.List(t.Context(), sandbox.Filter{})
		must(t, err)
		records, err = state.docs.List()
		must(t, err)
		eventually(t, time.Minute, "lists are answered from memory", p.Follows)
	}
	if len(records) != len(held) {
		t.Errorf("%d records", len(records))
	}
	if want, _ := strconv.Atoi(os.Getenv(scaleSize)); len(held) != want {
		t.Fatalf("%d sandboxes", len(held))
	}
	text, err := os.ReadFile("/proc/self/status")
	must(t, err)
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	f := figures{Most: field(text, "VmHWM:"), Now: field(text, "VmRSS:"), Live: int(m.HeapAlloc >> 10), CPU: processorTime(t), Lists: lists}
	runtime.KeepAlive(held)
	runtime.KeepAlive(records)
	out, err := json.Marshal(f)
	must(t, err)
	fmt.Printf("FIGURES %s\n", out)
}

// keeps returns a program that keeps records in the cluster of the kubeconfig.
func keeps(t testing.TB, kubeconfig string) *program {
	t.Helper()
	return programOf(t, kubernetes.Options{Kubeconfig: kubeconfig, Namespace: "default"})
}

// processorTime returns what this process has used.
func processorTime(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func field(status []byte, name string) int {
	for line := range bytes.Lines(status) {
		if f := strings.Fields(string(line)); len(f) > 1 && f[0] == name {
			n, _ := strconv.Atoi(f[1])
			return n
		}
	}
	return 0
}

// scale makes the objects of a large cluster.
type scale struct {
	t     *testing.T
	r     *rig
	api   client.Interface
	pods  int
	nodes int
}

func newScale(t *testing.T, r *rig, pods int) *scale {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", r.kubeconfig)
	must(t, err)
	config.QPS, config.ContentType = -1, "application/vnd.kubernetes.protobuf"
	api, err := client.NewForConfig(config)
	must(t, err)
	return &scale{t, r, api, pods, max(1, pods/10)}
}

func (s *scale) began(t testing.TB, what string, n int, do func()) time.Duration {
	began := time.Now()
	do()
	took := time.Since(began)
	t.Logf("%d %s in %v, %.0f a second", n, what, took.Round(time.Millisecond), float64(n)/took.Seconds())
	return took
}

// each calls do for 0 to n-1, many at a time.
func (s *scale) each(t testing.TB, n int, do func(int) error) {
	var next atomic.Int64
	var failed atomic.Bool
	var group sync.WaitGroup
	for range 32 {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := do(i); err != nil {
					failed.Store(true)
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	if failed.Load() {
		t.FailNow()
	}
}

func (s *scale) node(i int) error {
	room := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("32"), corev1.ResourceMemory: resource.MustParse("128Gi"), corev1.ResourcePods: resource.MustParse("110")}
	n, err := s.api.CoreV1().Nodes().Create(s.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.nodeName(i)}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err != nil {
		return err
	}
	n.Status = corev1.NodeStatus{Capacity: room, Allocatable: room, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}}}
	_, err = s.api.CoreV1().Nodes().UpdateStatus(s.t.Context(), n, metav1.UpdateOptions{})
	return err
}

func (s *scale) nodeName(i int) string { return fmt.Sprintf("node-%d", i%s.nodes) }

func (s *scale) name(i int) string { return s.r.spec(strconv.Itoa(i)).Name }

// sandbox makes the pod that a provider would make, on a node, running.
func (s *scale) sandbox(i int) error {
	spec := s.r.spec(strconv.Itoa(i))
	spec.Owner.Tenant = fmt.Sprintf("tenant-%d", i%100)
	hash, err := confighash.Sum(spec)
	if err != nil {
		return err
	}
	pod, err := kubernetes.Plan(spec, hash, time.Now())
	if err != nil {
		return err
	}
	pod.Spec.NodeName = s.nodeName(i)
	made, err := s.api.CoreV1().Pods("default").Create(s.t.Context(), pod, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.run(made)
}

// run says that the pod runs.
func (s *scale) run(pod *corev1.Pod) error {
	runs(pod)
	_, err := s.api.CoreV1().Pods(pod.Namespace).UpdateStatus(s.t.Context(), pod, metav1.UpdateOptions{})
	return err
}

// runs gives the pod the status of one that runs, in the words of a kubelet.
func runs(pod *corev1.Pod) {
	now := metav1.Now()
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, HostIP: "192.0.2.1", PodIP: "192.0.2.2", StartTime: &now, QOSClass: corev1.PodQOSBurstable}
	for _, kind := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady, corev1.PodReadyToStartContainers} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	id := "containerd://" + strings.Repeat("0123456789abcdef", 4)
	yes := true
	for _, c := range pod.Spec.InitContainers {
		pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, corev1.ContainerStatus{Name: c.Name, Image: c.Image, ImageID: c.Image, ContainerID: id, Ready: true, Started: new(bool),
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: now, FinishedAt: now, ContainerID: id}}})
	}
	for _, c := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, Image: c.Image, ImageID: c.Image, ContainerID: id, Ready: true, Started: &yes,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}})
	}
}

// kubelets ends pods that are to be deleted, as their kubelets do.
func (s *scale) kubelets(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w, err := s.api.CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{})
	must(t, err)
	var group sync.WaitGroup
	ended := make(chan string, s.pods)
	group.Go(func() {
		defer close(ended)
		seen := map[string]bool{}
		for e := range w.ResultChan() {
			if pod, is := e.Object.(*corev1.Pod); is && pod.DeletionTimestamp != nil && !seen[pod.Name] {
				seen[pod.Name] = true
				ended <- pod.Name
			}
		}
	})
	now := int64(0)
	for range 16 {
		group.Go(func() {
			for name := range ended {
				if err := s.api.CoreV1().Pods("default").Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
	}
	return func() { cancel(); w.Stop(); group.Wait() }
}

// watch measures what an event of a pod costs one that watches all of them.
func (s *scale) watch(t *testing.T) {
	events := s.pods / 5
	o := metav1.ListOptions{LabelSelector: "dev.bulkhead.sandbox.instance=" + s.r.instance, Limit: 1}
	one, err := s.api.CoreV1().Pods("default").List(t.Context(), o)
	must(t, err)
	// The API server ends a watch that does not keep up, as on a busy machine: it is resumed.
	w, err := watchtools.NewRetryWatcherWithContext(t.Context(), one.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, at metav1.ListOptions) (watch.Interface, error) {
			at.LabelSelector = o.LabelSelector
			return s.api.CoreV1().Pods("default").Watch(ctx, at)
		},
	})
	must(t, err)
	defer w.Stop()
	var sent sync.Map
	var late []time.Duration
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range w.ResultChan() {
			pod, is := e.Object.(*corev1.Pod)
			if !is {
				continue
			}
			if at, is := sent.LoadAndDelete(pod.Name); is {
				if late = append(late, time.Since(at.(time.Time))); len(late) == events {
					return
				}
			}
		}
	}()
	s.began(t, "events", events, func() {
		s.each(t, events, func(i int) error {
			name := s.name(i)
			sent.Store(name, time.Now())
			_, err := s.api.CoreV1().Pods("default").Patch(t.Context(), name, "application/merge-patch+json", []byte(`{"metadata":{"annotations":{"touched":"`+strconv.FormatInt(time.Now().UnixNano(), 10)+`"}}}`), metav1.PatchOptions{})
			return err
		})
	})
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("events are missing")
	}
	slices.Sort(late)
	t.Logf("from the call to the event: p50 %v, p99 %v", late[events/2].Round(100*time.Microsecond), late[events*99/100].Round(100*time.Microsecond))
}

// reconnect has 50 providers wait for a pod each, takes the API server away, and
// counts what comes when it is back.
func (s *scale) reconnect(t *testing.T) {
	const clients = 50
	front := newFront(t, s.r)
	ctx, end := context.WithCancel(t.Context())
	var group sync.WaitGroup
	names := map[string]bool{}
	for i := range clients {
		spec := s.r.spec("waiting" + strconv.Itoa(i))
		spec.Network = "bridge"
		spec.Options["nodeSelector"] = map[string]string{"none": "such"}
		names[spec.Name] = true
		p := front.provider(t, kubernetes.Options{Schedule: time.Hour, Call: time.Minute})
		group.Go(func() {
			if _, err := p.Create(ctx, spec); sandbox.CodeOf(err) != sandbox.CodeTimeout {
				t.Errorf("%s: %v", spec.Name, err)
			}
		})
	}
	watches := func() (n int) {
		front.mu.Lock()
		defer front.mu.Unlock()
		watching := map[string]bool{}
		for _, r := range front.seen {
			if strings.Contains(r.where, "watch=") {
				watching[r.where[strings.Index(r.where, "metadata.name"):]] = true
			}
		}
		return len(watching)
	}
	until(t, time.Minute, "all watch", func() bool { return watches() == clients })
	front.down()
	wait(t, 5*time.Second)
	front.requests()
	front.up()
	back := time.Now()
	until(t, time.Minute, "all watch again", func() bool { return watches() == clients })
	all := time.Since(back)
	wait(t, 3*time.Second)
	var seconds [64]int
	total := 0
	for _, r := range front.requests() {
		if i := int(r.at.Sub(back) / (100 * time.Millisecond)); i >= 0 && i < len(seconds) {
			seconds[i]++
			total++
		}
	}
	t.Logf("%d clients watch again after %v; %d requests, by tenths of a second: %v", clients, all.Round(time.Millisecond), total, seconds[:min(len(seconds), int(all/(100*time.Millisecond))+5)])
	if most := slices.Max(seconds[:]); most > clients {
		t.Errorf("%d requests in one tenth of a second", most)
	}
	if total > 3*clients {
		t.Errorf("%d requests of %d clients", total, clients)
	}
	end()
	group.Wait()
}
