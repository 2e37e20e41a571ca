package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// Variables by which the test binary is the process that is killed.
const (
	killRoot  = "SANDBOX_TEST_KILL_ROOT"
	killOp    = "SANDBOX_TEST_KILL_OP"
	killMeans = "SANDBOX_TEST_KILL_MEANS"
	killStep  = "SANDBOX_TEST_KILL_STEP"
)

// TestMain lets more tests run at a time than there are processors: most of them
// wait for the disk.
func TestMain(m *testing.M) {
	testenv.AtOnce(4)
	os.Exit(m.Run())
}

// A killed operation is run by a process that ends between two of its steps.
type killedOp struct {
	prepare func(t *testing.T, s *Store)
	run     func(ctx context.Context, s *Store) error
	record  bool // the operation makes a checkpoint
}

func complete(_ Record, w *Switch, err error) error {
	if err != nil || w == nil {
		return err
	}
	return errors.Join(w.Commit(), w.s.Close())
}

// abort undoes an operation whose mount a sandbox cannot exchange.
func abort(_ Record, w *Switch, err error) error {
	if err != nil || w == nil {
		return err
	}
	return w.Abort()
}

func killedOps() map[string]killedOp {
	first := func(t *testing.T, s *Store) {
		plain(t, s, ws, someFiles())
		create(t, s, ws, CreateOptions{Name: "first"})
	}
	second := func(t *testing.T, s *Store) {
		first(t, s)
		write(t, s.Path(ws), map[string]string{"a.txt": "changed", "new": "new"}, user())
		must(t, os.RemoveAll(filepath.Join(s.Path(ws), "dir")))
	}
	return map[string]killedOp{
		"first checkpoint": {
			func(t *testing.T, s *Store) { plain(t, s, ws, someFiles()) },
			func(ctx context.Context, s *Store) error { return complete(s.Create(ctx, ws, CreateOptions{})) }, true,
		},
		"second checkpoint": {
			second,
			func(ctx context.Context, s *Store) error { return complete(s.Create(ctx, ws, CreateOptions{})) }, true,
		},
		"checkpoint while busy": {
			second,
			func(ctx context.Context, s *Store) error {
				return complete(s.Create(ctx, ws, CreateOptions{Busy: true}))
			}, true,
		},
		"checkpoint that merges layers": {
			func(t *testing.T, s *Store) {
				first(t, s)
				for i := range 3 {
					write(t, s.Path(ws), map[string]string{fmt.Sprint("f", i): "x"}, user())
					create(t, s, ws, CreateOptions{})
				}
			},
			func(ctx context.Context, s *Store) error { return complete(s.Create(ctx, ws, CreateOptions{})) }, true,
		},
		"rollback": {
			second,
			func(ctx context.Context, s *Store) error { return complete(s.Rollback(ctx, ws, "first")) }, false,
		},
		"abort of the first checkpoint": {
			func(t *testing.T, s *Store) { plain(t, s, ws, someFiles()) },
			func(ctx context.Context, s *Store) error { return abort(s.Create(ctx, ws, CreateOptions{})) }, false,
		},
		"abort of a rollback": {
			second,
			func(ctx context.Context, s *Store) error { return abort(s.Rollback(ctx, ws, "first")) }, false,
		},
		"fork": {
			second,
			func(ctx context.Context, s *Store) error { return s.Fork(ctx, "first", "sbx-b", otherUser()) }, false,
		},
		"private": {
			func(t *testing.T, s *Store) {
				must(t, os.Mkdir(filepath.Join(filepath.Dir(s.root), "base"), 0o755))
				write(t, filepath.Join(filepath.Dir(s.root), "base"), someFiles(), user())
			},
			func(ctx context.Context, s *Store) error {
				return s.Private(ctx, "sbx-b", filepath.Join(filepath.Dir(s.root), "base"), user())
			}, false,
		},
		"change of the base": {
			func(t *testing.T, s *Store) {
				base := filepath.Join(filepath.Dir(s.root), "base")
				must(t, os.MkdirAll(base, 0o755))
				write(t, base, map[string]string{"a.txt": "one"}, user())
				must(t, s.Private(t.Context(), "sbx-b", base, user()))
			},
			func(ctx context.Context, s *Store) error {
				return s.BaseChanges(ctx, "sbx-b", func() error {
					p := filepath.Join(filepath.Dir(s.root), "base", "a.txt")
					fixed := time.Unix(1, 0)
					return errors.Join(os.WriteFile(p+".new", []byte("another"), 0o644), os.Chtimes(p+".new", fixed, fixed),
						os.Lchown(p+".new", user().UID, user().GID), os.Rename(p+".new", p))
				})
			}, false,
		},
		"drop": {
			func(t *testing.T, s *Store) {
				second(t, s)
				must(t, s.Fork(t.Context(), "first", "sbx-b", user()))
			},
			func(ctx context.Context, s *Store) error { return s.Drop(ctx, "sbx-b") }, false,
		},
		"remove": {
			func(t *testing.T, s *Store) {
				second(t, s)
				create(t, s, ws, CreateOptions{})
			},
			func(ctx context.Context, s *Store) error { return s.Remove(ctx, "first") }, false,
		},
	}
}

