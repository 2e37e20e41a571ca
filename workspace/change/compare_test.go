package change_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
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
