package checkpoint

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/workspace"
)

const ws = "sbx-a"

// newStore returns a store in a folder of its own, whose mounts go with the
// test.
func newStore(t testing.TB, o Options) *Store {
	t.Helper()
	return storeAt(t, t.TempDir(), o)
}

func storeAt(t testing.TB, root string, o Options) *Store {
	t.Helper()
	if err := os.Chmod(root, 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := Open(root, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.Close()
		unmountBelow(s.root)
	})
	return s
}

// unmountBelow takes away the mounts of a store.
func unmountBelow(root string) {
	entries, _ := os.ReadDir(root)
	for _, e := range entries {
		for p := filepath.Join(root, e.Name()); isMounted(p) && detach(p) == nil; {
		}
	}
}

// needOverlay is for tests that mount overlays.
func needOverlay(t testing.TB, s *Store) {
	t.Helper()
	if m, reason, err := s.Means(t.Context()); err != nil || m != Overlay {
		testenv.Lack(t, "overlay", fmt.Sprint(reason, err))
	}
}

// user is the owner of workspaces in tests.
func user() workspace.Owner {
	if os.Geteuid() != 0 {
		return workspace.Owner{UID: os.Geteuid(), GID: os.Getegid()}
	}
	return workspace.Owner{UID: 0x70000001, GID: 0x70000001}
}

func otherUser() workspace.Owner {
	if os.Geteuid() != 0 {
		return user()
	}
	return workspace.Owner{UID: 0x70000002, GID: 0x70000002}
}

// plain makes a plain workspace with files of its owner.
func plain(t testing.TB, s *Store, name string, files map[string]string) {
	t.Helper()
	dir := s.Path(name)
	must(t, os.Mkdir(dir, 0o700))
	own(t, dir, user())
	write(t, dir, files, user())
}

// write writes files, "x/" being a folder and "->x" as content a link.
func write(t testing.TB, dir string, files map[string]string, o workspace.Owner) {
	t.Helper()
	fixed := time.Date(2026, 1, 2, 3, 4, 5, 6789, time.UTC)
	for _, rel := range sortedKeys(files) {
		p := filepath.Join(dir, rel)
		for parent := filepath.Dir(rel); parent != "."; parent = filepath.Dir(parent) {
			if _, err := os.Lstat(filepath.Join(dir, parent)); err == nil {
				break
			}
			must(t, os.MkdirAll(filepath.Join(dir, parent), 0o755))
			own(t, filepath.Join(dir, parent), o)
		}
		text := files[rel]
		switch {
		case strings.HasSuffix(rel, "/"):
			must(t, os.MkdirAll(p, 0o755))
		case strings.HasPrefix(text, "->"):
			must(t, os.Symlink(text[2:], p))
		default:
			must(t, os.WriteFile(p, []byte(text), 0o644))
			must(t, os.Chtimes(p, fixed, fixed)) // states of two stores are compared
		}
		own(t, p, o)
	}
}

func own(t testing.TB, p string, o workspace.Owner) {
	t.Helper()
	if os.Geteuid() == 0 {
		must(t, os.Lchown(p, o.UID, o.GID))
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// snapshot describes a tree: path → kind, mode, owner and content.
func snapshot(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		fi, err := d.Info()
		if err != nil {
			return err
		}
		line := fmt.Sprintf("%v %d", fi.Mode(), ownerOf(fi).UID)
		switch {
		case fi.Mode().IsRegular():
			data, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			if len(data) <= 4<<10 {
				line += fmt.Sprintf(" %d %q", fi.ModTime().UnixNano(), data)
			} else { // quoting megabytes takes seconds with the race detector
				line += fmt.Sprintf(" %d %d bytes with SHA-256 %x", fi.ModTime().UnixNano(), len(data), sha256.Sum256(data))
			}
		case fi.Mode()&fs.ModeSymlink != 0:
			to, _ := os.Readlink(p)
			line += " " + to
		}
		out[rel] = line
		return nil
	})
	must(t, err)
	return out
}

func same(t testing.TB, what string, got, want map[string]string) {
	t.Helper()
	for _, p := range sortedKeys(want) {
		if got[p] != want[p] {
			t.Errorf("%s: %s is %q, want %q", what, p, got[p], want[p])
		}
	}
	for _, p := range sortedKeys(got) {
		if _, ok := want[p]; !ok {
			t.Errorf("%s: there is %s (%q)", what, p, got[p])
		}
	}
}

