package kubernetes_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/keylock"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/provider/kubernetes"
	"github.com/bulkhead-dev/sandbox/provider/seccomp"
	"github.com/bulkhead-dev/sandbox/registry"
)

// newNamespace makes a namespace of the test's own.
func newNamespace(t testing.TB) string {
	t.Helper()
	var id [4]byte
	rand.Read(id[:])
	name := "state-" + hex.EncodeToString(id[:])
	kubectl(t, "", "create", "namespace", name)
	t.Cleanup(func() {
		ctx, done := context.WithTimeout(context.Background(), 2*time.Minute)
		defer done()
		if out, err := testenv.Kubectl(ctx, t, "delete", "namespace", name, "--wait=false").CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	return name
}

func kubectl(t testing.TB, stdin string, args ...string) string {
	t.Helper()
	cmd := testenv.Kubectl(t.Context(), t, args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// A program is one of several that serve one fleet, with a folder of its own.
type program struct {
	*kubernetes.Provider
	docs    statedir.Documents
	locks   keylock.Locker
	records *registry.Store
	lost    chan string

	watches watchGate
	cutOff  atomic.Bool  // no request reaches the API server
	calls   atomic.Int64 // requests about what is kept of sandboxes
}

// A requestHook sees each request before the transport does.
type requestHook struct {
	next http.RoundTripper
	see  func(*http.Request) error
}

func (g requestHook) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := g.see(r); err != nil {
		return nil, err
	}
	return g.next.RoundTrip(r)
}

// WrappedRoundTripper lets the client library close idle connections.
func (g requestHook) WrappedRoundTripper() http.RoundTripper { return g.next }

const shortLease = 3 * time.Second

func newProgram(t testing.TB, namespace string, now func() time.Time) *program {
	t.Helper()
	return programOf(t, kubernetes.Options{Kubeconfig: testenv.Kube(t), Namespace: namespace, Lease: shortLease, Call: 10 * time.Second, Now: now})
}

func programOf(t testing.TB, o kubernetes.Options) *program {
	t.Helper()
	p := &program{lost: make(chan string, 100)}
	o.Wrap(func(next http.RoundTripper) http.RoundTripper {
		p.watches.next = next
		return requestHook{&p.watches, func(r *http.Request) error {
			if p.cutOff.Load() {
				return errors.New("the network is unreachable")
			}
			if strings.Contains(r.URL.Path, "/leases") && !strings.Contains(r.URL.Path, "sandbox-replica-") && !strings.Contains(r.URL.RawQuery, "replica") && r.URL.Query().Get("watch") == "" {
				p.calls.Add(1)
			}
			return nil
		}}
	})
	var err error
	p.Provider, err = kubernetes.New(o)
	must(t, err)
	t.Cleanup(func() { p.Close() })
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "locks"), 0o700))
	p.docs, p.locks = p.State(keylock.Open(filepath.Join(dir, "locks")), func(name string) { p.lost <- name })
	p.records, err = registry.Open(dir)
	must(t, err)
	p.records.Keep(kubernetes.Name, p.docs)
	return p
}

func fleet(t testing.TB) (a, b *program) {
	namespace := newNamespace(t)
	return newProgram(t, namespace, nil), newProgram(t, namespace, nil)
}

func waitFor(t testing.TB, d time.Duration) context.Context {
	ctx, done := context.WithTimeout(t.Context(), d)
	t.Cleanup(done)
	return ctx
}

func locked(t testing.TB) func(*keylock.Lock, error) *keylock.Lock {
	return func(l *keylock.Lock, err error) *keylock.Lock {
		t.Helper()
		must(t, err)
		return l
	}
}

func isBusy(t testing.TB) func(*keylock.Lock, error) {
	return func(l *keylock.Lock, err error) {
		t.Helper()
		if sandbox.CodeOf(err) != sandbox.CodeBusy {
			t.Fatalf("%v, %v, want %s", l, err, sandbox.CodeBusy)
		}
	}
}

// eventually waits until is, at most for d.
func eventually(t testing.TB, d time.Duration, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for begun := time.Now(); !is(); <-tick.C {
		if time.Since(begun) > d {
			t.Fatalf("not within %v: %s", d, what)
		}
	}
}

