package kubernetes_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/provider/kubernetes"
)

// A faulty is a cluster of our own that tests break.
type faulty struct {
	*rig
	cluster testenv.Cluster
	p       *kubernetes.Provider // straight to the API server
}

// TestKubeFaults breaks a cluster in many ways. Each call then either succeeds or
// returns, within a bound, an error with a code and the name of the sandbox; nothing
// is lost, nothing is there twice, and no goroutine stays.
func TestKubeFaults(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Run("cluster", func(t *testing.T) {
		c := testenv.OwnKube(t)
		r := newRigOn(t, c.Kubeconfig(), c.Node)
		f := &faulty{rig: r, cluster: c, p: r.provider(t)}
		kubernetes.Quiet()
		t.Run("together", func(t *testing.T) {
			tests := map[string]func(*testing.T, *faulty){}
			maps.Copy(tests, podFaults)
			maps.Copy(tests, frontFaults)
			maps.Copy(tests, accessFaults)
			for _, name := range slices.Sorted(maps.Keys(tests)) {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					tests[name](t, f)
				})
			}
		})
		for _, program := range programFaults {
			t.Run(program.name, func(t *testing.T) { program.test(t, f) })
		}
	})
	testenv.None(t, before)
}

// podFaults are those of single pods and nodes' doings.
var podFaults = map[string]func(*testing.T, *faulty){
	"image missing": func(t *testing.T, f *faulty) {
		s := f.spec(t.Name())
		s.Image, s.ImageID = "registry.invalid/none:1", "registry.invalid/none:1"
		s.Options["imagePullPolicy"] = "IfNotPresent"
		err := within(t, time.Minute, func() error { _, err := f.p.Create(t.Context(), s); return err })
		isFault(t, err, s.Name, "registry.invalid/none:1", sandbox.CodeUnavailable)
		f.gone(t, s)
	},
	"no room": func(t *testing.T, f *faulty) {
		s := f.spec(t.Name())
		s.Resources.Memory, s.Resources.MemorySwap = 1<<44, 1<<44
		s.Options["requestPercent"] = 100
		p := f.providerWith(t, kubernetes.Options{Kubeconfig: f.kubeconfig, Schedule: 2 * time.Second})
		err := within(t, 30*time.Second, func() error { _, err := p.Create(t.Context(), s); return err })
		isFault(t, err, s.Name, "no node takes the pod", sandbox.CodeUnavailable)
		f.gone(t, s)
	},
	"evicted during a command": func(t *testing.T, f *faulty) {
		s := f.create(t)
		h := f.open(t, f.p, s)
		wait := f.running(t, h)
		f.raw(t, "create", "--raw", "/api/v1/namespaces/default/pods/"+s.Name+"/eviction", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"`+s.Name+`","namespace":"default"}}`)
		isFault(t, within(t, time.Minute, wait), s.Name, "", sandbox.CodeUnavailable)
		until(t, time.Minute, "the pod is gone", func() bool { return sandbox.IsNotFound(second(f.p.Inspect(t.Context(), s.Name))) })
		isFault(t, second(f.p.Open(t.Context(), s)), s.Name, "", sandbox.CodeNotFound)
		f.create2(t, s) // and it is made anew
	},
	"deleted during a command": func(t *testing.T, f *faulty) {
		s := f.create(t)
		h := f.open(t, f.p, s)
		wait := f.running(t, h)
		f.kubectl(t, "delete", "pod", s.Name, "--wait=false")
		isFault(t, within(t, time.Minute, wait), s.Name, "", sandbox.CodeUnavailable)
		f.gone(t, s)
	},
	"deleted during create": func(t *testing.T, f *faulty) {
		s := f.spec(t.Name())
		made := make(chan error, 1)
		go func() { _, err := f.p.Create(t.Context(), s); made <- err }()
		until(t, time.Minute, "there is a pod", func() bool { return second(f.p.Inspect(t.Context(), s.Name)) == nil })
		f.kubectl(t, "delete", "pod", s.Name, "--wait=false")
		isFault(t, within(t, time.Minute, func() error { return <-made }), s.Name, "removed", sandbox.CodeNotFound)
		f.gone(t, s)
	},
	"deleted between create and open": func(t *testing.T, f *faulty) {
		s := f.create(t)
		f.kubectl(t, "delete", "pod", s.Name)
		isFault(t, within(t, time.Minute, func() error { return second(f.p.Open(t.Context(), s)) }), s.Name, "", sandbox.CodeNotFound)
	},
	"deleted during remove": func(t *testing.T, f *faulty) {
		s := f.create(t)
		var group sync.WaitGroup
		group.Go(func() {
			if out, err := f.cluster.Kubectl(t.Context(), "delete", "pod", s.Name, "--ignore-not-found").CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
		for range 3 {
			group.Go(func() {
				if err := f.p.Remove(t.Context(), s.Name); err != nil {
					t.Error(err)
				}
			})
		}
		within(t, time.Minute, func() error { group.Wait(); return nil })
		f.gone(t, s)
	},
	"out of memory": func(t *testing.T, f *faulty) {
		s := f.create(t)
		h := f.open(t, f.p, s)
		proc, err := h.Start(t.Context(), sandbox.Command{Args: []string{"sh", "-c", "head -c 600000000 /dev/zero | tail >/dev/null"}})
		must(t, err)
		err = within(t, time.Minute, func() error {
			exit, err := proc.Wait()
			if err == nil && exit.Code == 0 {
				t.Error("the command has ended well")
			}
			return err
		})
		if err != nil { // the whole container went
			isFault(t, err, s.Name, "", sandbox.CodeUnavailable)
		}
		f.works(t, f.p, s)
	},
	"guest killed during a command": func(t *testing.T, f *faulty) {
		s := f.create(t)
		h := f.open(t, f.p, s)
		run(t, h, "echo kept >/workspace/file")
		wait := f.running(t, h)
		killGuest(t, h.Info().ID)
		isFault(t, within(t, time.Minute, wait), s.Name, "", sandbox.CodeUnavailable)
		again := f.open(t, f.p, s) // the kubelet starts it again
		if got := run(t, again, "cat /workspace/file"); got != "kept\n" {
			t.Errorf("the workspace has %q", got)
		}
	},
	"disk full": func(t *testing.T, f *faulty) {
		s := f.spec(t.Name())
		s.Options["workspaceSize"] = "8Mi"
		f.create2(t, s)
		h := f.open(t, f.p, s)
		proc, err := h.Start(t.Context(), sandbox.Command{Args: []string{"sh", "-c", "head -c 50000000 /dev/zero >/workspace/file; sleep 300"}})
		must(t, err)
		err = within(t, 3*time.Minute, func() error { _, err := proc.Wait(); return err })
		isFault(t, err, s.Name, "", sandbox.CodeUnavailable)
		err = within(t, time.Minute, func() error { return second(f.p.Open(t.Context(), s)) })
		isFault(t, err, s.Name, "evicted", sandbox.CodeUnavailable)
		if t.Failed() {
			t.Log(f.kubectl(t, "get", "pod", s.Name, "-o", "jsonpath={.status}"))
		}
		must(t, f.p.Remove(t.Context(), s.Name))
		f.gone(t, s)
	},
	"another pod of the name": func(t *testing.T, f *faulty) {
		s := f.create(t)
		h := f.open(t, f.p, s)
		other := f.provider(t)
		must(t, other.Remove(t.Context(), s.Name))
		must(t, second(other.Create(t.Context(), s)))
		_, err := h.Start(t.Context(), sandbox.Command{Args: []string{"true"}})
		isFault(t, err, s.Name, "", sandbox.CodeUnavailable)
		if now := f.open(t, f.p, s); now.Info().ID == h.Info().ID {
			t.Error("the sandbox has the identity of the one before it")
		}
	},
	"clocks that differ": func(t *testing.T, f *faulty) {
		s := f.spec(t.Name())
		at := func(d time.Duration) *kubernetes.Provider {
			return f.providerWith(t, kubernetes.Options{Kubeconfig: f.kubeconfig, Now: func() time.Time { return time.Now().Add(d) }})
		}
		ahead, behind := at(10*time.Minute), at(-10*time.Minute)
		began := time.Now()
		info, err := ahead.Create(t.Context(), s)
		must(t, err)
		f.works(t, behind, s)
		for _, p := range []*kubernetes.Provider{ahead, behind} {
			list, err := p.List(t.Context(), sandbox.Filter{Instance: f.instance, Name: s.Name})
			if err != nil || len(list) != 1 || list[0].ID != info.ID {
				t.Fatalf("%v, %v", list, err)
			}
			if off := list[0].CreatedAt.Sub(began).Abs(); off > time.Minute {
				t.Errorf("it was made %v away from now", off)
			}
		}
		must(t, behind.Remove(t.Context(), s.Name))
	},
}

// frontFaults are those of the way to the API server.
var frontFaults = map[string]func(*testing.T, *faulty){
	"no fault, and few requests": func(t *testing.T, f *faulty) {
		front := newFront(t, f.rig)
		p := front.provider(t, kubernetes.Options{})
		s := f.spec(t.Name())
		count := func(what string, most int, call func() error) {
			t.Helper()
			front.requests()
			must(t, within(t, 3*time.Minute, call))
			if got := front.requests(); len(got) > most {
				t.Errorf("%s makes %d requests, %v", what, len(got), got)
			} else {
				t.Logf("%s: %d requests", what, len(got))
			}
		}
		var h sandbox.Sandbox
		count("create", 6, func() error { return second(p.Create(t.Context(), s)) })
		count("open", 3, func() (err error) { h, err = p.Open(t.Context(), s); return err })
		count("a command", 0, func() error { run(t, h, "true"); return nil })
		count("inspect", 1, func() error { return second(p.Inspect(t.Context(), s.Name)) })
		count("list", 1, func() error { return second(p.List(t.Context(), sandbox.Filter{Name: s.Name})) })
		must(t, h.Close())
		count("remove", 4, func() error { return p.Remove(t.Context(), s.Name) })
	},
	"answer to create lost": func(t *testing.T, f *faulty) {
		front := newFront(t, f.rig)
		lost := 0
		front.answers(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/pods") {
				return false
			}
			lost++
			front.forward.ServeHTTP(discarding{}, r)
			panic(http.ErrAbortHandler)
		})
		s := f.spec(t.Name())
		info, err := front.provider(t, kubernetes.Options{}).Create(t.Context(), s)
		if err != nil || lost == 0 {
			t.Fatalf("%v; %d answers were lost", err, lost)
		}
		if now := f.works(t, f.p, s); now.ID != info.ID {
			t.Error("it was made twice")
		}
	},
	"create answered by a timeout": func(t *testing.T, f *faulty) {
		front := newFront(t, f.rig)
		front.answers(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/pods") {
				return false
			}
			front.forward.ServeHTTP(discarding{}, r)
			status(w, http.StatusGatewayTimeout, "Timeout", "etcdserver: request timed out")
			return true
		})
		s := f.spec(t.Name())
		must(t, second(front.provider(t, kubernetes.Options{}).Create(t.Context(), s)))
		f.works(t, f.p, s)
	},
	"create late": func(t *testing.T, f *faulty) {
		// The call takes effect when the caller has been waiting for too long.
		front := newFront(t, f.rig)
		front.answers(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/pods") {
				return false
			}
			body, _ := io.ReadAll(r.Body)
			<-r.Context().Done()
			late := r.Clone(context.WithoutCancel(r.Context()))
			late.Body = io.NopCloser(strings.NewReader(string(body)))
			front.forward.ServeHTTP(discarding{}, late)
			return true
		})
		s := f.spec(t.Name())
		err := within(t, time.Minute, func() error {
			return second(front.provider(t, kubernetes.Options{Call: 2 * time.Second}).Create(t.Context(), s))
		})
		if err == nil {
			f.works(t, f.p, s)
			return
		}
		isFault(t, err, s.Name, "", sandbox.CodeTimeout)
		f.gone(t, s)
	},
	"create fails in the server": func(t *testing.T, f *faulty) {
		front := newFront(t, f.rig)
		front.answers(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPost {
				return false
			}
			status(w, http.StatusInternalServerError, "InternalError", "the store is broken")
			return true
		})
		s := f.spec(t.Name())
		err := within(t, time.Minute, func() error { return second(front.provider(t, kubernetes.Options{}).Create(t.Context(), s)) })
		isFault(t, err, s.Name, "the store is broken", sandbox.CodeUnavailable)
		f.gone(t, s)
	},
	"connections cut while a pod is made": func(t *testing.T, f *faulty) {
		front := newFront(t, f.rig)
		s := f.spec(t.Name())
		made := make(chan error, 1)
		go func() { made <- second(front.provider(t, kubernetes.Options{}).Create(t.Context(), s)) }()
		until(t, time.Minute, "there is a pod", func() bool { return second(f.p.Inspect(t.Context(), s.Name)) == nil })
		front.down()
		front.requests()
		until(t, time.Minute, "the pod runs", func() bool {
			i, err := f.p.Inspect(t.Context(), s.Name)
			return err == nil && i.Status == sandbox.StatusRunning
		})
		front.up()
		must(t, within(t, time.Minute, func() error { return <-made }))
		f.works(t, f.p, s)
	},
	"server away for longer than is waited": func(t *testing.T, f *faulty) {
		front := newFront(t, f.rig)
		s := f.spec(t.Name())
		made := make(chan error, 1)
		p := front.provider(t, kubernetes.Options{Call: 2 * time.Second})
		go func() { made <- second(p.Create(t.Context(), s)) }()
		until(t, time.Minute, "there is a pod", func() bool { return second(f.p.Inspect(t.Context(), s.Name)) == nil })
		front.down()
		isFault(t, within(t, 30*time.Second, func() error { return <-made }), s.Name, "", sandbox.CodeUnavailable, sandbox.CodeTimeout)
		front.up()
		// The pod could not be removed. The next call of the name finds it.
		until(t, time.Minute, "the pod is opened", func() bool {
			h, err := p.Open(t.Context(), s)
			if err == nil {
				err = h.Close()
			}
			return err == nil
		})
		must(t, p.Remove(t.Context(), s.Name))
		f.gone(t, s)
	},
	"connections cut while a pod is removed": func(t *testing.T, f *faulty) {
		front := newFront(t, f.rig)
		s := f.create(t)
		p := front.provider(t, kubernetes.Options{})
		front.answers(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodDelete {
				return false
			}
			front.answers(nil)
			front.forward.ServeHTTP(discarding{}, r)
			go front.cut()
			panic(http.ErrAbortHandler)
		})
		must(t, within(t, time.Minute, func() error { return p.Remove(t.Context(), s.Name) }))
		f.gone(t, s)
	},
	"watch expired": func(t *testing.T, f *faulty) {
		front := newFront(t, f.rig)
		watches := 0
		front.answers(func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Query().Get("watch") == "" {
				return false
			}
			front.mu.Lock()
			watches++
			n := watches
			front.mu.Unlock()
			switch {
			case n%3 == 1: // when it begins
				status(w, http.StatusGone, metav1StatusExpired, "too old resource version")
			case n%3 == 2: // and when it has begun
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintln(w, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","message":"too old resource version","code":410}}`)
			default:
				return false
			}
			return true
		})
		s := f.spec(t.Name())
		p := front.provider(t, kubernetes.Options{})
		must(t, within(t, 2*time.Minute, func() error { return second(p.Create(t.Context(), s)) }))
		must(t, within(t, 2*time.Minute, func() error { return p.Remove(t.Context(), s.Name) }))
		if watches < 2 {
			t.Errorf("there were %d watches", watches)
		}
		f.gone(t, s)
	},
	"watch silent": func(t *testing.T, f *faulty) {
		front := newFront(t, f.rig)
		front.answers(func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Query().Get("watch") == "" {
				return false
			}
			w.Header().Set("Content-Type", "application/json")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return true
		})
		s := f.spec(t.Name())
		p := front.provider(t, kubernetes.Options{})
		must(t, within(t, time.Minute, func() error { return second(p.Create(t.Context(), s)) }))
		must(t, within(t, time.Minute, func() error { return p.Remove(t.Context(), s.Name) }))
		f.gone(t, s)
	},
	"connections half open": func(t *testing.T, f *faulty) {
		front := newFront(t, f.rig)
		s := f.create(t)
		p := front.provider(t, kubernetes.Options{Call: 5 * time.Second})
		must(t, second(p.Inspect(t.Context(), s.Name)))
		h := f.open(t, p, s)
		wait := f.running(t, h)
		front.freeze()
		err := within(t, 20*time.Second, func() error { return second(p.Inspect(t.Context(), s.Name)) })
		isFault(t, err, s.Name, "", sandbox.CodeTimeout)
		err = within(t, 30*time.Second, func() error { return second(p.List(t.Context(), sandbox.Filter{Instance: f.instance})) })
		isFault(t, err, "default", "", sandbox.CodeTimeout)
		// The stream is found dead by its own signs of life.
		isFault(t, within(t, 2*time.Minute, wait), s.Name, "", sandbox.CodeUnavailable)
		front.cut()
		front.thaw()
		f.works(t, p, s)
	},
	"page of a list expired": func(t *testing.T, f *faulty) {
		front := newFront(t, f.rig)
		s := f.create(t)
		pages, expired := 0, 0
		front.answers(func(w http.ResponseWriter, r *http.Request) bool {
			q := r.URL.Query()
			switch {
			case q.Get("limit") == "":
				return false
			case q.Get("continue") != "" && expired < 2:
				expired++
				status(w, http.StatusGone, metav1StatusExpired, "the provided continue parameter is too old")
				return true
			}
			pages++
			q.Set("limit", "1") // so that there are many pages
			r.URL.RawQuery = q.Encode()
			return false
		})
		f.create2(t, f.spec(t.Name()+" second"))
		list, err := front.provider(t, kubernetes.Options{}).List(t.Context(), sandbox.Filter{Instance: f.instance})
		must(t, err)
		names := map[string]int{}
		for _, i := range list {
			names[i.Name]++
			if names[i.Name] > 1 {
				t.Errorf("%s is listed twice", i.Name)
			}
		}
		if names[s.Name] != 1 || expired != 2 {
			t.Errorf("%v after %d pages, of which %d expired", names, pages, expired)
		}
	},
	"too many requests": func(t *testing.T, f *faulty) {
		front := newFront(t, f.rig)
		var mu sync.Mutex
		turns := map[string]int{}
		front.answers(func(w http.ResponseWriter, r *http.Request) bool {
			mu.Lock()
			defer mu.Unlock()
			if turns[r.Method]++; turns[r.Method] > 2 {
				return false
			}
			w.Header().Set("Retry-After", "1")
			status(w, http.StatusTooManyRequests, "TooManyRequests", "slow down")
			return true
		})
		s := f.spec(t.Name())
		p := front.provider(t, kubernetes.Options{})
		must(t, within(t, time.Minute, func() error { return second(p.Create(t.Context(), s)) }))
		front.answers(func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Retry-After", "1")
			status(w, http.StatusTooManyRequests, "TooManyRequests", "slow down")
			return true
		})
		front.requests()
		p = front.provider(t, kubernetes.Options{Call: 4 * time.Second})
		err := within(t, 20*time.Second, func() error { return second(p.Inspect(t.Context(), s.Name)) })
		isFault(t, err, s.Name, "", sandbox.CodeUnavailable, sandbox.CodeTimeout)
		if n := len(front.requests()); n > 8 {
			t.Errorf("it was asked %d times in 4 s, against its wish", n)
		}
		front.answers(nil)
		must(t, f.p.Remove(t.Context(), s.Name))
	},
	"garbage from the server": func(t *testing.T, f *faulty) {
		s := f.create(t)
		for what, file := range map[string]func() string{
			"no HTTP": func() string { return garbage(t) },
			"no JSON": func() string {
				front := newFront(t, f.rig)
				front.answers(func(w http.ResponseWriter, r *http.Request) bool {
					w.Header().Set("Content-Type", "application/json")
					_, _ = io.WriteString(w, `{"kind":"Pod","metadata":`+"\x00\x1b[31m")
					return true
				})
				return front.kubeconfig(t)
			},
			"another object": func() string {
				front := newFront(t, f.rig)
				front.answers(func(w http.ResponseWriter, r *http.Request) bool {
					w.Header().Set("Content-Type", "text/html")
					_, _ = io.WriteString(w, `<html>Please sign in</html>`)
					return true
				})
				return front.kubeconfig(t)
			},
		} {
			p := f.providerWith(t, kubernetes.Options{Kubeconfig: file(), Call: 3 * time.Second})
			calls := map[string]func() error{
				"inspect": func() error { return second(p.Inspect(t.Context(), s.Name)) },
				"list":    func() error { return second(p.List(t.Context(), sandbox.Filter{Name: s.Name})) },
				"open":    func() error { return second(p.Open(t.Context(), s)) },
				"create":  func() error { return second(p.Create(t.Context(), f.spec(t.Name()+what))) },
				"remove":  func() error { return p.Remove(t.Context(), s.Name) },
			}
			for call, do := range calls {
				err := within(t, time.Minute, do)
				isFault(t, err, "", "", sandbox.CodeUnavailable, sandbox.CodeTimeout)
				if strings.ContainsAny(fmt.Sprint(err), "\x00\x1b") {
					t.Errorf("%s, %s: %q has control characters", what, call, err)
				}
			}
			f.gone(t, f.spec(t.Name()+what))
		}
		f.works(t, f.p, s)
	},
	"stream of a command cut": func(t *testing.T, f *faulty) {
		front := newFront(t, f.rig)
		s := f.create(t)
		p := front.provider(t, kubernetes.Options{})
		h := f.open(t, p, s)
		wait := f.running(t, h)
		front.cut()
		isFault(t, within(t, 20*time.Second, wait), s.Name, "", sandbox.CodeUnavailable)
		again := f.open(t, p, s)
		until(t, 20*time.Second, "the command is gone", func() bool { return run(t, again, "flock -n /tmp/runs echo gone || :") == "gone\n" })
		must(t, again.Close())
		p.Close()
		until(t, 20*time.Second, "no connection is left", func() bool { return front.open() == 0 })
	},
}

