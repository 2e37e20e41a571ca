//go:build linux

package files

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

// A watchedTree is a watch of a folder in a test.
type watchedTree struct {
	t   *testing.T
	w   *Watch
	dir string // on the host
}

func watchTree(t *testing.T, r *Root, dir, rel string, recursive bool) *watchedTree {
	t.Helper()
	w, err := r.Watch(rel, recursive, noPause)
	must(t, err)
	t.Cleanup(w.Close)
	x := &watchedTree{t, w, filepath.Join(dir, rel)}
	if got := x.decode(); len(got) == 0 || !strings.HasPrefix(got[0], "ready") {
		t.Fatalf("the watch begins with %q", got)
	}
	return x
}

// decode returns the records that are there, in short form.
func (x *watchedTree) decode() (out []string) {
	x.t.Helper()
	b, _ := x.w.Records()
	for len(b) > 0 {
		m, rest, ok, err := wire.DecodeFileChange(b)
		if err != nil || !ok {
			x.t.Fatalf("%q: %v %v", b, ok, err)
		}
		b = rest
		kind := map[wire.ChangeKind]string{wire.ChangeCreate: "create", wire.ChangeWrite: "write", wire.ChangeRemove: "remove", wire.ChangeRename: "rename",
			wire.ChangeMode: "chmod", wire.ChangeReady: "ready", wire.ChangeOverflow: "overflow", wire.ChangeUnwatched: "unwatched", wire.ChangeGone: "gone"}[m.Kind]
		s := kind + " " + m.Name
		if m.To != "" {
			s += " " + m.To
		}
		st, err := lstat(unix.AT_FDCWD, filepath.Join(x.dir, m.Name))
		if err == nil && m.To == "" && m.Kind != wire.ChangeReady && m.Kind != wire.ChangeUnwatched && m.Kind != wire.ChangeOverflow && m.Info.Mode != st.Mode && m.Info.Mode != 0 {
			x.t.Errorf("%s: mode %o, want %o", s, m.Info.Mode, st.Mode)
		}
		if err == nil && m.Kind == wire.ChangeMode && m.Info.Mode == 0 {
			x.t.Errorf("%s: nothing is known of it", s)
		}
		if m.Kind == wire.ChangeUnwatched {
			s += fmt.Sprint(" ", m.Info.Size)
		}
		out = append(out, s)
	}
	return out
}

// until reads until a record for the file end, which it makes, has come.
func (x *watchedTree) until() (out []string) {
	x.t.Helper()
	must(x.t, os.WriteFile(filepath.Join(x.dir, "end"), nil, 0o600))
	x.t.Cleanup(func() { _ = os.Remove(filepath.Join(x.dir, "end")) })
	for !slices.Contains(out, "create end") {
		x.step(&out)
	}
	must(x.t, os.Remove(filepath.Join(x.dir, "end")))
	for !slices.Contains(out, "remove end") {
		x.step(&out)
	}
	return slices.DeleteFunc(out, func(s string) bool { return strings.HasSuffix(s, " end") })
}

func (x *watchedTree) step(out *[]string) {
	x.t.Helper()
	wake := time.AfterFunc(30*time.Second, x.w.Wake)
	defer wake.Stop()
	must(x.t, x.w.Wait())
	must(x.t, x.w.Report())
	*out = append(*out, x.decode()...)
}

