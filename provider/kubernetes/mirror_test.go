package kubernetes_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/confighash"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/provider/kubernetes"
	"github.com/bulkhead-dev/sandbox/registry"
)

// A watchGate stands before the watches that fill the mirrors of a program. The zero
// value lets all pass.
type watchGate struct {
	next http.RoundTripper

	mu      sync.Mutex
	closed  chan struct{} // answers are held back until it is closed; nil is not at all
	refuses bool
	open    []io.Closer
}

// WrappedRoundTripper lets the client library close idle connections.
func (g *watchGate) WrappedRoundTripper() http.RoundTripper { return g.next }

// RoundTrip implements [http.RoundTripper].
func (g *watchGate) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Get("watch") == "" || strings.Contains(r.URL.RawQuery, "sandbox.by-") {
		return g.next.RoundTrip(r)
	}
	g.mu.Lock()
	refuses := g.refuses
	g.mu.Unlock()
	if refuses {
		return nil, errors.New("no watch is opened")
	}
	answer, err := g.next.RoundTrip(r)
	if err == nil {
		g.mu.Lock()
		g.open = append(g.open, answer.Body)
		g.mu.Unlock()
		answer.Body = &gatedBody{answer.Body, g}
	}
	return answer, err
}

// hold keeps all that watches say back, until the function that it returns is called.
func (g *watchGate) hold() (release func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	held := make(chan struct{})
	g.closed = held
	return func() {
		g.mu.Lock()
		g.closed = nil
		g.mu.Unlock()
		close(held)
	}
}

// end closes all watches and opens no other, until the function that it returns is called.
func (g *watchGate) end() (allow func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refuses = true
	for _, c := range g.open {
		c.Close()
	}
	g.open = nil
	return func() {
		g.mu.Lock()
		g.refuses = false
		g.mu.Unlock()
	}
}

// A gatedBody is the body of an answer behind a gate.
type gatedBody struct {
	io.ReadCloser
	gate *watchGate
}

// Read implements [io.Reader].
func (b *gatedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.gate.mu.Lock()
	closed := b.gate.closed
	b.gate.mu.Unlock()
	if closed != nil {
		<-closed
	}
	return n, err
}

// glance returns what was reported to a program last of a name: its creation, "none" where there
// is nothing, and "unknown".
func (p *program) glance(name string) string {
	switch d, ok := p.docs.(statedir.Glancer).Glance(name); {
	case !ok:
		return "unknown"
	case d.Empty():
		return "none"
	default:
		return string(d.Creation)
	}
}

func (p *program) create(t testing.TB, name, text string) {
	t.Helper()
	must(t, p.docs.Change(name, func(d *statedir.Document) error { d.Creation = []byte(text); return nil }))
}

// joined waits until the mirror of p is filled.
func (p *program) joined(t testing.TB) {
	t.Helper()
	must(t, locked(t)(p.locks.Ensure(waitFor(t, time.Minute), "joins")).Release())
	eventually(t, time.Minute, "the mirror is filled", func() bool { return p.glance("nothing") == "none" })
}

// listed returns the creations that p lists, by name.
func (p *program) listed(t testing.TB) map[string]string {
	t.Helper()
	all, err := p.docs.List()
	must(t, err)
	out := map[string]string{}
	for _, d := range all {
		out[d.Name] = string(d.Creation)
	}
	return out
}

// holdsWhatIs holds that all that p decides goes by what there is: b has made "new" and
// changed "old" to two, and deleted "gone".
func holdsWhatIs(t *testing.T, p *program) {
	t.Helper()
	for name, want := range map[string]string{"new": "one", "old": "two", "gone": ""} {
		if d, err := p.docs.Get(name); err != nil || string(d.Creation) != want {
			t.Errorf("Get %s: %q, %v, want %q", name, d.Creation, err, want)
		}
	}
	if got := p.listed(t); len(got) != 2 || got["new"] != "one" || got["old"] != "two" {
		t.Errorf("List: %v", got)
	}
	refused := errors.New("refused")
	for name, want := range map[string]string{"new": "one", "old": "two", "gone": ""} {
		var last string
		err := p.docs.Change(name, func(d *statedir.Document) error {
			last = string(d.Creation)
			return refused
		})
		if !errors.Is(err, refused) || last != want {
			t.Errorf("a change of %s that is refused sees %q, %v, want %q", name, last, err, want)
		}
		must(t, p.docs.Change(name, func(d *statedir.Document) error {
			last = string(d.Creation)
			d.Creation = append(d.Creation, '+')
			return nil
		}))
		if last != want {
			t.Errorf("a change of %s is made of %q, want %q", name, last, want)
		}
	}
}

