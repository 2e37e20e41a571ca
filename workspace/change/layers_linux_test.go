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
	for seed := range int64(testenv.Rounds(2, 5, 100)) {
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
	fill(t, upper, map[string]string{"d/a": "", "o/": "", "u/": "", "a": "", "p/a": ""})
	set := func(rel, name, value string) {
		t.Helper()
		must(t, unix.Setxattr(upper+"/"+rel, name, []byte(value), 0))
	}
	set("", "trusted.overlay.opaque", "x")
	set("d", "trusted.overlay.opaque", "x")
	set("d/a", "trusted.overlay.whiteout", "y")
	set("o", "trusted.overlay.opaque", "y")
	set("u", "user.overlay.opaque", "y")        // means nothing without userxattr
	set("p/a", "trusted.overlay.whiteout", "y") // means nothing outside of a folder with "x"
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
	if got, want := compare(change.LayerOptions{}), "modified a\nremoved d/a\nremoved o/a\nmodified p/a\n"; got != want {
		t.Errorf("trusted: %s", got)
	}
	if got, want := compare(change.LayerOptions{UserXattr: true}), "modified a\nmodified d/a\nmodified p/a\nremoved u/a\n"; got != want {
		t.Errorf("user: %s", got)
	}
	must(t, unix.Mknod(upper+"/o/dev", unix.S_IFCHR, 0)) // a whiteout of nothing
	if got, want := compare(change.LayerOptions{}), "modified a\nremoved d/a\nremoved o/a\nmodified p/a\n"; got != want {
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

// TestFullDisk holds that the host is as before when there is no room for the
// changes.
func TestFullDisk(t *testing.T) {
	testenv.Require(t, "root")
	r := newRig(t, nil)
	if err := unix.Mount("tmpfs", r.host, "tmpfs", 0, "size=64k"); err != nil {
		testenv.Lack(t, "root", err)
	}
	t.Cleanup(func() { must(t, unix.Unmount(r.host, unix.MNT_DETACH)) })
	for _, root := range []string{r.host, r.base, r.current} {
		put(t, root+"/a", "1")
	}
	put(t, r.current+"/a", "2")
	put(t, r.current+"/big", strings.Repeat("x", 100<<10))
	before := snapshot(t, r.host)
	err := r.apply(change.PlanOptions{})
	if !errors.Is(err, unix.ENOSPC) || sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("%v", err)
	}
	differ(t, "after an apply without room", snapshot(t, r.host), before)
	if s, err := change.Inspect(r.journal); err != nil || s.Phase != change.Undone {
		t.Errorf("%+v, %v", s, err)
	}
}

// BenchmarkCompareAdded compares 50,000 added files with nothing.
func BenchmarkCompareAdded(b *testing.B) {
	dir := b.TempDir()
	must(b, os.Mkdir(dir+"/base", 0o755))
	many(b, dir+"/current", 50_000)
	r := &rig{TB: b}
	base, current := r.tree(dir+"/base"), r.tree(dir+"/current")
	for b.Loop() {
		entries, err := change.Compare(context.Background(), base, current, change.Options{})
		must(b, err)
		if len(entries) < 50_000 {
			b.Fatal(len(entries))
		}
	}
}

// BenchmarkCompareTrees compares 100 changes in full trees of 50,000 files, the
// other files of which are hard links.
func BenchmarkCompareTrees(b *testing.B) {
	dir := b.TempDir()
	many(b, dir+"/base", 50_000)
	left := 100
	must(b, filepath.WalkDir(dir+"/base", func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := dir + "/current" + strings.TrimPrefix(p, dir+"/base")
		switch {
		case d.IsDir():
			return os.Mkdir(to, 0o755)
		case strings.HasSuffix(p, "g7") && left > 0:
			left--
			return os.WriteFile(to, []byte("changed\n"), 0o644)
		}
		return os.Link(p, to)
	}))
	r := &rig{TB: b}
	base, current := r.tree(dir+"/base"), r.tree(dir+"/current")
	for b.Loop() {
		entries, err := change.Compare(context.Background(), base, current, change.Options{})
		must(b, err)
		if len(entries) != 100 {
			b.Fatal(len(entries))
		}
	}
}