// inside is where a sandbox shows the workspace, in tests.
func inside(s *Store) string { return filepath.Join(filepath.Dir(s.root), "inside") }

// show makes the sandbox show m, and nothing else.
func show(s *Store, m *os.File) error {
	for isMounted(inside(s)) {
		if err := detach(inside(s)); err != nil {
			return err
		}
	}
	return attach(m, inside(s))
}

// exchanging has the sandbox take up the new file system, in which code writes a
// file at once.
func exchanging(_ Record, w *Switch, err error) error {
	if err != nil {
		return err
	}
	m, err := w.Mount()
	if err != nil {
		return err
	}
	defer m.Close()
	w.s.o.step("sandbox: mount taken")
	if err := show(w.s, m); err != nil {
		return err
	}
	w.s.o.step("sandbox: exchanged")
	if err := os.WriteFile(filepath.Join(inside(w.s), "between"), []byte("text"), 0o644); err != nil {
		return err
	}
	w.s.o.step("sandbox: written")
	return errors.Join(w.Commit(), w.s.Close())
}

// exchangedOps are operations on a workspace that a sandbox shows.
func exchangedOps() map[string]killedOp {
	shown := func(prepare func(t *testing.T, s *Store)) func(t *testing.T, s *Store) {
		return func(t *testing.T, s *Store) {
			prepare(t, s)
			must(t, os.MkdirAll(inside(s), 0o700))
			m, err := cloneMount(s.Path(ws))
			must(t, err)
			defer m.Close()
			must(t, show(s, m))
			t.Cleanup(func() { _ = detach(inside(s)) })
		}
	}
	all := killedOps()
	return map[string]killedOp{
		"first checkpoint": {shown(all["first checkpoint"].prepare), func(ctx context.Context, s *Store) error {
			return exchanging(s.Create(ctx, ws, CreateOptions{Archives: []Archive{archiveOf("home")}}))
		}, true},
		"second checkpoint": {shown(all["second checkpoint"].prepare), func(ctx context.Context, s *Store) error {
			return exchanging(s.Create(ctx, ws, CreateOptions{Archives: []Archive{archiveOf("home")}}))
		}, true},
		"rollback": {shown(all["rollback"].prepare), func(ctx context.Context, s *Store) error {
			return exchanging(s.Rollback(ctx, ws, "first"))
		}, false},
	}
}

func archiveOf(name string) Archive {
	return Archive{Name: name, Target: "/" + name, Open: func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader("an archive")), nil
	}}
}

// TestKillExchanged holds that a process that is killed while a sandbox exchanges
// its file system loses nothing of what code in the sandbox writes to the new one,
// then and later, and that the sandbox and the workspace are one again.
func TestKillExchanged(t *testing.T) {
	t.Parallel()
	needOverlay(t, newStore(t, Options{}))
	for name, op := range exchangedOps() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steps := 0
			for killedExchanging(t, name, op, steps+1) {
				steps++
			}
			if steps < 6 {
				t.Errorf("there are %d steps", steps)
			}
			t.Logf("%d steps", steps)
		})
	}
}