// otherWrites has another program write what [holdsWhatIs] looks for.
func otherWrites(t *testing.T, b *program) {
	t.Helper()
	b.create(t, "new", "one")
	b.create(t, "old", "two")
	must(t, b.docs.Change("gone", func(d *statedir.Document) error { d.Creation = nil; return nil }))
}

// TestKubeMirrorBehind holds back what the watch says: a program that knows of old versions
// alone changes, lists and reads what there is, and does not claim a slot that is claimed.
func TestKubeMirrorBehind(t *testing.T) {
	a, b := fleet(t)
	b.create(t, "old", "one")
	b.create(t, "gone", "one")
	a.joined(t)
	release := a.watches.hold()
	defer release()
	otherWrites(t, b)
	for name, want := range map[string]string{"new": "none", "old": "one", "gone": "one"} {
		if got := a.glance(name); got != want {
			t.Fatalf("the mirror has %q of %s, want %q: it is not behind", got, name, want)
		}
	}
	holdsWhatIs(t, a)
	of := func(p *program) *registry.Store { return p.records.Of(kubernetes.Name) }
	if _, err := of(b).Claim(registry.Claim{Slot: "slot", Name: "first"}); err != nil {
		t.Fatal(err)
	}
	if _, err := of(a).Claim(registry.Claim{Slot: "slot", Name: "second"}); sandbox.CodeOf(err) != sandbox.CodeBusy {
		t.Errorf("a slot is claimed a second time: %v", err)
	}
	turn := locked(t)(b.locks.Ensure(waitFor(t, 20*time.Second), "turn"))
	isBusy(t)(a.locks.TryEnsure("turn"))
	must(t, turn.Release())
	must(t, locked(t)(a.locks.TryEnsure("turn")).Release())
}

// TestKubeMirrorWithoutWatch ends the watch and lets no other begin: what the mirror had is
// believed no more. With the next watch it has what there is.
func TestKubeMirrorWithoutWatch(t *testing.T) {
	a, b := fleet(t)
	b.create(t, "old", "one")
	b.create(t, "gone", "one")
	a.joined(t)
	allow := a.watches.end()
	eventually(t, 10*time.Second, "the mirror is not believed", func() bool { return a.glance("old") == "unknown" })
	otherWrites(t, b)
	holdsWhatIs(t, a)
	b.create(t, "later", "one")
	allow()
	eventually(t, time.Minute, "the mirror follows again", func() bool { return a.glance("later") == "one" })
	if got := a.glance("old"); got != "two+" {
		t.Errorf("the mirror has %q", got)
	}
}

// TestKubeFinish holds that the lock of a name ends with the last change, that the caller's
// release changes nothing after it, and that another caller of the program still waits.
func TestKubeFinish(t *testing.T) {
	a, b := fleet(t)
	b.joined(t)
	turn := locked(t)(a.locks.Ensure(waitFor(t, 20*time.Second), "one"))
	isBusy(t)(b.locks.TryEnsure("one"))
	must(t, a.docs.(statedir.Finisher).Finish("one", func(d *statedir.Document) error { d.Creation = []byte("made"); return nil }))
	next := locked(t)(b.locks.TryEnsure("one"))
	if d, err := b.docs.Get("one"); err != nil || string(d.Creation) != "made" {
		t.Errorf("%q, %v", d.Creation, err)
	}
	isBusy(t)(a.locks.TryEnsure("one")) // of the same machine: it is not released
	must(t, turn.Release())
	isBusy(t)(a.locks.TryEnsure("one"))
	b.create(t, "one", "again")
	must(t, next.Release())
	must(t, locked(t)(a.locks.TryEnsure("one")).Release())
	if d, err := a.docs.Get("one"); err != nil || string(d.Creation) != "again" {
		t.Errorf("%q, %v", d.Creation, err)
	}

	// A change that is refused keeps the lock.
	turn = locked(t)(a.locks.Ensure(waitFor(t, 20*time.Second), "one"))
	refused := errors.New("refused")
	if err := a.docs.(statedir.Finisher).Finish("one", func(*statedir.Document) error { return refused }); !errors.Is(err, refused) {
		t.Error(err)
	}
	isBusy(t)(b.locks.TryEnsure("one"))
	must(t, turn.Release())
}

