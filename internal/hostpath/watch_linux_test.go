package hostpath

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// keeps marks, adds the paths and the files, and returns the mark once all of
// them are watched.
func keeps(t *testing.T, w *Watch, paths, files []string) (mark uint64, at Places) {
	t.Helper()
	at = PlacesOf(paths, files)
	for range 20_000 { // mounts of other processes make it begin again
		mark, ok := w.Mark()
		if all, _ := w.Add(mark, paths, files); ok && all && w.Unchanged(mark, at) {
			return mark, at
		}
	}
	t.Fatal("nothing is ever kept")
	return 0, nil
}

// TestWatchSeesChanges makes one change each and asks whether what was read before
// may still be used.
func TestWatchSeesChanges(t *testing.T) {
	inPlace := func(name, text string) error {
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.WriteString(text)
		return err
	}
	for name, c := range map[string]struct {
		do   func(dir string) error
		keep bool
	}{
		"nothing":                      {func(string) error { return nil }, true},
		"another file is written":      {func(d string) error { return os.WriteFile(d+"/sub/other", []byte("x"), 0o600) }, true},
		"a path is written to":         {func(d string) error { return inPlace(d+"/sub/name", "x") }, true},
		"a file is read":               {func(d string) error { _, err := os.ReadFile(d + "/sub/file"); return err }, true},
		"a file is written to":         {func(d string) error { return inPlace(d+"/sub/file", "other") }, false},
		"a file is cut":                {func(d string) error { return os.Truncate(d+"/sub/file", 0) }, false},
		"a file's mode":                {func(d string) error { return os.Chmod(d+"/sub/file", 0o666) }, false},
		"a file is written by a link":  {func(d string) error { return inPlace(d+"/hard", "other") }, false},
		"a file is removed":            {func(d string) error { return os.Remove(d + "/sub/file") }, false},
		"a file is replaced":           {func(d string) error { return os.Rename(d+"/sub/other", d+"/sub/file") }, false},
		"a file becomes a link":        {func(d string) error { os.Remove(d + "/sub/file"); return os.Symlink("/etc/passwd", d+"/sub/file") }, false},
		"what is missing is made":      {func(d string) error { return os.WriteFile(d+"/sub/none", nil, 0o600) }, false},
		"a path is replaced":           {func(d string) error { return os.Rename(d+"/sub/other", d+"/sub/name") }, false},
		"the folder becomes a link":    {func(d string) error { return swap(d+"/sub", d+"/away") }, false},
		"the folder is exchanged":      {func(d string) error { return exchange(d+"/sub", d+"/away") }, false},
		"the folder's mode":            {func(d string) error { return os.Chmod(d+"/sub", 0o777) }, false},
		"a folder above loses its bit": {func(d string) error { return os.Chmod(d, 0o777) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "d")
			for _, d := range []string{dir, dir + "/sub", dir + "/away"} {
				must(t, os.Mkdir(d, 0o755))
			}
			for _, f := range []string{"sub/file", "sub/name", "sub/other", "away/file"} {
				must(t, os.WriteFile(filepath.Join(dir, f), []byte("text"), 0o600))
			}
			must(t, os.Link(dir+"/sub/file", dir+"/hard"))
			var w Watch
			defer w.Close()
			mark, at := keeps(t, &w, []string{dir + "/sub/name", dir + "/sub/none"}, []string{dir + "/sub/file"})
			must(t, c.do(dir))
			if got := w.Unchanged(mark, at); got != c.keep {
				t.Errorf("unchanged is %v", got)
			}
			if !c.keep && w.Unchanged(mark, at) {
				t.Error("the change is forgotten when it is asked about again")
			}
		})
	}
}

// swap moves a folder away and puts a link to another one in its place.
func swap(dir, to string) error {
	if err := os.Rename(dir, dir+".old"); err != nil {
		return err
	}
	return os.Symlink(to, dir)
}

func exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}

// TestWatchFollowsTheFile replaces a file while the old one stays open, and then
// changes the new one.
func TestWatchFollowsTheFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	must(t, os.WriteFile(path, []byte("old"), 0o600))
	old, err := os.Open(path)
	must(t, err)
	defer old.Close()
	var w Watch
	defer w.Close()
	keeps(t, &w, nil, []string{path})
	must(t, os.WriteFile(path+".new", []byte("new"), 0o600))
	must(t, os.Rename(path+".new", path))
	mark, at := keeps(t, &w, nil, []string{path})
	must(t, os.WriteFile(path, []byte("newer"), 0o600))
	if w.Unchanged(mark, at) {
		t.Error("the content of the file that took the place does not count")
	}
}

// TestWatchIsOneOfMany holds that a change of one place leaves what depends on
// others.
func TestWatchIsOneOfMany(t *testing.T) {
	a, b := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	var w Watch
	defer w.Close()
	keeps(t, &w, []string{a}, nil)
	markB, ofB := keeps(t, &w, []string{b}, nil)
	markA, ofA := keeps(t, &w, []string{a}, nil)
	must(t, os.Mkdir(a, 0o700))
	if w.Unchanged(markA, ofA) || !w.Unchanged(markB, ofB) {
		t.Error("a change at one place is one at the other")
	}
}

// TestWatchRefuses holds that nothing is kept in a program that asks a few times,
// after Close, and of what cannot be watched.
func TestWatchRefuses(t *testing.T) {
	var w Watch
	for range firstMarks {
		if _, ok := w.Mark(); ok {
			t.Fatal("watches are made for a program that asks once")
		}
	}
	mark, _ := keeps(t, &w, []string{t.TempDir()}, nil)
	if _, err := w.Add(mark, []string{"/proc/self/status"}, nil); err == nil {
		t.Error("/proc is watched")
	}
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink("/etc", link))
	if _, err := w.Add(mark, []string{link + "/passwd"}, nil); err == nil {
		t.Error("a path through a link is watched")
	}
	w.Close()
	if _, ok := w.Mark(); ok || w.Unchanged(mark, Places{}) {
		t.Error("it goes on after Close")
	}
}

// TestWatchKeepsNothingFromBeforeItWatched has one caller read a path before another
// one has it watched, with a change in between that no event tells of.
func TestWatchKeepsNothingFromBeforeItWatched(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "made")
	var w Watch
	defer w.Close()
	keeps(t, &w, []string{t.TempDir()}, nil)
	mark, ok := w.Mark()
	if !ok {
		t.Fatal("there is no mark")
	}
	must(t, os.Mkdir(path, 0o700)) // after the first caller has found nothing there
	keeps(t, &w, []string{path}, nil)
	if all, err := w.Add(mark, []string{path}, nil); all && w.Unchanged(mark, PlacesOf([]string{path})) {
		t.Errorf("what was read before the path was watched is kept: %v", err)
	}
}
