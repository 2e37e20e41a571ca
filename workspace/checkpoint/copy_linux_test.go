package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/workspace"
	"golang.org/x/sys/unix"
)

// copyTree copies a folder and returns where to.
func copyTree(t testing.TB, src string, c *copier) (string, copied, error) {
	t.Helper()
	dst := filepath.Join(t.TempDir(), "copy")
	must(t, os.Mkdir(dst, 0o700))
	var err error
	c.src, err = openFolder(src)
	must(t, err)
	defer c.src.Close()
	c.dst, err = openFolder(dst)
	must(t, err)
	defer c.dst.Close()
	c.name = "the tree"
	done, err := c.run(t.Context())
	return dst, done, err
}

func TestCopyKeeps(t *testing.T) {
	src := t.TempDir()
	write(t, src, someFiles(), user())
	must(t, os.WriteFile(filepath.Join(src, "h1"), []byte("hard"), 0o640))
	must(t, os.Link(filepath.Join(src, "h1"), filepath.Join(src, "dir", "h2")))
	must(t, os.Link(filepath.Join(src, "h1"), filepath.Join(src, "dir", "sub", "h3")))
	sparse := filepath.Join(src, "sparse")
	f, err := os.Create(sparse)
	must(t, err)
	must(t, f.Truncate(1<<30))
	_, err = f.WriteAt([]byte("in the middle"), 300<<20)
	must(t, err)
	must(t, f.Close())
	must(t, unix.Setxattr(filepath.Join(src, "a.txt"), "user.note", []byte("kept"), 0))
	must(t, unix.Setxattr(filepath.Join(src, "dir"), "user.note", []byte("kept"), 0))
	must(t, unix.Mkfifo(filepath.Join(src, "pipe"), 0o600))
	l, err := net.Listen("unix", filepath.Join(src, "socket"))
	must(t, err)
	defer l.Close()
	special := 2
	if os.Geteuid() == 0 {
		must(t, unix.Mknod(filepath.Join(src, "null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
		special++
	}
	must(t, os.Chmod(filepath.Join(src, "dir", "sub"), 0o500))
	defer os.Chmod(filepath.Join(src, "dir", "sub"), 0o700) //nolint:errcheck // so that it can be removed

	dst, done, err := copyTree(t, src, &copier{hash: true})
	must(t, err)
	defer os.Chmod(filepath.Join(dst, "dir", "sub"), 0o700) //nolint:errcheck // so that it can be removed
	want := map[string]string{}
	for _, p := range []string{"a.txt", "dir", "dir/sub", "dir/c.txt", "odd\xff name\n", "link", "out", "h1", "empty"} {
		want[p] = describe(t, filepath.Join(src, p))
	}
	for p, line := range want {
		if got := describe(t, filepath.Join(dst, p)); got != line {
			t.Errorf("%q is %s, want %s", p, got, line)
		}
	}
	for _, p := range []string{"pipe", "socket", "null"} {
		if _, err := os.Lstat(filepath.Join(dst, p)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", p, err)
		}
	}
	if done.leftOut.Special != special || len(done.leftOut.Paths) != special {
		t.Errorf("left out is %+v", done.leftOut)
	}
	one, _ := os.Stat(filepath.Join(dst, "h1"))
	for _, p := range []string{"dir/h2", "dir/sub/h3"} {
		if other, err := os.Stat(filepath.Join(dst, p)); err != nil || !os.SameFile(one, other) {
			t.Errorf("%s is no hard link: %v", p, err)
		}
	}
	fi, err := os.Stat(filepath.Join(dst, "sparse"))
	must(t, err)
	if fi.Size() != 1<<30 || blocksOf(fi) > 64 {
		t.Errorf("the sparse file has %d bytes in %d blocks", fi.Size(), blocksOf(fi))
	}
	g, err := os.Open(filepath.Join(dst, "sparse"))
	must(t, err)
	defer g.Close()
	buf := make([]byte, 13)
	if _, err := g.ReadAt(buf, 300<<20); err != nil || string(buf) != "in the middle" {
		t.Errorf("the sparse file has %q, %v", buf, err)
	}
	for _, p := range []string{"a.txt", "dir"} {
		if v, err := getxattr(filepath.Join(dst, p), "user.note"); err != nil || v != "kept" {
			t.Errorf("the attribute of %s is %q, %v", p, v, err)
		}
	}
	for _, e := range done.entries {
		if e.Path == "dir/c.txt" && e.Digest != digestOf([]byte("three")) {
			t.Errorf("the digest is %q", e.Digest)
		}
		if e.Path == "sparse" && e.Digest != "" {
			t.Errorf("a gigabyte of zeros was hashed: %q", e.Digest)
		}
	}
	// The list survives a file.
	p := filepath.Join(t.TempDir(), "manifest")
	must(t, writeManifest(p, "a note\n", done.entries))
	n := 0
	note, ok, err := readManifest(p, func(e Entry) {
		if string(e.appendTo(nil)) != string(done.entries[n].appendTo(nil)) {
			t.Errorf("%+v became %+v", done.entries[n], e)
		}
		n++
	})
	if note != "a note\n" || !ok || err != nil || n != len(done.entries) {
		t.Errorf("%q %v %v, %d of %d", note, ok, err, n, len(done.entries))
	}
}

// describe describes one file.
func describe(t *testing.T, p string) string {
	t.Helper()
	fi, err := os.Lstat(p)
	must(t, err)
	line := fmt.Sprint(fi.Mode(), ownerOf(fi), fi.ModTime().UnixNano())
	switch {
	case fi.Mode().IsRegular():
		data, err := os.ReadFile(p)
		must(t, err)
		line += string(data)
	case fi.Mode()&fs.ModeSymlink != 0:
		to, _ := os.Readlink(p)
		line += to
	}
	return line
}

// TestCopyLargeFolder holds that a folder with very many files is copied.
func TestCopyLargeFolder(t *testing.T) {
	t.Parallel()
	n := testenv.Rounds(3000, 20_000, 100_000)
	src := t.TempDir()
	for i := range n {
		must(t, os.WriteFile(filepath.Join(src, fmt.Sprintf("file-%06d", i)), nil, 0o600))
	}
	dst, done, err := copyTree(t, src, &copier{})
	must(t, err)
	names, err := readNames(dst, n+2)
	if err != nil || len(names) != n || len(done.entries) != n+1 {
		t.Errorf("there are %d files and %d entries, %v", len(names), len(done.entries), err)
	}
}

// TestCopyWhileChanged holds that a copy of a tree which changes at the same
// time is complete as to what stays, follows no link, and ends.
func TestCopyWhileChanged(t *testing.T) {
	t.Parallel()
	src, outside := t.TempDir(), t.TempDir()
	must(t, os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o600))
	for i := range 200 {
		write(t, src, map[string]string{fmt.Sprintf("stay/%d/f", i): "stays", fmt.Sprintf("go/%d/secret", i): "goes"}, user())
	}
	var stop atomic.Bool
	changed := make(chan struct{})
	go func() {
		defer close(changed)
		for i := 0; !stop.Load(); i = (i + 1) % 200 {
			p := filepath.Join(src, "go", fmt.Sprint(i))
			// A folder becomes a link to another, a file grows, and both come back.
			_ = os.RemoveAll(p)
			_ = os.Symlink(outside, p)
			_ = os.Remove(p)
			_ = os.Mkdir(p, 0o700)
			_ = os.WriteFile(filepath.Join(p, "secret"), []byte(strings.Repeat("goes", i)), 0o600)
		}
	}()
	for range testenv.Rounds(3, 10, 100) {
		dst, done, err := copyTree(t, src, &copier{hash: true})
		must(t, err)
		for i := range 200 {
			if data, err := os.ReadFile(filepath.Join(dst, "stay", fmt.Sprint(i), "f")); err != nil || string(data) != "stays" {
				t.Fatalf("%q, %v", data, err)
			}
			p := filepath.Join(dst, "go", fmt.Sprint(i))
			if fi, err := os.Lstat(p); err == nil && fi.IsDir() {
				if data, err := os.ReadFile(filepath.Join(p, "secret")); err == nil && strings.Contains(string(data), "secret") {
					t.Fatal("the copy has a file from outside")
				}
			}
		}
		_ = done
	}
	stop.Store(true)
	<-changed
}

// TestFullDisk holds that a checkpoint that finds no room is none.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	s := storeAt(t, testenv.Disk(t, "8m"), Options{Means: Copy})
	plain(t, s, ws, map[string]string{"small": "x"})
	r := create(t, s, ws, CreateOptions{})
	must(t, os.WriteFile(filepath.Join(s.Path(ws), "large"), make([]byte, 5<<20), 0o600))
	want := snapshot(t, s.Path(ws))
	_, _, err := s.Create(t.Context(), ws, CreateOptions{})
	wantCode(t, "a checkpoint", err, sandbox.CodeUnavailable)
	if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "full") {
		t.Errorf("the error is %v", err)
	}
	err = s.Fork(t.Context(), r.ID, "sbx-b", user())
	must(t, err) // a small one finds room
	must(t, os.WriteFile(filepath.Join(s.Path("sbx-b"), "more"), make([]byte, 2<<20), 0o600))
	_, _, err = s.Create(t.Context(), "sbx-b", CreateOptions{})
	wantCode(t, "a checkpoint of the fork", err, sandbox.CodeUnavailable)
	same(t, "the workspace", snapshot(t, s.Path(ws)), want)
	if list, err := s.List(t.Context(), nil); err != nil || len(list) != 1 || layersIn(t, s) != 1 {
		t.Errorf("there are %v, %d layers, %v", list, layersIn(t, s), err)
	}
	rollback(t, s, ws, r.ID)
	if _, err := os.Lstat(filepath.Join(s.Path(ws), "large")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the rollback: %v", err)
	}
}