// create makes a checkpoint and completes it.
func create(t testing.TB, s *Store, name string, o CreateOptions) Record {
	t.Helper()
	r, w, err := s.Create(t.Context(), name, o)
	must(t, err)
	commit(t, w)
	return r
}

func commit(t testing.TB, w *Switch) {
	t.Helper()
	if w == nil {
		return
	}
	m, err := w.Mount()
	must(t, err)
	m.Close()
	must(t, w.Commit())
	must(t, w.s.Close())
}

func rollback(t testing.TB, s *Store, name, ref string) {
	t.Helper()
	_, w, err := s.Rollback(t.Context(), name, ref)
	must(t, err)
	commit(t, w)
}

func wantCode(t testing.TB, what string, err error, code sandbox.Code) {
	t.Helper()
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Code != code || e.Op == "" || e.Hint == "" && e.Code != sandbox.CodeNotFound {
		t.Errorf("%s: %v, want an error with %s and a hint", what, err, code)
	}
}

// layersIn counts the layers of a store.
func layersIn(t testing.TB, s *Store) int {
	t.Helper()
	entries, err := os.ReadDir(s.path("data"))
	must(t, err)
	return len(entries)
}

// eachMeans runs a test with overlay, where that is there, and with copies.
func eachMeans(t *testing.T, test func(t *testing.T, s *Store)) {
	for _, m := range []Means{Overlay, Copy} {
		t.Run(string(m), func(t *testing.T) {
			s := newStore(t, Options{})
			if m == Overlay {
				needOverlay(t, s)
			} else {
				s.o.Means = m
			}
			test(t, s)
		})
	}
}

func someFiles() map[string]string {
	return map[string]string{
		"a.txt": "one", "b.txt": "two", "dir/c.txt": "three", "dir/sub/d.txt": "four", "empty/": "",
		"link": "->dir/c.txt", "out": "->/etc/passwd", "odd\xff name\n": "bytes", "#x\\y": "hash",
	}
}

func TestCreateRollbackFork(t *testing.T) {
	eachMeans(t, func(t *testing.T, s *Store) {
		plain(t, s, ws, someFiles())
		dir := s.Path(ws)
		must(t, os.Chmod(filepath.Join(dir, "a.txt"), 0o750))
		first := snapshot(t, dir)
		r1 := create(t, s, ws, CreateOptions{Name: "first"})
		same(t, "after the checkpoint", snapshot(t, dir), first)

		write(t, dir, map[string]string{"a.txt": "changed", "new/e.txt": "five"}, user())
		must(t, os.Remove(filepath.Join(dir, "b.txt")))
		must(t, os.RemoveAll(filepath.Join(dir, "dir")))
		write(t, dir, map[string]string{"dir": "a file now"}, user())
		must(t, os.Remove(filepath.Join(dir, "link")))
		must(t, os.Mkdir(filepath.Join(dir, "link"), 0o700))
		second := snapshot(t, dir)
		r2 := create(t, s, ws, CreateOptions{})
		same(t, "after the second checkpoint", snapshot(t, dir), second)
		if r2.Parent != r1.ID {
			t.Errorf("the parent is %q, want %q", r2.Parent, r1.ID)
		}

		must(t, s.Fork(t.Context(), "first", "sbx-b", user()))
		same(t, "the fork", snapshot(t, s.Path("sbx-b")), first)
		write(t, s.Path("sbx-b"), map[string]string{"a.txt": "of the fork"}, user())
		same(t, "after a change of the fork", snapshot(t, dir), second)

		rollback(t, s, ws, r1.ID)
		same(t, "rolled back", snapshot(t, dir), first)
		rollback(t, s, ws, r2.ID)
		same(t, "rolled forward", snapshot(t, dir), second)
		rollback(t, s, ws, "first")
		same(t, "rolled back again", snapshot(t, dir), first)
		if h, ok, err := s.Head(ws); err != nil || !ok || h.Parent != r1.ID {
			t.Errorf("the head is %+v, %v, %v", h, ok, err)
		}

		must(t, s.Drop(t.Context(), "sbx-b"))
		must(t, s.Drop(t.Context(), ws))
		must(t, s.Remove(t.Context(), "first"))
		must(t, s.Remove(t.Context(), r2.ID))
		if n := layersIn(t, s); n != 0 {
			t.Errorf("%d layers are left", n)
		}
	})
}