func record(name string) registry.Record {
	now := time.Now().UTC().Truncate(time.Microsecond)
	return registry.Record{Name: name, Kind: sandbox.KindSandbox, Provider: kubernetes.Name, Instance: "0123456789abcdef", Tenant: "t", Agent: "main", Session: name,
		Scope: sandbox.ScopeSession, ScopeKey: name, CreatedAt: now, LastUsedAt: now.Add(-time.Hour), Spec: &sandbox.Spec{Name: name, Image: "img"}}
}

// TestKubeLocksOfPrograms holds that the locks of one program keep another out, that one
// which holds a sandbox without need lets it go when it is asked, and that a lock that
// is used is refused at once.
func TestKubeLocksOfPrograms(t *testing.T) {
	a, b := fleet(t)
	shared := locked(t)(a.locks.Shared(waitFor(t, 10*time.Second), "one"))
	other := locked(t)(b.locks.Shared(waitFor(t, 10*time.Second), "one"))
	must(t, other.Release())
	begun := time.Now()
	isBusy(t)(b.locks.TryExclusive("one"))
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("a sandbox in use is refused after %v", took)
	}
	if held, err := b.locks.Held("one"); err != nil || !held {
		t.Errorf("Held: %v, %v", held, err)
	}
	must(t, shared.Release())
	begun = time.Now()
	alone := locked(t)(b.locks.TryExclusive("one"))
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("a sandbox that is not in use is let go after %v", took)
	}
	isBusy(t)(a.locks.Shared(waitFor(t, 300*time.Millisecond), "one"))
	isBusy(t)(a.locks.TryExclusive("one"))
	must(t, alone.Release())
	shared = locked(t)(a.locks.Shared(waitFor(t, 10*time.Second), "one"))
	must(t, shared.Release())
	if held, err := b.locks.Held("one"); err != nil || held {
		t.Errorf("Held after the last use: %v, %v", held, err)
	}

	turn := locked(t)(a.locks.Ensure(waitFor(t, 10*time.Second), "two"))
	isBusy(t)(b.locks.TryEnsure("two"))
	isBusy(t)(b.locks.Ensure(waitFor(t, 300*time.Millisecond), "two"))
	must(t, turn.Release())
	must(t, locked(t)(b.locks.TryEnsure("two")).Release())
	// Nothing was kept of either, so nothing is left.
	eventually(t, 10*time.Second, "no Lease is left of two", func() bool {
		return !strings.Contains(kubectl(t, "", "get", "leases", "--namespace", a.Namespace(), "--output", "name"), "/two")
	})
}