// TestUnchangedAreLinked holds that a further checkpoint copies what changed
// alone, and that a change that leaves size and time is seen.
func TestUnchangedAreLinked(t *testing.T) {
	s := newStore(t, Options{Means: Copy})
	plain(t, s, ws, map[string]string{"a": "aaaa", "b": "bbbb", "dir/c": "cccc"})
	age(t, s.Path(ws))
	create(t, s, ws, CreateOptions{})
	a := filepath.Join(s.Path(ws), "a")
	fi, err := os.Stat(a)
	must(t, err)
	must(t, os.WriteFile(a, []byte("AAAA"), 0o644))
	must(t, os.Chtimes(a, fi.ModTime(), fi.ModTime()))
	r := create(t, s, ws, CreateOptions{})
	h, _, err := s.Head(ws)
	must(t, err)
	if data, _ := os.ReadFile(filepath.Join(h.Layers[0], "a")); string(data) != "AAAA" {
		t.Errorf("the checkpoint has %q", data)
	}
	for p, links := range map[string]uint64{"a": 1, "b": 2, "dir/c": 2} {
		var st unix.Stat_t
		must(t, unix.Lstat(filepath.Join(h.Layers[0], p), &st))
		if uint64(st.Nlink) != links { //nolint:unconvert // another type elsewhere
			t.Errorf("%s has %d names, want %d", p, st.Nlink, links)
		}
	}
	if r.Bytes > 16<<10 {
		t.Errorf("%d bytes were copied", r.Bytes)
	}
	u, err := s.Usage(t.Context())
	if err != nil || u.Checkpoints != 2 || u.Layers != 2 || u.Bytes == 0 {
		t.Errorf("the usage is %+v, %v", u, err)
	}
}