// TestWatchKinds holds the kind and the name of each change.
func TestWatchKinds(t *testing.T) {
	both(t, func(t *testing.T, r *Root, dir string) {
		at := func(name string) string { return filepath.Join(dir, name) }
		must(t, os.MkdirAll(at("sub/deep"), 0o755))
		outside := filepath.Join(filepath.Dir(dir), "outside")
		for _, step := range []struct {
			name string
			do   func() error
			want string
		}{
			{"create", func() error { return os.WriteFile(at("a"), nil, 0o644) }, "create a"},
			{"write", func() error { return os.WriteFile(at("a"), []byte("x"), 0o644) }, "write a"},
			{"chmod", func() error { return os.Chmod(at("a"), 0o600) }, "chmod a"},
			{"times", func() error { return os.Chtimes(at("a"), time.Now(), time.Now()) }, "chmod a"},
			{"of the folder", func() error { return os.Chmod(dir, 0o750) }, "chmod ."},
			{"below", func() error { return os.WriteFile(at("sub/deep/b\xff\n"), nil, 0o644) }, "create sub/deep/b\xff\n"},
			{"rename", func() error { return os.Rename(at("a"), at("sub/c")) }, "rename a sub/c"},
			{"rename over", func() error { return os.Rename(at("sub/c"), at("sub/deep/b\xff\n")) }, "rename sub/c sub/deep/b\xff\n"},
			{"folder renamed", func() error { return os.Rename(at("sub/deep"), at("moved")) }, "rename sub/deep moved"},
			{"in the renamed", func() error { return os.WriteFile(at("moved/d"), nil, 0o644) }, "create moved/d"},
			{"moved out", func() error { return os.Rename(at("moved"), outside+"/moved") }, "rename moved"},
			{"in what has left", func() error { return os.WriteFile(outside+"/moved/unseen", nil, 0o644) }, ""},
			{"moved in", func() error { return os.Rename(outside+"/moved", at("back")) }, "create back|create back/b\xff\n|create back/d|create back/unseen"},
			{"in what came in", func() error { return os.Remove(at("back/d")) }, "remove back/d"},
			{"remove", func() error { return os.RemoveAll(at("back")) }, "remove back/b\xff\n|remove back/unseen|remove back"},
			{"link", func() error { return os.Symlink(outside, at("link")) }, "create link"},
			{"behind a link", func() error { return os.WriteFile(outside+"/x", nil, 0o600) }, ""},
			{"pipe", func() error { return unix.Mkfifo(at("pipe"), 0o600) }, "create pipe"},
			{"our own write", func() error { return put(r, "own", "1", false) }, "create own"},
			{"our own replacement", func() error { return put(r, "own", "2", false) }, "write own"},
			{"our own exclusive write", func() error { return put(r, "excl", "1", true) }, "create excl"},
			{"a name like ours", func() error { return os.WriteFile(at(".sbx-0123456789abcdef0123456789abcdef.tmp"), nil, 0o600) }, "create .sbx-0123456789abcdef0123456789abcdef.tmp"},
		} {
			x := watchTree(t, r, dir, "", true)
			must(t, step.do())
			got := x.until()
			want := strings.Split(step.want, "|")
			if step.want == "" {
				want = nil
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", step.name, got, want)
			}
			x.w.Close()
		}
	})
}

// TestWatchOneFolder holds that a watch without recursion reports the entries of
// its folder alone.
func TestWatchOneFolder(t *testing.T) {
	both(t, func(t *testing.T, r *Root, dir string) {
		must(t, os.MkdirAll(dir+"/w/sub", 0o755))
		x := watchTree(t, r, dir, "w", false)
		must(t, os.WriteFile(dir+"/w/sub/a", nil, 0o644))
		must(t, os.MkdirAll(dir+"/w/new/b", 0o755))
		must(t, os.WriteFile(dir+"/beside", nil, 0o644))
		if got := x.until(); !slices.Equal(got, []string{"create new"}) {
			t.Errorf("%q", got)
		}
	})
}

// TestWatchNewFolders holds that nothing in a folder that comes to be is missed or
// reported twice, however fast it is filled.
func TestWatchNewFolders(t *testing.T) {
	both(t, func(t *testing.T, r *Root, dir string) {
		x := watchTree(t, r, dir, "", true)
		const n = 200
		var want []string
		for i := range n {
			name := fmt.Sprint("d", i)
			want = append(want, "create "+name, "create "+name+"/e", "create "+name+"/e/f")
		}
		done := make(chan error)
		go func() {
			var err error
			for i := range n {
				at := filepath.Join(dir, fmt.Sprint("d", i), "e")
				if e := os.MkdirAll(at, 0o755); e != nil {
					err = e
				}
				if e := unix.Mkfifo(at+"/f", 0o600); e != nil {
					err = e
				}
			}
			done <- err
		}()
		got := x.until()
		must(t, <-done)
		got = append(got, x.until()...)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%d changes, want %d: %.2000q", len(got), len(want), got)
		}
	})
}