func killedExchanging(t *testing.T, name string, op killedOp, n int) bool {
	t.Helper()
	root := filepath.Join(t.TempDir(), "root")
	must(t, os.Mkdir(root, 0o700))
	s := storeAt(t, root, Options{MaxDepth: 4})
	op.prepare(t, s)
	before := snapshot(t, s.Path(ws))
	recordsBefore, err := s.List(t.Context(), nil)
	must(t, err)
	after, killed := kill(t, root, "exchanged "+name, Overlay, n)
	if !killed {
		return false
	}
	exists := func(dir, file string) bool {
		_, err := os.Lstat(filepath.Join(dir, file))
		return err == nil
	}
	written := exists(inside(s), "between")
	there, err := os.Stat(inside(s))
	must(t, err)
	here, err := os.Stat(s.Path(ws)) // not there while the folder moves
	together := err == nil && os.SameFile(there, here)
	// Code in the sandbox goes on.
	must(t, os.WriteFile(filepath.Join(inside(s), "orphan"), []byte("text"), 0o644))
	s, err = Open(root, Options{MaxDepth: 4, Now: func() time.Time { return time.Now().Add(time.Hour) }})
	must(t, err)
	stale, err := s.Stale(t.Context(), ws)
	must(t, err)
	must(t, s.Ensure(t.Context(), ws))
	must(t, s.sweep(t.Context()))
	now := snapshot(t, s.Path(ws))
	list, err := s.List(t.Context(), nil)
	must(t, err)
	made := len(list) > len(recordsBefore)
	h, _, err := s.Head(ws)
	must(t, err)
	forward := made || !op.record && exists(s.Path(ws), "dir") // which the workspace has not before its rollback
	if written && !forward {
		t.Errorf("%s: the operation was undone, in whose file system the sandbox has written", after)
	}
	if written != exists(s.Path(ws), "between") {
		t.Errorf("%s: a file of the new file system: was there %v, is %v", after, written, !written)
	}
	if (together || op.record || !forward) && !exists(s.Path(ws), "orphan") {
		t.Errorf("%s: what the sandbox wrote is lost", after)
	}
	for _, file := range []string{"between", "orphan"} {
		delete(now, file)
	}
	want := before
	if !op.record && forward {
		must(t, s.Fork(t.Context(), "first", "sbx-y", user()))
		want = snapshot(t, s.Path("sbx-y"))
		must(t, s.Drop(t.Context(), "sbx-y"))
	}
	delete(now, ".")
	delete(want, ".")
	same(t, after+"the workspace", now, want)
	if made {
		r := list[len(list)-1]
		if stale && !r.Busy {
			t.Errorf("%s: the checkpoint counts as consistent", after)
		}
		f, err := s.OpenArchive(r.ID, "home")
		must(t, err)
		text, err := io.ReadAll(f)
		must(t, err)
		must(t, f.Close())
		if string(text) != "an archive" {
			t.Errorf("%s: the archive has %q", after, text)
		}
		must(t, s.Fork(t.Context(), r.ID, "sbx-z", user()))
		kept := snapshot(t, s.Path("sbx-z"))
		delete(kept, ".")
		delete(kept, "orphan") // of the moment in which it was made
		same(t, after+"the checkpoint", kept, before)
		must(t, s.Drop(t.Context(), "sbx-z"))
	}
	if h.Stale != stale {
		t.Errorf("%s: the head is stale %v, the store says %v", after, h.Stale, stale)
	}
	if stale {
		m, err := s.Mount(t.Context(), ws)
		must(t, err)
		must(t, show(s, m))
		must(t, m.Close())
		must(t, s.Remounted(t.Context(), ws))
		if stale, err := s.Stale(t.Context(), ws); err != nil || stale {
			t.Errorf("%s: it is stale after the exchange: %v, %v", after, stale, err)
		}
	}
	must(t, os.WriteFile(filepath.Join(inside(s), "later"), []byte("text"), 0o644))
	if !exists(s.Path(ws), "later") {
		t.Errorf("%s: the sandbox and the workspace are two", after)
	}
	create(t, s, ws, CreateOptions{}) // and the next operation is one like any other
	if !exists(s.Path(ws), "later") {
		t.Errorf("%s: the next checkpoint lost a file", after)
	}
	must(t, s.Close())
	unmountBelow(root)
	return true
}

// TestKillChild is the process that is killed, when it is started as such.
func TestKillChild(t *testing.T) {
	root := os.Getenv(killRoot)
	if root == "" {
		return
	}
	left, err := strconv.Atoi(os.Getenv(killStep))
	must(t, err)
	s, err := Open(root, Options{Means: Means(os.Getenv(killMeans)), MaxDepth: 4, step: func(what string) {
		if left--; left == 0 {
			fmt.Fprintln(os.Stderr, "killed after", what)
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}})
	must(t, err)
	name := os.Getenv(killOp)
	op, ok := killedOps()[name]
	if exchanged, found := strings.CutPrefix(name, "exchanged "); found {
		op, ok = exchangedOps()[exchanged]
	}
	if !ok {
		t.Fatalf("there is no operation %q", name)
	}
	must(t, op.run(t.Context(), s))
}

// kill runs an operation in a process that is killed at the nth step and
// returns after which, or false if there are fewer steps.
func kill(t *testing.T, root, op string, m Means, n int) (string, bool) {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	c := exec.CommandContext(t.Context(), self, "-test.run=^TestKillChild$")
	c.Env = append(os.Environ(), killRoot+"="+root, killOp+"="+op, killMeans+"="+string(m), killStep+"="+strconv.Itoa(n))
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err = c.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		return out.String(), true
	}
	if err != nil {
		t.Fatalf("%s: %v: %s", op, err, out.String())
	}
	return "", false
}