// age waits until the clock of the file system has moved on.
func age(t *testing.T, dir string) {
	t.Helper()
	first := ctimeOf(t, dir)
	testenv.Until(t, "the clock of files moves", func() bool {
		p := filepath.Join(dir, ".clock")
		must(t, os.WriteFile(p, nil, 0o600))
		defer os.Remove(p) //nolint:errcheck // it is ours
		return ctimeOf(t, p)-first > int64(2*tick)
	})
}

func ctimeOf(t *testing.T, p string) int64 {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Lstat(p, &st))
	return nanos(st.Ctim)
}

// TestQuotaOfCheckpoints holds the bounds of number and size, and that nothing
// is left of a checkpoint that exceeds them.
func TestQuotaOfCheckpoints(t *testing.T) {
	eachMeans(t, func(t *testing.T, s *Store) {
		s.o.MaxCheckpoints = 2
		plain(t, s, ws, map[string]string{"a": "a"})
		r := create(t, s, ws, CreateOptions{Name: "one"})
		_, _, err := s.Create(t.Context(), ws, CreateOptions{Name: "one"})
		wantCode(t, "the same name", err, sandbox.CodeValidation)
		create(t, s, ws, CreateOptions{})
		_, _, err = s.Create(t.Context(), ws, CreateOptions{})
		wantCode(t, "a third", err, sandbox.CodeBudgetExceeded)
		must(t, s.Remove(t.Context(), r.ID))
		s.o.MaxBytes = 1 << 20
		must(t, os.WriteFile(filepath.Join(s.Path(ws), "large"), make([]byte, 2<<20), 0o600))
		for _, busy := range []bool{false, true} {
			_, _, err = s.Create(t.Context(), ws, CreateOptions{Busy: busy})
			wantCode(t, "a large one", err, sandbox.CodeBudgetExceeded)
		}
		_, _, err = s.Create(t.Context(), ws, CreateOptions{Archives: []Archive{home(strings.Repeat(random(t), 300))}})
		wantCode(t, "a large archive", err, sandbox.CodeBudgetExceeded)
		must(t, os.Remove(filepath.Join(s.Path(ws), "large")))
		create(t, s, ws, CreateOptions{Archives: []Archive{home("small")}})
	})
}