func TestPrivate(t *testing.T) {
	eachMeans(t, func(t *testing.T, s *Store) {
		base := filepath.Join(t.TempDir(), "base")
		must(t, os.Mkdir(base, 0o755))
		host := workspace.Owner{UID: 1234, GID: 1234}
		if os.Geteuid() != 0 {
			host = user()
		}
		own(t, base, host)
		write(t, base, someFiles(), host)
		before := snapshot(t, base)
		must(t, s.Private(t.Context(), ws, base, user()))
		dir := s.Path(ws)
		fi, err := os.Stat(filepath.Join(dir, "dir/c.txt"))
		must(t, err)
		if ownerOf(fi) != user() {
			t.Errorf("the file of the base belongs to %v in the view", ownerOf(fi))
		}
		if fi, err := os.Stat(dir); err != nil || fi.Mode().Perm() != 0o700 || ownerOf(fi) != user() {
			t.Errorf("the workspace has %v of %v: %v", fi.Mode(), ownerOf(fi), err)
		}
		// The owner itself can change it.
		asOwner(t, user(), dir, func(r *os.Root) error { return r.WriteFile("dir/c.txt", []byte("agent's"), 0o644) })
		asOwner(t, user(), dir, func(r *os.Root) error { return r.RemoveAll("dir/sub") })
		asOwner(t, user(), dir, func(r *os.Root) error { return r.WriteFile("n.txt", []byte("new"), 0o644) })
		must(t, s.Private(t.Context(), ws, base, user())) // again
		if _, err := s.Note(t.Context(), ws); err != nil {
			t.Fatal(err)
		}
		same(t, "the host folder", snapshot(t, base), before)

		b, err := s.Bases(ws)
		must(t, err)
		must(t, os.WriteFile(filepath.Join(base, "dir/c.txt"), []byte("the host's"), 0o644))
		content, info, ok := b.Base("dir/c.txt")
		if !ok || content == nil || info.Size != 5 {
			t.Fatalf("the base is %v %+v %v", content, info, ok)
		}
		data := make([]byte, 10)
		n, _ := content.Read(data)
		content.Close()
		if string(data[:n]) != "three" {
			t.Errorf("the base was %q", data[:n])
		}
		if _, info, ok := b.Base("dir/sub/d.txt"); !ok || info.Type != typeFile {
			t.Errorf("of a file in a removed folder is known %+v %v", info, ok)
		}
		if h, ok, err := s.Head(ws); err != nil || !ok || h.Base != base || len(h.Layers) != 1 {
			t.Errorf("the head is %+v, %v, %v", h, ok, err)
		}
		r := create(t, s, ws, CreateOptions{})
		must(t, s.Fork(t.Context(), r.ID, "sbx-b", otherUser()))
		if got, err := os.ReadFile(filepath.Join(s.Path("sbx-b"), "dir/c.txt")); err != nil || string(got) != "agent's" {
			t.Errorf("the fork has %q, %v", got, err)
		}
		b, err = s.Bases("sbx-b")
		must(t, err)
		if _, _, ok := b.Base("dir/c.txt"); !ok {
			t.Error("the fork knows nothing of the base")
		}
		must(t, s.Drop(t.Context(), ws))
		must(t, s.Ensure(t.Context(), ws))
		wantCode(t, "a base above the store", s.Private(t.Context(), "sbx-c", filepath.Dir(s.root), user()), sandbox.CodeValidation)
		wantCode(t, "a base that is not there", s.Private(t.Context(), "sbx-c", base+"x", user()), sandbox.CodeNotFound)
	})
}

// TestForkOwner holds that a fork of another owner can be written to by that
// owner.
func TestForkOwner(t *testing.T) {
	testenv.Require(t, "root")
	eachMeans(t, func(t *testing.T, s *Store) {
		plain(t, s, ws, someFiles())
		r := create(t, s, ws, CreateOptions{})
		must(t, s.Fork(t.Context(), r.ID, "sbx-b", otherUser()))
		p := filepath.Join(s.Path("sbx-b"), "dir/c.txt")
		asOwner(t, otherUser(), s.Path("sbx-b"), func(r *os.Root) error { return r.WriteFile("dir/c.txt", []byte("mine"), 0) })
		r2 := create(t, s, "sbx-b", CreateOptions{})
		must(t, s.Fork(t.Context(), r2.ID, "sbx-c", user()))
		asOwner(t, user(), s.Path("sbx-c"), func(r *os.Root) error {
			return errors.Join(r.WriteFile("dir/c.txt", []byte("mine again"), 0), r.WriteFile("a.txt", []byte("mine again"), 0))
		})
		if got, _ := os.ReadFile(p); string(got) != "mine" {
			t.Errorf("the fork in between has %q", got)
		}
		if got, _ := os.ReadFile(filepath.Join(s.Path(ws), "dir/c.txt")); string(got) != "three" {
			t.Errorf("the first workspace has %q", got)
		}
	})
}