const metav1StatusExpired = "Expired"

// discarding is an answer that no caller reads.
type discarding struct{}

func (discarding) Header() http.Header         { return http.Header{} }
func (discarding) Write(b []byte) (int, error) { return len(b), nil }
func (discarding) WriteHeader(int)             {}

// create makes the sandbox of the test.
func (f *faulty) create(t testing.TB) sandbox.Spec {
	t.Helper()
	s := f.spec(t.Name())
	f.create2(t, s)
	return s
}

func (f *faulty) create2(t testing.TB, s sandbox.Spec) {
	t.Helper()
	must(t, within(t, 3*time.Minute, func() error { return second(f.p.Create(t.Context(), s)) }))
}

func (f *faulty) open(t testing.TB, p sandbox.Provider, s sandbox.Spec) sandbox.Sandbox {
	t.Helper()
	var h sandbox.Sandbox
	must(t, within(t, 3*time.Minute, func() (err error) { h, err = p.Open(t.Context(), s); return err }))
	t.Cleanup(func() { h.Close() })
	return h
}

// works holds that a command runs, and that there is one sandbox of the name.
func (f *faulty) works(t testing.TB, p sandbox.Provider, s sandbox.Spec) sandbox.Info {
	t.Helper()
	h := f.open(t, p, s)
	if got := run(t, h, "echo works"); got != "works\n" {
		t.Errorf("the command wrote %q", got)
	}
	list, err := p.List(t.Context(), sandbox.Filter{Instance: f.instance, Name: s.Name})
	if err != nil || len(list) != 1 {
		t.Fatalf("listed are %v, %v", list, err)
	}
	must(t, h.Close())
	return list[0]
}