// random returns bytes that cannot be compressed.
func random(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for b.Len() < 8000 {
		b.WriteString(newID() + newID())
	}
	return b.String()
}

// TestPrune holds which checkpoints go.
func TestPrune(t *testing.T) {
	eachMeans(t, func(t *testing.T, s *Store) {
		plain(t, s, ws, map[string]string{"a": "a"})
		var ids []string
		for i := range 6 {
			write(t, s.Path(ws), map[string]string{"a": fmt.Sprint(i)}, user())
			o := CreateOptions{Auto: true}
			if i == 1 {
				o.Name = "named"
			}
			ids = append(ids, create(t, s, ws, o).ID)
		}
		must(t, s.Fork(t.Context(), ids[0], "sbx-b", user()))
		for _, dry := range []bool{true, false} {
			gone, err := s.Prune(t.Context(), PruneOptions{KeepLast: 2, DryRun: dry})
			must(t, err)
			if len(gone) != 2 || gone[0].ID != ids[2] || gone[1].ID != ids[3] {
				t.Errorf("gone is %v", gone)
			}
		}
		list, err := s.List(t.Context(), func(r Record) bool { return r.Auto })
		must(t, err)
		if len(list) != 4 {
			t.Errorf("left is %v", list)
		}
		must(t, s.Drop(t.Context(), ws))
		must(t, s.Fork(t.Context(), "named", "sbx-c", user()))
		if data, err := os.ReadFile(filepath.Join(s.Path("sbx-c"), "a")); err != nil || string(data) != "1" {
			t.Errorf("the fork has %q, %v", data, err)
		}
	})
}

// TestQuotaWorkspace holds that a workspace that is a file system of its own
// is copied, and that the reason says so.
func TestQuotaWorkspace(t *testing.T) {
	testenv.Require(t, "root")
	if err := workspace.CanBound(); err != nil {
		testenv.Lack(t, "quota", err)
	}
	s := newStore(t, Options{})
	w, err := workspace.Open(s.Root())
	must(t, err)
	dir, err := w.Ensure(t.Context(), ws, user(), 32<<20)
	must(t, err)
	t.Cleanup(func() { _ = w.Remove(context.Background(), dir) })
	m, reason, err := s.MeansOf(t.Context(), ws)
	if err != nil || m != Copy || !strings.Contains(reason, "quota") {
		t.Errorf("the means are %s for %q, %v", m, reason, err)
	}
	write(t, dir, someFiles(), user())
	first := snapshot(t, dir)
	r := create(t, s, ws, CreateOptions{})
	must(t, os.RemoveAll(filepath.Join(dir, "dir")))
	write(t, dir, map[string]string{"dir": "file", "a.txt": "changed"}, user())
	rollback(t, s, ws, r.ID)
	same(t, "rolled back", snapshot(t, dir), first)
	must(t, s.Fork(t.Context(), r.ID, "sbx-b", user()))
	same(t, "forked", snapshot(t, s.Path("sbx-b")), first)
	if !s.bounded(ws) {
		t.Error("the workspace has lost its file system")
	}
	must(t, s.Drop(t.Context(), ws))
}

// TestTwoAtOnce holds that operations at the same time exclude one another.
func TestTwoAtOnce(t *testing.T) {
	eachMeans(t, func(t *testing.T, s *Store) {
		plain(t, s, ws, someFiles())
		want := snapshot(t, s.Path(ws))
		r := create(t, s, ws, CreateOptions{})
		errs := make(chan error)
		const n = 8
		for i := range n {
			go func() { errs <- s.Fork(t.Context(), r.ID, fmt.Sprintf("sbx-f%d", i), user()) }()
			go func() { errs <- complete(s.Create(t.Context(), ws, CreateOptions{})) }()
			go func() { _, err := s.Prune(t.Context(), PruneOptions{DryRun: i%2 == 0, KeepLast: 20}); errs <- err }()
		}
		for range 3 * n {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		for i := range n {
			same(t, "a fork", snapshot(t, s.Path(fmt.Sprintf("sbx-f%d", i))), want)
		}
		if list, err := s.List(t.Context(), nil); err != nil || len(list) != n+1 {
			t.Errorf("there are %d checkpoints, %v", len(list), err)
		}
		err := s.Fork(t.Context(), r.ID, "sbx-f0", user())
		wantCode(t, "a fork onto a workspace", err, sandbox.CodeBusy)
		wantCode(t, "a fork of nothing", s.Fork(t.Context(), "0123456789abcdef", "sbx-n", user()), sandbox.CodeNotFound)
		_, _, err = s.Create(t.Context(), "sbx-none", CreateOptions{})
		wantCode(t, "a checkpoint of nothing", err, sandbox.CodeNotFound)
	})
}