// TestEnsureAfterReboot holds that the overlay is mounted again.
func TestEnsureAfterReboot(t *testing.T) {
	s := newStore(t, Options{})
	needOverlay(t, s)
	plain(t, s, ws, someFiles())
	want := snapshot(t, s.Path(ws))
	create(t, s, ws, CreateOptions{})
	unmountBelow(s.root)
	if names, err := os.ReadDir(s.Path(ws)); err != nil || len(names) > 0 {
		t.Errorf("the mount point has %v, %v", names, err)
	}
	if fi, _ := os.Stat(s.Path(ws)); fi.Mode().Perm() != 0 {
		t.Errorf("the mount point has mode %v", fi.Mode())
	}
	must(t, s.Ensure(t.Context(), ws))
	must(t, s.Ensure(t.Context(), ws))
	same(t, "mounted again", snapshot(t, s.Path(ws)), want)
	if list, _ := mountsAt(s.Path(ws)); len(list) != 1 {
		t.Errorf("the mounts are %v", list)
	}
	// A folder that hides something is not mounted over.
	unmountBelow(s.root)
	must(t, os.Chmod(s.Path(ws), 0o700))
	must(t, os.WriteFile(filepath.Join(s.Path(ws), "x"), nil, 0o600))
	wantCode(t, "files under the mount", s.Ensure(t.Context(), ws), sandbox.CodeBusy)
}

// TestAbort holds that a sandbox that cannot exchange its mount leaves
// everything as it was.
func TestAbort(t *testing.T) {
	s := newStore(t, Options{})
	needOverlay(t, s)
	plain(t, s, ws, someFiles())
	dir := s.Path(ws)
	want := snapshot(t, dir)
	before, err := os.Stat(dir)
	must(t, err)
	inside, err := os.Open(dir) // as the mount of a sandbox
	must(t, err)
	defer inside.Close()
	for range 2 {
		_, w, err := s.Create(t.Context(), ws, CreateOptions{})
		must(t, err)
		must(t, w.Abort())
		must(t, w.Abort())
		after, err := os.Stat(dir)
		must(t, err)
		if !os.SameFile(before, after) {
			t.Error("the folder is another one")
		}
		same(t, "aborted", snapshot(t, dir), want)
		if _, ok, _ := s.Head(ws); ok || isMounted(dir) || layersIn(t, s) != 0 {
			t.Error("something is left")
		}
	}
	r := create(t, s, ws, CreateOptions{})
	write(t, dir, map[string]string{"a.txt": "later"}, user())
	want = snapshot(t, dir)
	before, err = os.Stat(dir)
	must(t, err)
	for what, begin := range map[string]func() (Record, *Switch, error){
		"create":   func() (Record, *Switch, error) { return s.Create(t.Context(), ws, CreateOptions{}) },
		"rollback": func() (Record, *Switch, error) { return s.Rollback(t.Context(), ws, r.ID) },
	} {
		_, w, err := begin()
		must(t, err)
		must(t, w.Abort())
		after, err := os.Stat(dir)
		must(t, err)
		if !os.SameFile(before, after) {
			t.Errorf("%s: the file system is another one", what)
		}
		same(t, what, snapshot(t, dir), want)
	}
	if list, err := s.List(t.Context(), nil); err != nil || len(list) != 1 {
		t.Errorf("the checkpoints are %v, %v", list, err)
	}
}

// TestBusy holds that a workspace in use keeps its file system, and that the
// checkpoint has what it had.
func TestBusy(t *testing.T) {
	s := newStore(t, Options{})
	needOverlay(t, s)
	plain(t, s, ws, someFiles())
	dir := s.Path(ws)
	first := snapshot(t, dir)
	r0, w, err := s.Create(t.Context(), ws, CreateOptions{Busy: true})
	must(t, err)
	if w != nil || isMounted(dir) {
		t.Fatal("the file system was exchanged")
	}
	create(t, s, ws, CreateOptions{})
	write(t, dir, map[string]string{"a.txt": "changed"}, user())
	must(t, os.RemoveAll(filepath.Join(dir, "dir")))
	write(t, dir, map[string]string{"dir/z.txt": "opaque"}, user())
	must(t, os.Remove(filepath.Join(dir, "b.txt")))
	second := snapshot(t, dir)
	before, _ := os.Stat(dir)
	r, w, err := s.Create(t.Context(), ws, CreateOptions{Busy: true})
	must(t, err)
	if after, _ := os.Stat(dir); w != nil || !os.SameFile(before, after) {
		t.Error("the file system was exchanged")
	}
	write(t, dir, map[string]string{"a.txt": "later"}, user())
	must(t, s.Fork(t.Context(), r.ID, "sbx-b", user()))
	same(t, "the fork of the second", snapshot(t, s.Path("sbx-b")), second)
	must(t, s.Fork(t.Context(), r0.ID, "sbx-c", user()))
	same(t, "the fork of the first", snapshot(t, s.Path("sbx-c")), first)
	rollback(t, s, ws, r.ID)
	same(t, "rolled back", snapshot(t, dir), second)
}