// gone holds that nothing of the sandbox is left, nor comes to be.
func (f *faulty) gone(t testing.TB, s sandbox.Spec) {
	t.Helper()
	until(t, time.Minute, s.Name+" is gone", func() bool { return sandbox.IsNotFound(second(f.p.Inspect(t.Context(), s.Name))) })
}

// running starts a command that runs until there is a file /tmp/stop, holds a lock on
// /tmp/runs meanwhile, and returns its Wait.
func (f *faulty) running(t testing.TB, h sandbox.Sandbox) func() error {
	t.Helper()
	r, w := io.Pipe()
	proc, err := h.Start(t.Context(), sandbox.Command{Args: []string{"sh", "-c", "exec 9>/tmp/runs; flock 9; echo runs; until [ -e /tmp/stop ]; do sleep 0.2; done"}, Stdout: w})
	must(t, err)
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil || line != "runs\n" {
		t.Fatalf("%q, %v", line, err)
	}
	t.Cleanup(func() { r.Close() })
	return func() error { _, err := proc.Wait(); return err }
}

func run(t testing.TB, h sandbox.Sandbox, line string) string {
	t.Helper()
	var out strings.Builder
	proc, err := h.Start(t.Context(), sandbox.Command{Args: []string{"sh", "-c", line}, Stdout: &out, Stderr: &out})
	must(t, err)
	if exit, err := proc.Wait(); err != nil || exit.Code != 0 {
		t.Fatalf("%s: %v, %v: %s", line, exit, err, &out)
	}
	return out.String()
}