// TestKubeEnsureAlone has many callers of two programs take one ensure lock.
func TestKubeEnsureAlone(t *testing.T) {
	a, b := fleet(t)
	var inside, most, all atomic.Int64
	var wait sync.WaitGroup
	for i := range 40 {
		p := []*program{a, b}[i%2]
		wait.Go(func() {
			turn, err := p.locks.Ensure(waitFor(t, time.Minute), "one")
			if err != nil {
				t.Error(err)
				return
			}
			if n := inside.Add(1); n > 1 {
				most.Store(n)
			}
			all.Add(1)
			inside.Add(-1)
			if err := turn.Release(); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if most.Load() > 0 || all.Load() != 40 {
		t.Errorf("%d callers had the lock, %d at a time", all.Load(), most.Load())
	}
}

// TestKubeEnsureNew holds that the ensure lock of a new name is written with the first
// change of what is kept of it, that this change is refused where another program was
// first, and that nothing is written where there is none.
func TestKubeEnsureNew(t *testing.T) {
	a, b := fleet(t)
	must(t, locked(t)(b.locks.Ensure(waitFor(t, 30*time.Second), "zero")).Release())
	must(t, locked(t)(a.locks.Ensure(waitFor(t, 30*time.Second), "zero")).Release())
	take := func(name string) *keylock.Lock {
		t.Helper()
		var l *keylock.Lock
		eventually(t, 30*time.Second, "the name is known to be new", func() (taken bool) {
			var err error
			l, err = a.locks.(keylock.Assumer).EnsureNew(waitFor(t, 10*time.Second), name)
			must(t, err)
			return l != nil
		})
		return l
	}
	set := func(d *statedir.Document) error { d.Claim = []byte("mine"); return nil }

	before := a.calls.Load()
	l := take("none")
	shared := locked(t)(a.locks.Shared(waitFor(t, 10*time.Second), "none"))
	if d, err := a.docs.Get("none"); err != nil || !d.Empty() {
		t.Errorf("%+v, %v", d, err)
	}
	isBusy(t)(a.locks.TryEnsure("none"))
	must(t, shared.Release())
	must(t, l.Release())
	if n := a.calls.Load() - before; n != 0 {
		t.Errorf("a lock under which nothing was written took %d requests", n)
	}

	l = take("one")
	shared = locked(t)(a.locks.Shared(waitFor(t, 10*time.Second), "one"))
	before = a.calls.Load()
	must(t, a.docs.(statedir.Finisher).Finish("one", set))
	must(t, l.Release())
	if n := a.calls.Load() - before; n != 1 {
		t.Errorf("the change took %d requests, want 1", n)
	}
	isBusy(t)(b.locks.TryExclusive("one"))
	must(t, shared.Release())

	// Another program has the lock, or has written something and is done.
	for name, first := range map[string]func(name string){
		"locked": func(name string) {
			turn := locked(t)(b.locks.Ensure(waitFor(t, 10*time.Second), name))
			t.Cleanup(func() { turn.Release() })
		},
		"written": func(name string) {
			must(t, b.docs.Change(name, func(d *statedir.Document) error { d.Record = []byte("{}"); return nil }))
		},
	} {
		for how, change := range map[string]func(string, func(*statedir.Document) error) error{"finish": a.docs.(statedir.Finisher).Finish, "change": a.docs.Change} {
			name := name + "-" + how
			l := take(name)
			first(name)
			err := change(name, set)
			if sandbox.CodeOf(err) != sandbox.CodeBusy || !errors.Is(err, keylock.ErrAssumed) {
				t.Errorf("%s: %v", name, err)
			}
			must(t, l.Release())
			if d, err := b.docs.Get(name); err != nil || d.Claim != nil {
				t.Errorf("%s: %+v, %v", name, d, err)
			}
		}
	}
}

// TestKubeChangesOfPrograms holds that no change of a document is lost between programs.
func TestKubeChangesOfPrograms(t *testing.T) {
	a, b := fleet(t)
	held := locked(t)(a.locks.Shared(waitFor(t, 10*time.Second), "one"))
	defer held.Release()
	var wait sync.WaitGroup
	for i := range 20 {
		p := []*program{a, b}[i%2]
		wait.Go(func() {
			for range 3 {
				err := p.docs.Change("one", func(d *statedir.Document) error {
					n, _ := strconv.Atoi(string(d.Creation))
					d.Creation = []byte(strconv.Itoa(n + 1))
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	for _, p := range []*program{a, b} {
		eventually(t, 10*time.Second, "all changes are requestHook", func() bool {
			d, err := p.docs.Get("one")
			return err == nil && string(d.Creation) == "60"
		})
	}
}

// TestKubeWarmUseAsksNoOne counts the requests of what a warm command does: none. Its last
// use is requestHook by another program that wants the sandbox alone.
func TestKubeWarmUseAsksNoOne(t *testing.T) {
	a, b := fleet(t)
	held := locked(t)(a.locks.Shared(waitFor(t, 10*time.Second), "one"))
	must(t, a.records.Put(record("one")))
	must(t, held.Release())
	of := a.records.Of(kubernetes.Name)
	var last time.Time
	use := func() {
		held := locked(t)(a.locks.Shared(waitFor(t, 10*time.Second), "one"))
		last = time.Now().Add(time.Minute).UTC()
		if _, _, err := of.Use(sandbox.KindSandbox, "one", last); err != nil {
			t.Fatal(err)
		}
		if _, err := of.StampCreation("one"); err != nil {
			t.Fatal(err)
		}
		must(t, held.Release())
	}
	eventually(t, 10*time.Second, "a use without a request", func() bool {
		before := a.calls.Load()
		use()
		return a.calls.Load() == before
	})
	before, begun := a.calls.Load(), time.Now()
	const times = 1000
	for range times {
		use()
	}
	t.Logf("a warm use takes %v here", time.Since(begun)/times)
	if n := a.calls.Load() - before; n > 1 { // one is what was noted, written from time to time
		t.Errorf("%d warm uses made %d requests", times, n)
	}
	alone := locked(t)(b.locks.TryExclusive("one"))
	rec, err := b.records.Of(kubernetes.Name).Look(sandbox.KindSandbox, "one")
	if err != nil || last.Sub(rec.LastUsedAt) >= registry.TouchResolution {
		t.Errorf("another program sees the last use %v, %v, want %v", rec.LastUsedAt, err, last)
	}
	must(t, alone.Release())
}

// TestKubeProgramDies holds that what a program held that died goes over to another one
// after its time, that it stops before, and that what it lost is refused to it.
func TestKubeProgramDies(t *testing.T) {
	a, b := fleet(t)
	turn := locked(t)(a.locks.Ensure(waitFor(t, 10*time.Second), "one"))
	shared := locked(t)(a.locks.Shared(waitFor(t, 10*time.Second), "two"))
	must(t, a.records.Put(record("one")))
	isBusy(t)(b.locks.TryEnsure("one"))
	a.cutOff.Store(true)
	begun := time.Now()
	var stopped atomic.Int64 // nanoseconds
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			held, err := a.locks.Shared(waitFor(t, time.Second), "two")
			if err != nil {
				stopped.Store(int64(time.Since(begun)))
				if sandbox.CodeOf(err) != sandbox.CodeUnavailable {
					t.Errorf("a program that is cut off: %v", err)
				}
				return
			}
			held.Release()
		}
	}()
	next := locked(t)(b.locks.Ensure(waitFor(t, time.Minute), "one"))
	took := time.Since(begun)
	alone := locked(t)(b.locks.TryExclusive("two"))
	<-ended
	if got := time.Duration(stopped.Load()); got >= took {
		t.Errorf("it stops after %v, and another takes over after %v", got, took)
	} else {
		t.Logf("it stops after %v, another takes over after %v, with a lease of %v", got, took, shortLease)
	}
	if took > 3*shortLease {
		t.Errorf("another takes over after %v", took)
	}
	a.cutOff.Store(false)
	heard := map[string]bool{<-a.lost: true, <-a.lost: true}
	if !heard["one"] || !heard["two"] {
		t.Errorf("lost: %v", heard)
	}
	if err := a.records.Of(kubernetes.Name).Delete(sandbox.KindSandbox, "one"); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("what was lost is changed: %v", err)
	}
	if err := a.Remove(t.Context(), "one"); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("what was lost is removed: %v", err)
	}
	for _, l := range []*keylock.Lock{turn, shared} {
		if err := l.Release(); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
			t.Errorf("a lock that was lost: %v", err)
		}
	}
	if _, err := b.records.Of(kubernetes.Name).Look(sandbox.KindSandbox, "one"); err != nil {
		t.Errorf("the record: %v", err)
	}
	must(t, alone.Release())
	must(t, next.Release())
	must(t, locked(t)(a.locks.Ensure(waitFor(t, 20*time.Second), "one")).Release()) // it has joined again
}

// TestKubeDeadHolder holds that a program which has only just begun, as each call of a
// command line has, gets a sandbox alone that a dead program holds, in one call.
func TestKubeDeadHolder(t *testing.T) {
	a, b := fleet(t)
	shared := locked(t)(a.locks.Shared(waitFor(t, 10*time.Second), "one"))
	a.cutOff.Store(true)
	alone := locked(t)(b.locks.TryExclusive("one"))
	must(t, alone.Release())
	if err := shared.Release(); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("a lock that was lost: %v", err)
	}
}

// TestKubeClocksDiffer holds that programs whose clocks differ by minutes do not take what
// the other one holds, and do not lose what they hold.
func TestKubeClocksDiffer(t *testing.T) {
	namespace := newNamespace(t)
	at := func(d time.Duration) func() time.Time { return func() time.Time { return time.Now().Add(d) } }
	for _, skew := range []time.Duration{10 * time.Minute, -10 * time.Minute} {
		t.Run(skew.String(), func(t *testing.T) {
			a, b := newProgram(t, namespace, nil), newProgram(t, namespace, at(skew))
			ofA, ofB := locked(t)(a.locks.Shared(waitFor(t, 10*time.Second), "a")), locked(t)(b.locks.Shared(waitFor(t, 10*time.Second), "b"))
			for begun := time.Now(); time.Since(begun) < 2*shortLease; { // longer than either may be silent
				isBusy(t)(b.locks.TryExclusive("a"))
				isBusy(t)(a.locks.TryExclusive("b"))
			}
			must(t, ofA.Release())
			must(t, ofB.Release())
			must(t, locked(t)(b.locks.TryExclusive("a")).Release())
			if len(a.lost)+len(b.lost) > 0 {
				t.Error("a program has lost what it held")
			}
		})
	}
}

// TestKubeDamagedDocuments edits Leases by hand.
func TestKubeDamagedDocuments(t *testing.T) {
	a, b := fleet(t)
	edit := func(name, key, value string) {
		kubectl(t, "", "annotate", "--overwrite", "--namespace", a.Namespace(), "lease", name, "dev.bulkhead.sandbox."+key+"="+value)
	}
	of := b.records.Of(kubernetes.Name)
	for _, name := range []string{"broken", "other", "newer", "spec"} {
		must(t, a.records.Put(record(name)))
	}
	edit("broken", "record", "{")
	edit("other", "record", `{"format":1,"name":"spec","kind":"sandbox","provider":"kubernetes"}`)
	edit("newer", "record", `{"format":99,"unknown":1}`)
	edit("spec", "spec", "H4sIAAAAAAAA")
	if _, err := of.Get(sandbox.KindSandbox, "broken"); !errors.Is(err, registry.ErrCorrupt) || sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("broken: %v", err)
	}
	if _, err := of.Get(sandbox.KindSandbox, "broken"); !sandbox.IsNotFound(err) {
		t.Errorf("broken again: %v", err)
	}
	records, problems, err := b.records.List("")
	must(t, err)
	var names []string
	for _, p := range problems {
		names = append(names, p.Name+":"+fmt.Sprint(p.SetAside != ""))
	}
	if got := strings.Join(names, " "); len(records) != 1 || records[0].Name != "spec" || got != "newer:false other:true" && got != "other:true newer:false" {
		t.Errorf("records %v, problems %v", records, names)
	}
	if rec, err := of.Get(sandbox.KindSandbox, "spec"); err != nil || rec.Spec != nil {
		t.Errorf("a damaged Spec: %v, %v", rec.Spec, err)
	}
	must(t, b.records.Put(record("broken")))
	if rec, err := of.Get(sandbox.KindSandbox, "broken"); err != nil || rec.Spec == nil || rec.Spec.Image != "img" {
		t.Errorf("a record that was made again: %+v, %v", rec, err)
	}
	must(t, of.Delete(sandbox.KindSandbox, "broken"))
	must(t, a.records.Of(kubernetes.Name).PutCreation("made", []byte(`{"a":1}`)))
	edit("made", "creation", "{")
	if _, ok, err := of.Creation("made"); ok || sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("a damaged creation: %v, %v", ok, err)
	}
}

// TestKubeForeignLeases holds that Leases of others are neither used nor changed, and that
// marks of replicas that never were hold nothing.
func TestKubeForeignLeases(t *testing.T) {
	a, _ := fleet(t)
	for name, labels := range map[string]string{"plain": "{}", "fleet": `{"dev.bulkhead.sandbox.format":"1","dev.bulkhead.sandbox.role":"state","dev.bulkhead.sandbox.instance":"0123456789abcdef"}`} {
		kubectl(t, `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"`+name+`","labels":`+labels+`},"spec":{"holderIdentity":"someone"}}`, "create", "--namespace", a.Namespace(), "--filename", "-")
		if err := a.records.Put(record(name)); sandbox.CodeOf(err) != sandbox.CodePermissionDeny {
			t.Errorf("%s: Put: %v", name, err)
		}
		if _, err := a.locks.TryEnsure(name); sandbox.CodeOf(err) != sandbox.CodePermissionDeny {
			t.Errorf("%s: TryEnsure: %v", name, err)
		}
	}
	if records, problems, err := a.records.List(""); len(records)+len(problems) > 0 || err != nil {
		t.Errorf("List: %v, %v, %v", records, problems, err)
	}
}

// TestKubeStaleMarks holds that marks of replicas that are gone, or never were, hold
// nothing.
func TestKubeStaleMarks(t *testing.T) {
	a, _ := fleet(t)
	must(t, a.records.Put(record("one")))
	kubectl(t, "", "label", "--namespace", a.Namespace(), "lease", "one", "dev.bulkhead.sandbox.by-none=held", "dev.bulkhead.sandbox.by-0123456789abcdef=held")
	kubectl(t, "", "annotate", "--namespace", a.Namespace(), "lease", "one", "dev.bulkhead.sandbox.ensure=0123456789abcdef")
	kubectl(t, `{"spec":{"holderIdentity":"fedcba9876543210"}}`, "patch", "--namespace", a.Namespace(), "lease", "one", "--patch-file", "/dev/stdin")
	must(t, locked(t)(a.locks.TryEnsure("one")).Release())
	must(t, locked(t)(a.locks.TryExclusive("one")).Release())
}

// TestKubeLargeDocuments holds the bounds of what is kept.
func TestKubeLargeDocuments(t *testing.T) {
	a, b := fleet(t)
	rec := record("one")
	rec.Spec.Security.Seccomp = strings.Repeat(`{"names":["read"],"action":"SCMP_ACT_ALLOW"},`, 20000) // 900 KB of little content
	must(t, a.records.Put(rec))
	if got, err := b.records.Of(kubernetes.Name).Get(sandbox.KindSandbox, "one"); err != nil || got.Spec == nil || got.Spec.Security.Seccomp != rec.Spec.Security.Seccomp {
		t.Errorf("a large Spec: %v", err)
	}
	noise := make([]byte, 400<<10)
	rand.Read(noise)
	rec.Spec.Security.Seccomp = hex.EncodeToString(noise)
	if err := a.records.Put(rec); sandbox.CodeOf(err) != sandbox.CodeValidation {
		t.Errorf("a Spec that no object can hold: %v", err)
	}
	if err := a.records.Of(kubernetes.Name).PutCreation("one", bytes.Repeat([]byte("1"), 100<<10)); sandbox.CodeOf(err) != sandbox.CodeValidation {
		t.Errorf("a creation of 100 KB: %v", err)
	}
}

// TestKubeClaimsOfPrograms has callers of two programs claim the same slots.
func TestKubeClaimsOfPrograms(t *testing.T) {
	a, b := fleet(t)
	const slots, names = 3, 12
	var wait sync.WaitGroup
	var mu sync.Mutex
	won := map[string]string{}
	for i := range names {
		p := []*program{a, b}[i%2]
		wait.Go(func() {
			name := fmt.Sprint("name-", i)
			for slot := range slots {
				c := registry.Claim{Slot: fmt.Sprint("slot-", slot), Name: name}
				_, err := p.records.Of(kubernetes.Name).Claim(c)
				switch {
				case err == nil:
					mu.Lock()
					if other, taken := won[c.Slot]; taken {
						t.Errorf("%s is claimed by %s and %s", c.Slot, other, name)
					}
					won[c.Slot] = name
					mu.Unlock()
					return
				case sandbox.CodeOf(err) != sandbox.CodeBusy:
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	if len(won) != slots {
		t.Errorf("%d slots are claimed: %v", len(won), won)
	}
	for slot, name := range won {
		if c, ok, err := b.records.Of(kubernetes.Name).ClaimOf(name); err != nil || !ok || c.Slot != slot {
			t.Errorf("the claim of %s: %+v, %v, %v", name, c, ok, err)
		}
	}
	before := a.calls.Load()
	if _, err := a.records.Of(kubernetes.Name).Claim(registry.Claim{Slot: "slot-x", Name: "name-x"}); err != nil {
		t.Fatal(err)
	}
	t.Logf("a claim makes %d requests", a.calls.Load()-before)
}

// TestKubeMarksOfTheDeadGo holds that nothing is left of a program that has died.
func TestKubeMarksOfTheDeadGo(t *testing.T) {
	a, b := fleet(t)
	if _, err := a.locks.Ensure(waitFor(t, 10*time.Second), "one"); err != nil {
		t.Fatal(err)
	}
	must(t, locked(t)(b.locks.Ensure(waitFor(t, 10*time.Second), "two")).Release()) // b has joined
	a.cutOff.Store(true)
	eventually(t, 10*shortLease, "no Lease is left", func() bool {
		return !strings.Contains(kubectl(t, "", "get", "leases", "--namespace", a.Namespace(), "--output", "name"), "/one")
	})
}

// BenchmarkListRecords lists the records of many sandboxes.
func BenchmarkListRecords(b *testing.B) {
	const sandboxes = 1000
	p, _ := fleet(b)
	var wait sync.WaitGroup
	room := make(chan struct{}, 20)
	for i := range sandboxes {
		room <- struct{}{}
		wait.Go(func() {
			defer func() { <-room }()
			rec := record(fmt.Sprint("sbx-", i))
			rec.Spec.Security.Seccomp = seccomp.Profile()
			if err := p.records.Put(rec); err != nil {
				b.Error(err)
			}
		})
	}
	wait.Wait()
	for b.Loop() {
		if all, _, err := p.records.List(""); err != nil || len(all) != sandboxes {
			b.Fatalf("%d records, %v", len(all), err)
		}
	}
}