// state is all that can be seen of a store.
func state(t *testing.T, s *Store) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, name := range []string{ws, "sbx-b"} {
		must(t, s.Ensure(t.Context(), name))
		h, ok, err := s.Head(name)
		must(t, err)
		if h.Parent != "" {
			h.Parent = "a checkpoint"
		}
		files := map[string]string{}
		if _, err := os.Lstat(s.Path(name)); err == nil {
			files = snapshot(t, s.Path(name))
			delete(files, ".")
		}
		// Of a workspace that is made or dropped, an empty folder may be left.
		out[name] = fmt.Sprintln(ok, h.Means, filepath.Base(h.Base), h.Parent, h.Owner)
		for _, p := range sortedKeys(files) {
			out[name+"/"+p] = files[p]
		}
	}
	list, err := s.List(t.Context(), nil)
	must(t, err)
	for i, r := range list {
		out[fmt.Sprint("checkpoint ", i)] = r.Name
	}
	return out
}

func equal(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if b[k] != v {
			return false
		}
	}
	return true
}

// TestKill holds that a process that is killed between any two steps of an
// operation leaves the state before it or the one after it, and that the
// operation can be run afterwards.
func TestKill(t *testing.T) {
	t.Parallel()
	for _, m := range []Means{Overlay, Copy} {
		for name, op := range killedOps() {
			t.Run(string(m)+"/"+name, func(t *testing.T) {
				if testing.Short() && (m == Copy) != (name == "rollback") {
					t.Skip("one operation for each means is enough for each commit")
				}
				t.Parallel()
				s := newStore(t, Options{})
				if m == Overlay {
					needOverlay(t, s)
				}
				whole := storeAt(t, t.TempDir(), Options{Means: m, MaxDepth: 4})
				op.prepare(t, whole)
				must(t, op.run(t.Context(), whole))
				done := state(t, whole)
				steps := 0
				for killedAt(t, m, name, op, steps+1, done) {
					steps++
				}
				if steps == 0 {
					t.Error("there are no steps")
				}
				t.Logf("%d steps", steps)
			})
		}
	}
}

func killedAt(t *testing.T, m Means, name string, op killedOp, n int, done map[string]string) bool {
	t.Helper()
	root := filepath.Join(t.TempDir(), "root")
	must(t, os.Mkdir(root, 0o700))
	future := func() time.Time { return time.Now().Add(time.Hour) }
	s := storeAt(t, root, Options{Means: m, MaxDepth: 4})
	op.prepare(t, s)
	before := state(t, s)
	after, killed := kill(t, root, name, m, n)
	defer unmountBelow(root)
	if !killed {
		return false
	}
	s, err := Open(root, Options{Means: m, MaxDepth: 4, Now: future})
	if err != nil {
		t.Fatalf("%s: %v", after, err)
	}
	got := state(t, s)
	undone := equal(got, before)
	if !undone {
		same(t, after+"the state is neither that before nor that after, which it is compared to", got, done)
	}
	if undone {
		must(t, op.run(t.Context(), s))
		same(t, after+"then run again", state(t, s), done)
	}
	if op.record {
		// A checkpoint that exists is whole, and the workspace is as it was.
		for key, v := range before {
			if key != ws && got[key] != v {
				t.Errorf("%s: %s is %q, was %q", after, key, got[key], v)
			}
		}
		list, err := s.List(t.Context(), nil)
		must(t, err)
		files := snapshot(t, s.Path(ws))
		for _, r := range list[len(list)-1:] {
			must(t, s.Fork(t.Context(), r.ID, "sbx-z", user()))
			same(t, after+"the checkpoint", snapshot(t, s.Path("sbx-z")), files)
			must(t, s.Drop(t.Context(), "sbx-z"))
		}
	}
	// Nothing is left that no checkpoint and no workspace needs.
	must(t, s.sweep(t.Context()))
	refs, err := s.references()
	must(t, err)
	for _, sub := range []string{"data", "tmp", "trash", "bases"} {
		entries, err := os.ReadDir(s.path(sub))
		must(t, err)
		for _, e := range entries {
			if !refs[e.Name()] {
				t.Errorf("%s: %s/%s is left", after, sub, e.Name())
			}
		}
	}
	if testenv.All() {
		t.Log(after)
	}
	return true
}

// TestScratchWhileAProgramStarts holds that a folder goes at once although a program is
// being started, which has a copy of every descriptor until it runs.
func TestScratchWhileAProgramStarts(t *testing.T) {
	t.Parallel()
	s := newStore(t, Options{})
	_, _, err := s.Means(t.Context()) // makes the folders
	must(t, err)
	dir, done, err := s.scratch("probe")
	must(t, err)
	copied := -1
	entries, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	for _, e := range entries {
		if at, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && at == dir {
			fd, err := strconv.Atoi(e.Name())
			must(t, err)
			copied, err = syscall.Dup(fd)
			must(t, err)
		}
	}
	if copied < 0 {
		t.Fatal("no descriptor of the folder is open")
	}
	defer syscall.Close(copied)
	done()
	if left, err := os.ReadDir(s.path("trash")); err != nil || len(left) != 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}