// TestKubeListAsks counts the requests of a list of records: one, whatever their number.
func TestKubeListAsks(t *testing.T) {
	a, b := fleet(t)
	const many = 30
	for i := range many {
		b.create(t, fmt.Sprint("name-", i), "one")
	}
	a.joined(t)
	before := a.calls.Load()
	if got := a.listed(t); len(got) != many {
		t.Errorf("%d are listed", len(got))
	}
	if n := a.calls.Load() - before; n != 0 { // a renewal of its own Lease is not counted
		t.Errorf("a list makes %d requests about sandboxes", n)
	}
	b.create(t, "late", "one") // it is listed as soon as it is made
	if got := a.listed(t); got["late"] != "one" {
		t.Error("what was made before is not listed")
	}
}

// TestListOfMany lists 2,500 sandboxes from memory, and 10,000 with "make test-all".
// The API server is played by the test, because one on a busy machine takes many
// minutes to make them.
func TestListOfMany(t *testing.T) {
	const page = 500
	many := testenv.Rounds(1000, 2500, 10000)
	r := &rig{TB: t, instance: "00112233445566aa", image: "registry.example/sandbox@sha256:" + strings.Repeat("a", 64), guest: "registry.example/guest@sha256:" + strings.Repeat("b", 64)}
	coder := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	var pages [][]byte
	for begin := 0; begin < many; begin += page {
		list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: strconv.Itoa(begin/page + 1)}}
		if begin+page == many {
			list.Continue = ""
		}
		for i := begin; i < begin+page; i++ {
			spec := r.spec(strconv.Itoa(i))
			hash, err := confighash.Sum(spec)
			must(t, err)
			pod, err := kubernetes.Plan(spec, hash, time.Now())
			must(t, err)
			runs(pod)
			pod.Namespace, pod.UID, pod.ResourceVersion = "default", types.UID(rand.Text()), "5"
			list.Items = append(list.Items, *pod)
		}
		var b bytes.Buffer
		must(t, coder.Encode(list, &b))
		pages = append(pages, b.Bytes())
	}
	one := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}}
	var first bytes.Buffer
	must(t, coder.Encode(one, &first))
	var lists atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf")
		switch query := q.URL.Query(); {
		case query.Get("watch") != "":
			w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf;stream=watch")
			w.(http.Flusher).Flush()
			<-q.Context().Done()
		case query.Get("limit") == "1":
			w.Write(first.Bytes())
		default:
			lists.Add(1)
			n, _ := strconv.Atoi(query.Get("continue"))
			w.Write(pages[n])
		}
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(file, fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: x, clusters: [{name: x, cluster: {server: %q}}], users: [{name: x}], contexts: [{name: x, context: {cluster: x, user: x}}]}`, server.URL), 0o600))
	p, err := kubernetes.New(kubernetes.Options{Kubeconfig: file, Namespace: "default"})
	must(t, err)
	t.Cleanup(func() { p.Close() })
	live := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := live()
	list, err := p.List(t.Context(), sandbox.Filter{Instance: r.instance})
	if err != nil || len(list) != many {
		t.Fatalf("%d sandboxes, %v", len(list), err)
	}
	list = nil
	eventually(t, time.Minute, "lists are answered from memory", p.Follows)
	takes := live() - before
	asked := lists.Load()
	var took, used time.Duration
	for range 5 {
		begun, processor := time.Now(), processorTime(t)
		list, err := p.List(t.Context(), sandbox.Filter{Instance: r.instance})
		if err != nil || len(list) != many {
			t.Fatalf("%d sandboxes, %v", len(list), err)
		}
		if now := time.Since(begun); took == 0 || now < took {
			took, used = now, processorTime(t)-processor
		}
	}
	t.Logf("a list of %d from memory: %v, of which %v of the processor; the memory of it is %d KiB", many, took, used, takes>>10)
	if n := lists.Load() - asked; n > 0 {
		t.Errorf("lists from memory make %d requests for pods", n)
	}
	if took > time.Second || used > time.Duration(many)*100*time.Microsecond {
		t.Errorf("a list of %d takes %v, %v of the processor", many, took, used)
	}
	if takes > int64(many)*10<<10 {
		t.Errorf("%d pods take %d bytes", many, takes)
	}
}