// TestDepth holds that a long chain has few layers and shows the same files.
func TestDepth(t *testing.T) {
	s := newStore(t, Options{MaxDepth: 4})
	needOverlay(t, s)
	plain(t, s, ws, map[string]string{"keep": "base", "gone": "base", "d/x": "base", "d/y": "base"})
	dir := s.Path(ws)
	var states []map[string]string
	var records []Record
	for i := range 40 {
		write(t, dir, map[string]string{fmt.Sprintf("f%d", i%7): fmt.Sprint(i), fmt.Sprintf("d/g%d", i%5): fmt.Sprint(i)}, user())
		switch i % 10 {
		case 3:
			must(t, os.RemoveAll(filepath.Join(dir, "d")))
		case 4:
			write(t, dir, map[string]string{"d/x": "again"}, user())
		case 5:
			must(t, os.Remove(filepath.Join(dir, "f5")))
			must(t, os.RemoveAll(filepath.Join(dir, "f4")))
			write(t, dir, map[string]string{"f4/in": "a folder"}, user())
		case 6:
			must(t, os.RemoveAll(filepath.Join(dir, "f4")))
		}
		if i == 1 {
			must(t, os.Remove(filepath.Join(dir, "gone")))
		}
		records = append(records, create(t, s, ws, CreateOptions{}))
		states = append(states, snapshot(t, dir))
	}
	for i, r := range records {
		tree, _ := r.tree(WorkspaceTree)
		if n := len(tree.Layers); n > s.o.MaxDepth+3 {
			t.Errorf("checkpoint %d has %d layers", i, n)
		}
		if i%7 != 0 && i < 36 {
			continue
		}
		must(t, s.Fork(t.Context(), r.ID, "sbx-f", user()))
		same(t, fmt.Sprintf("checkpoint %d", i), snapshot(t, s.Path("sbx-f")), states[i])
		must(t, s.Drop(t.Context(), "sbx-f"))
	}
}

// TestRuns holds the rule by which layers are merged.
func TestRuns(t *testing.T) {
	unit := func(w int) Layer { return Layer{Weight: w} }
	layers := []Layer{unit(0)}
	deepest := 0
	for range 1000 {
		layers = slices.Insert(layers, 0, unit(1))
		if len(layers) > DefaultMaxDepth {
			var out []Layer
			sum := 0
			for _, run := range runs(layers, DefaultMaxDepth) {
				l := Layer{}
				for _, m := range run {
					l.Weight += m.Weight
				}
				sum += l.Weight
				out = append(out, l)
			}
			before := 0
			for _, l := range layers {
				before += l.Weight
			}
			if sum != before || out[len(out)-1].Weight != 0 {
				t.Fatalf("%v became %v", layers, out)
			}
			layers = out
		}
		deepest = max(deepest, len(layers))
	}
	if deepest > DefaultMaxDepth {
		t.Errorf("there were %d layers", deepest)
	}
	// A change of the owner is a bound.
	got := runs([]Layer{{Weight: 1, Owner: user()}, {Weight: 1}, {Weight: 1}, {}}, 2)
	if len(got) != 3 {
		t.Errorf("the runs are %v", got)
	}
}

// TestSweepWhilePending holds that what another process removes meanwhile is not
// what a checkpoint needs that is not complete yet.
func TestSweepWhilePending(t *testing.T) {
	s := newStore(t, Options{})
	needOverlay(t, s)
	plain(t, s, ws, someFiles())
	r, w, err := s.Create(t.Context(), ws, CreateOptions{Archives: []Archive{archiveOf("home")}})
	must(t, err)
	must(t, s.sweep(t.Context()))
	must(t, w.Commit())
	f, err := s.OpenArchive(r.ID, "home")
	must(t, err)
	must(t, f.Close())
}