func (f *faulty) kubectl(t testing.TB, args ...string) string {
	t.Helper()
	out, err := f.cluster.Kubectl(t.Context(), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %v: %v: %s", args, err, out)
	}
	return string(out)
}

// raw runs kubectl with a file as its last argument.
func (f *faulty) raw(t testing.TB, args ...string) {
	t.Helper()
	cmd := f.cluster.Kubectl(t.Context(), append(slices.Clone(args[:len(args)-1]), "-f", "-")...)
	cmd.Stdin = strings.NewReader(args[len(args)-1])
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("kubectl %v: %v: %s", args, err, out)
	}
}

// within returns what call returns, and fails the test when that takes longer.
func within(t testing.TB, most time.Duration, call func() error) error {
	t.Helper()
	done := make(chan error, 1)
	began := time.Now()
	go func() { done <- call() }()
	select {
	case err := <-done:
		t.Logf("after %v: %v", time.Since(began).Round(time.Millisecond), err)
		return err
	case <-time.After(most):
		t.Fatalf("the call has not returned after %v", most)
		return nil
	}
}

// isFault holds that err is one of ours with one of the codes, the resource, and the
// text.
func isFault(t testing.TB, err error, resource, text string, codes ...sandbox.Code) {
	t.Helper()
	e, is := errors.AsType[*sandbox.Error](err)
	switch {
	case !is:
		t.Errorf("%v is none of our errors", err)
	case !slices.Contains(codes, e.Code):
		t.Errorf("%v has the code %s, not one of %v", err, e.Code, codes)
	case resource != "" && e.Resource != resource:
		t.Errorf("%v names the resource %q, not %q", err, e.Resource, resource)
	case e.Message == "" || !strings.Contains(err.Error(), text):
		t.Errorf("%v does not say %q", err, text)
	}
}

func second[T any](_ T, err error) error { return err }
