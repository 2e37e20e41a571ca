package hostscan

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// old creates the stub rel as versions with a file for each stub did.
func (r placeholderRig) old(rel string, isDir bool) {
	r.t.Helper()
	rec := record{Path: r.at(rel), Dir: isDir, Temp: ".sandbox-stub-old" + filepath.Base(rel)}
	first, err := json.Marshal(rec)
	r.must(err)
	dir, err := openFolder(filepath.Dir(rec.Path))
	r.must(err)
	defer unix.Close(dir)
	r.must(rec.create(dir))
	st, err := lookPlaceholder(dir, rec.Temp)
	r.must(err)
	rec.Dev, rec.Ino, rec.Mtime, rec.Birth = st.dev, st.ino, st.mtime, st.birth
	second, err := json.Marshal(rec)
	r.must(err)
	r.must(os.WriteFile(r.d.oldFile(key(rec.Path)), append(append(first, '\n'), append(second, '\n')...), 0o600))
	r.must(rename(dir, rec.Temp, filepath.Base(rel)))
}

// TestOldRecords verifies that stubs which a version with a file for each stub
// has left, or holds, are recognized, taken over, and removed with their last
// user.
func TestOldRecords(t *testing.T) {
	r := placeholderNewRig(t)
	r.old("d", true)
	r.old("d/g", false)
	r.old("f", false)
	for _, name := range []string{"d", "d/g", "f"} {
		if !r.d.Is(r.at(name)) {
			t.Errorf("%s is not known as a stub", name)
		}
	}
	h := r.make("d/", "d/h", "f")
	if !h.Intact() {
		t.Error("what was taken over does not count as intact")
	}
	if got, err := r.d.Sweep(t.Context()); err != nil || len(got) != 1 || got[0] != r.at("d/g") {
		t.Errorf("the sweep removed %q, %v", got, err)
	}
	// The old version locks its file.
	l := r.d.oldLock(key(r.at("f")))
	if ok, err := l.TryRLock(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	r.must(h.Release())
	r.want("f")
	r.must(r.d.Drop(t.Context(), []string{r.at("f")}))
	r.want("f")
	r.must(l.Unlock())
	r.must(r.d.Drop(t.Context(), []string{r.at("f")}))
	r.want()
	r.noRecords()

	r.old("d", true) // with a new one in it
	h = r.make("d/h")
	r.must(h.Leave())
	if got, err := r.d.Sweep(t.Context()); err != nil || len(got) != 2 {
		t.Errorf("the sweep removed %q, %v", got, err)
	}
	r.want()
	r.noRecords()

	r.old("f", false) // a person removed the stub, and another user needs it
	r.must(os.Remove(r.at("f")))
	h = r.make("f")
	r.must(h.Release())
	r.want()
	r.noRecords()
}

// TestHeldOneByOne verifies that each stub in a folder, whose records share one
// file, stays as long as its own users, and that the remaining stubs stay on
// record.
func TestHeldOneByOne(t *testing.T) {
	r := placeholderNewRig(t)
	a, b, c := r.make("a", "b", "d/"), r.make("b", "c"), r.make("d/", "d/g")
	r.must(a.Leave())
	r.must(r.d.Drop(t.Context(), []string{r.at("a"), r.at("b"), r.at("d")}))
	r.want("b", "c", "d", "d/g")
	r.must(b.Release())
	r.want("d", "d/g")
	if !r.d.Is(r.at("d")) || !c.Intact() {
		t.Error("what is still held is off the record")
	}
	r.must(c.Leave())
	r.must(r.d.Drop(t.Context(), []string{r.at("d/g")}))
	r.want("d")
	if got, err := r.open().Sweep(t.Context()); err != nil || len(got) != 1 || got[0] != r.at("d") {
		t.Errorf("the sweep removed %q, %v", got, err)
	}
	r.want()
	r.noRecords()
}

// TestListStaysShort verifies that a list does not grow without bound if its
// placeholders are created again and again while one of them is held, and that an
// incomplete line damages neither the lines before it nor those after it.
func TestListStaysShort(t *testing.T) {
	r := placeholderNewRig(t)
	keep := r.make("keep")
	name := filepath.Join(r.state, key(r.root)+listSuffix)
	again := r.make("x")
	for range 400 {
		r.must(os.Remove(r.at("x")))
		next := r.make("x")
		defer next.Release()
	}
	fi, err := os.Stat(name)
	r.must(err)
	if fi.Size() > 64<<10 {
		t.Errorf("the list of two stubs has %d bytes", fi.Size())
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	r.must(err)
	_, err = f.WriteString(`{"path":"` + r.at("y"))
	r.must(err)
	r.must(f.Close())
	last := r.make("z")
	for _, n := range []string{"keep", "x", "z"} {
		if !r.d.Is(r.at(n)) {
			t.Errorf("%s is off the record", n)
		}
	}
	for _, h := range []*Held{keep, again, last} {
		r.must(h.Release())
	}
	r.want("x")
}
