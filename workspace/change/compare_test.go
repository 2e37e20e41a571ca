package change_test

import (
	"context"
	"errors"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/workspace/change"
	"golang.org/x/sys/unix"
)

func TestCompare(t *testing.T) {
	long := strings.Repeat("a line of text\n", 30)
	r := newRig(t, map[string]string{
		"same": "x", "edit": "x", "gone": "x", "mode": "x", "link": "-> a", "dir/in": "x", "olddir/f": "9", "olddir/g/h": "2",
		"tofile/x": "8", "todir": "7", "tolink": "6", "moved": long, "similar": long + "1\n2\n", "empty": "", "bin": "a\x00b",
	})
	put(t, r.current+"/edit", "y")
	must(t, os.Remove(r.current+"/gone"))
	must(t, os.Chmod(r.current+"/mode", 0o755))
	put(t, r.current+"/link", "-> b")
	put(t, r.current+"/dir/new", "n")
	must(t, os.RemoveAll(r.current+"/olddir"))
	put(t, r.current+"/tofile", "2")
	must(t, os.Remove(r.current+"/todir"))
	fill(t, r.current, map[string]string{"todir/x": "5", "newdir/": "", "dir/copy": long, "dir/alike": long + "3\n"})
	put(t, r.current+"/tolink", "-> same")
	must(t, os.Remove(r.current+"/moved"))
	must(t, os.Remove(r.current+"/similar"))
	must(t, os.Remove(r.current+"/empty"))
	put(t, r.current+"/empty2", "")
	put(t, r.current+"/bin", "a\x00c")
	must(t, os.Chmod(r.current+"/dir", 0o700))
	got := brief(r.compare())
	want := `modified bin
mode dir
renamed dir/alike < similar 99%
renamed dir/copy < moved 100%
added dir/new
modified edit
removed empty
added empty2
removed gone
modified link
mode mode
added newdir
removed olddir
removed olddir/f
removed olddir/g
removed olddir/g/h
type todir
added todir/x
type tofile
removed tofile/x
type tolink
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	entries, err := change.Compare(deadline(t), r.tree(r.base), r.tree(r.current), change.Options{Paths: []string{"dir", "gone"}})
	must(t, err)
	if got, want := brief(entries), "mode dir\nadded dir/alike\nadded dir/copy\nadded dir/new\nremoved gone\n"; got != want {
		t.Errorf("of two paths: %s", got)
	}
	for _, bad := range []string{"", "/x", "../x", "a/../b", "a//b", "a\x00"} {
		_, err := change.Compare(deadline(t), r.tree(r.base), r.tree(r.current), change.Options{Paths: []string{bad}})
		refused(t, err, sandbox.CodeValidation)
	}
	ctx, done := context.WithCancel(context.Background())
	done()
	if _, err := change.Compare(ctx, r.tree(r.base), r.tree(r.current), change.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
}

// TestCompareReads holds which files are read: those with the same inode are
// not, and those longer than the bound neither.
func TestCompareReads(t *testing.T) {
	r := newRig(t, map[string]string{"a": "x"})
	must(t, os.Remove(r.current+"/a"))
	must(t, os.Link(r.base+"/a", r.current+"/a"))
	if got := r.compare(); len(got) > 0 {
		t.Errorf("one file with two names: %s", brief(got))
	}
	put(t, r.current+"/a", "12345")
	put(t, r.base+"/b", "12345")
	put(t, r.current+"/b", "54321")
	entries, err := change.Compare(deadline(t), r.tree(r.base), r.tree(r.current), change.Options{MaxFile: 4})
	must(t, err)
	if brief(entries) != "modified a\nmodified b\n" || !entries[0].Unread || !entries[1].Unread || entries[0].Digest != "" {
		t.Errorf("%+v", entries)
	}
	called := false
	entries, err = change.Compare(deadline(t), r.tree(r.base), r.tree(r.current), change.Options{Unchanged: func(p string, i change.Info) bool {
		called = called || p == "a" && i.Size == 5
		return true
	}})
	must(t, err)
	if len(entries) > 0 || !called {
		t.Errorf("%v, %s", called, brief(entries))
	}
}

func TestCompareSpecial(t *testing.T) {
	r := newRig(t, nil)
	must(t, unix.Mkfifo(r.current+"/pipe", 0o644))
	entries := r.compare()
	if brief(entries) != "added pipe\n" || entries[0].Level() != change.Never {
		t.Errorf("%+v", entries)
	}
	if _, _, err := r.tree(r.current).Open("pipe"); err == nil {
		t.Error("a pipe can be opened")
	}
}

func TestTreeFollowsNoLink(t *testing.T) {
	r := newRig(t, map[string]string{"dir/f": "secret", "out": "-> /etc", "in": "-> dir", "f": "-> dir/f"})
	tree := r.tree(r.base)
	for _, p := range []string{"out/passwd", "in/f", "f", "dir/../f", "/etc/passwd", "../x", "dir/f/g", "nothing"} {
		if f, _, err := tree.Open(p); err == nil {
			f.Close()
			t.Errorf("%q can be opened", p)
		}
	}
	if _, err := tree.ReadDir("in"); err == nil {
		t.Error("a link can be listed")
	}
	if to, err := tree.Readlink("in"); err != nil || to != "dir" {
		t.Errorf("%q, %v", to, err)
	}
	if names, err := tree.ReadDir("."); err != nil || strings.Join(names, " ") != "dir f in out" {
		t.Errorf("%q, %v", names, err)
	}
	if info, err := tree.Lstat("."); err != nil || !info.Mode.IsDir() {
		t.Errorf("%v, %v", info, err)
	}
}

func TestCompareDepth(t *testing.T) {
	r := newRig(t, nil)
	must(t, os.MkdirAll(filepath.Join(r.current, strings.Repeat("d/", 300)), 0o755))
	_, err := change.Compare(deadline(t), r.tree(r.base), r.tree(r.current), change.Options{})
	refused(t, err, sandbox.CodeCapabilityBlocked)
}

// overlay mounts the lower folders, topmost first, with an upper folder.
func overlay(t testing.TB, upper string, lower ...string) (merged string) {
	t.Helper()
	testenv.Require(t, "root")
	dir := t.TempDir()
	merged = dir + "/merged"
	must(t, os.Mkdir(merged, 0o755))
	must(t, os.MkdirAll(upper, 0o755))
	must(t, os.Mkdir(dir+"/work", 0o755))
	options := "lowerdir=" + strings.Join(lower, ":") + ",upperdir=" + upper + ",workdir=" + dir + "/work,index=off,metacopy=off,redirect_dir=off"
	if err := unix.Mount("overlay", merged, "overlay", 0, options); err != nil {
		testenv.Lack(t, "overlay", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(merged, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return merged
}

// TestCompareLayers holds that the layers of real overlays compare as plain
// copies of what they show, whatever changes were made.
func TestCompareLayers(t *testing.T) {
	for seed := range int64(testenv.Rounds(3, 12, 100)) {
		rng := rand.New(rand.NewSource(seed))
		dir := t.TempDir()
		base, middle, upper := dir+"/base", dir+"/middle", dir+"/upper"
		must(t, os.Mkdir(base, 0o755))
		mutate(t, rng, base, 60)
		first := overlay(t, middle, base)
		mutate(t, rng, first, 30)
		copyTree(t, first, dir+"/first")
		must(t, unix.Unmount(first, unix.MNT_DETACH))
		must(t, unix.Mount("tmpfs", first, "tmpfs", 0, "")) // for the cleanup
		second := overlay(t, upper, middle, base)
		mutate(t, rng, second, 30)
		copyTree(t, second, dir+"/second")

		open := func(folders ...string) *change.Tree {
			tree, err := change.Layers(folders, change.LayerOptions{})
			must(t, err)
			t.Cleanup(func() { tree.Close() })
			return tree
		}
		r := &rig{TB: t}
		for _, tt := range []struct {
			name               string
			base, current      *change.Tree
			plainOld, plainNow string
		}{
			{"upper over one layer", r.tree(base), open(middle, base), base, dir + "/first"},
			{"upper over two layers", open(middle, base), open(upper, middle, base), dir + "/first", dir + "/second"},
			{"two layers over one", open(base), open(upper, middle, base), base, dir + "/second"},
			{"back", open(upper, middle, base), open(middle, base), dir + "/second", dir + "/first"},
		} {
			got, err := change.Compare(deadline(t), tt.base, tt.current, change.Options{})
			must(t, err)
			want, err := change.Compare(deadline(t), r.tree(tt.plainOld), r.tree(tt.plainNow), change.Options{})
			must(t, err)
			if brief(got) != brief(want) {
				t.Errorf("seed %d, %s: got\n%swant\n%s", seed, tt.name, brief(got), brief(want))
			}
			for i := range min(len(got), len(want)) {
				if got[i].Digest != want[i].Digest || got[i].Link != want[i].Link || got[i].OldDigest != want[i].OldDigest {
					t.Errorf("seed %d, %s: %+v, want %+v", seed, tt.name, got[i], want[i])
				}
			}
		}
		if t.Failed() {
			return
		}
	}
}

// TestLayersFormat holds how the marks of overlayfs are read that the kernel
// does not write here.
func TestLayersFormat(t *testing.T) {
	testenv.Require(t, "root")
	dir := t.TempDir()
	lower, upper := dir+"/lower", dir+"/upper"
	fill(t, lower, map[string]string{"a": "1", "d/a": "1", "d/b": "1", "o/a": "1", "u/a": "1", "p/a": "1"})
	fill(t, upper, map[string]string{"d/a": "", "o/": "", "u/": "", "a": "", "p/": ""})
	set := func(rel, name, value string) {
		t.Helper()
		must(t, unix.Setxattr(upper+"/"+rel, name, []byte(value), 0))
	}
	set("d", "trusted.overlay.opaque", "x")
	set("d/a", "trusted.overlay.whiteout", "y")
	set("o", "trusted.overlay.opaque", "y")
	set("u", "user.overlay.opaque", "y")      // means nothing without userxattr
	set("a", "trusted.overlay.whiteout", "y") // means nothing outside of a folder with "x"
	set("p", "trusted.overlay.opaque", "n")
	compare := func(o change.LayerOptions) string {
		base, err := change.Layers([]string{lower}, o)
		must(t, err)
		defer base.Close()
		current, err := change.Layers([]string{upper, lower}, o)
		must(t, err)
		defer current.Close()
		entries, err := change.Compare(deadline(t), base, current, change.Options{})
		must(t, err)
		return brief(entries)
	}
	if got, want := compare(change.LayerOptions{}), "modified a\nremoved d/a\nremoved o/a\n"; got != want {
		t.Errorf("trusted: %s", got)
	}
	if got, want := compare(change.LayerOptions{UserXattr: true}), "modified a\nmodified d/a\nremoved u/a\n"; got != want {
		t.Errorf("user: %s", got)
	}
	must(t, unix.Mknod(upper+"/o/dev", unix.S_IFCHR, 0)) // a whiteout of nothing
	if got, want := compare(change.LayerOptions{}), "modified a\nremoved d/a\nremoved o/a\n"; got != want {
		t.Errorf("with a whiteout of nothing: %s", got)
	}
}

// many fills a folder with n files in folders of 50.
func many(t testing.TB, root string, n int) {
	t.Helper()
	for i := range n {
		dir := filepath.Join(root, "d"+string(rune('a'+i/2500%26)), "e"+string(rune('a'+i/50%50)), "f"+string(rune('a'+i/50%26)))
		if i%50 == 0 {
			must(t, os.MkdirAll(dir, 0o755))
		}
		must(t, os.WriteFile(filepath.Join(dir, "g"+string(rune('0'+i%50))), []byte("content\n"), 0o644))
	}
}

// BenchmarkCompareLayers compares 100 changes among 50,000 files.
func BenchmarkCompareLayers(b *testing.B) {
	dir := b.TempDir()
	lower, upper := dir+"/lower", dir+"/upper"
	must(b, os.Mkdir(upper, 0o755))
	many(b, lower, 50_000)
	merged := overlay(b, upper, lower)
	left := 100
	must(b, filepath.WalkDir(merged, func(p string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && strings.HasSuffix(p, "g7") && left > 0 {
			left--
			return os.WriteFile(p, []byte("changed\n"), 0o644)
		}
		return err
	}))
	for b.Loop() {
		base, err := change.Folder(lower)
		must(b, err)
		current, err := change.Layers([]string{upper, lower}, change.LayerOptions{})
		must(b, err)
		entries, err := change.Compare(context.Background(), base, current, change.Options{})
		must(b, err)
		if len(entries) != 100 {
			b.Fatal(len(entries))
		}
		base.Close()
		current.Close()
	}
}