// TestWatchOverflow holds that changes that the kernel has dropped are reported,
// and that the folders that came to be meanwhile are watched.
func TestWatchOverflow(t *testing.T) {
	r := open(t, Probe(), t.TempDir())
	dir := "/" + strings.Join(r.names[0], "/")
	x := watchTree(t, r, dir, "", true)
	limit, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	must(t, err)
	most := 0
	_, err = fmt.Sscan(string(limit), &most)
	must(t, err)
	for i := range most/2 + 100 { // two each
		name := fmt.Sprintf("%s/%d", dir, i%7)
		must(t, unix.Mknod(name, unix.S_IFIFO|0o600, 0))
		must(t, os.Remove(name))
	}
	must(t, os.Mkdir(dir+"/late", 0o755))
	var got []string
	for !slices.Contains(got, "overflow .") {
		x.step(&got)
	}
	if slices.Contains(got, "create late") {
		t.Fatal("the queue did not overflow")
	}
	must(t, os.WriteFile(dir+"/late/file", nil, 0o644))
	if got := x.until(); !slices.Equal(got, []string{"create late/file"}) {
		t.Errorf("after the overflow: %q", got)
	}
}

// TestWatchBounds holds the bound of folders: at the beginning it is an error, and
// later a record that names the folder.
func TestWatchBounds(t *testing.T) {
	r := open(t, Probe(), t.TempDir())
	dir := "/" + strings.Join(r.names[0], "/")
	must(t, os.Mkdir(dir+"/many", 0o755))
	for i := range wire.MaxWatchedFolders - 2 {
		must(t, os.Mkdir(fmt.Sprintf("%s/many/%d", dir, i), 0o755))
	}
	x := watchTree(t, r, dir, "", true)
	must(t, os.Mkdir(dir+"/one", 0o755))
	if got := x.until(); !slices.Equal(got, []string{"create one", "unwatched one 28"}) {
		t.Errorf("%q", got)
	}
	if _, err := r.Watch("", true, noPause); err != ErrWatchedFolders {
		t.Errorf("too many folders at the beginning: %v", err)
	}
	if w, err := r.Watch("", false, noPause); err != nil {
		t.Errorf("the folder alone: %v", err)
	} else {
		w.Close()
	}
}

// TestWatchEnds holds how a watch ends, and what cannot be watched.
func TestWatchEnds(t *testing.T) {
	both(t, func(t *testing.T, r *Root, dir string) {
		for name, end := range map[string]func(at string) error{
			"removed": os.Remove, "renamed": func(at string) error { return os.Rename(at, at+"2") },
		} {
			must(t, os.Mkdir(dir+"/"+name, 0o755))
			x := watchTree(t, r, dir, name, true)
			must(t, end(dir+"/"+name))
			var got []string
			for !slices.Contains(got, "gone .") {
				x.step(&got)
			}
			if _, ended := x.w.Records(); !ended {
				t.Errorf("%s: the watch goes on", name)
			}
		}
		must(t, os.WriteFile(dir+"/file", nil, 0o644))
		link(t, filepath.Dir(dir)+"/outside", dir+"/out")
		for rel, want := range map[string]error{"none": unix.ENOENT, "file": unix.ENOTDIR, "out": ErrEscape, "..": ErrEscape} {
			if _, err := r.Watch(rel, true, noPause); err != want {
				t.Errorf("%s: %v, want %v", rel, err, want)
			}
		}
		x := watchTree(t, r, dir, "", true)
		x.w.Wake()
		if err := x.w.Wait(); err == nil {
			t.Error("a watch that was woken waits")
		}
	})
}
