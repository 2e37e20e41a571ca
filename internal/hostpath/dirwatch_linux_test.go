//go:build linux

package hostpath

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// dirwatchPlace returns a folder with "sub" and "sub/file" in it.
func dirwatchPlace(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "sub"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "sub", "file"), nil, 0o644))
	return dir
}

func open(t *testing.T) *DirWatch {
	t.Helper()
	w, err := NewDirWatch()
	must(t, err)
	t.Cleanup(w.Close)
	return w
}

// settled returns a watch on which set was called, after it has learned where
// its folders lie. Another process may mount a file system meanwhile, which
// makes the location unknown; so settled tries again.
func settled(t *testing.T, set func(w *DirWatch)) *DirWatch {
	t.Helper()
	for range 100 {
		w := open(t)
		if set(w); w.Now() == Quiet {
			return w
		}
	}
	t.Fatal("there is no moment without a mount")
	return nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestFolderTellsWhatHappens(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(dir string) error
		want dirwatchState
	}{
		"nothing":              {func(string) error { return nil }, Quiet},
		"a file is read":       {func(d string) error { _, err := os.ReadFile(d + "/sub/file"); return err }, Quiet},
		"a file is written to": {func(d string) error { return os.WriteFile(d+"/sub/file", []byte("x"), 0o644) }, Quiet},
		"a file's mode":        {func(d string) error { return os.Chmod(d+"/sub/file", 0o600) }, Quiet},
		"a file is made":       {func(d string) error { return os.WriteFile(d+"/sub/.env", nil, 0o644) }, dirwatchStirs},
		"a folder is made":     {func(d string) error { return os.Mkdir(d+"/sub/deep", 0o755) }, dirwatchStirs},
		"a link is made":       {func(d string) error { return os.Symlink("file", d+"/sub/.env") }, dirwatchStirs},
		"a hard link is made":  {func(d string) error { return os.Link(d+"/sub/file", d+"/sub/.env") }, dirwatchStirs},
		"a socket is made":     {func(d string) error { return unix.Mknod(d+"/sub/s", unix.S_IFSOCK|0o600, 0) }, dirwatchStirs},
		"a file is renamed":    {func(d string) error { return os.Rename(d+"/sub/file", d+"/sub/.env") }, dirwatchStirs},
		"a file is removed":    {func(d string) error { return os.Remove(d + "/sub/file") }, dirwatchStirs},
		"a folder's mode":      {func(d string) error { return os.Chmod(d+"/sub", 0o700) }, dirwatchStirs},
		"a folder is renamed":  {func(d string) error { return os.Rename(d+"/sub", d+"/other") }, Lost},
		"a folder is removed":  {func(d string) error { return os.RemoveAll(d + "/sub") }, Lost},
	} {
		t.Run(name, func(t *testing.T) {
			dir := dirwatchPlace(t)
			w := settled(t, func(w *DirWatch) {
				for _, p := range []string{dir, dir + "/sub"} {
					if fresh, err := w.Folder(p); err != nil || !fresh {
						t.Fatal(fresh, err)
					}
					if fresh, err := w.Folder(p); err != nil || fresh {
						t.Fatal("watched twice", err)
					}
				}
			})
			must(t, c.do(dir))
			if got := w.Now(); got != c.want {
				t.Fatalf("state %d, want %d", got, c.want)
			}
			if got := w.Now(); c.want != Lost && got != Quiet {
				t.Fatalf("told twice: %d", got)
			}
		})
	}
}

func TestPathTellsOfItsNamesAlone(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(dir string) error
		want dirwatchState
	}{
		"something else is made":       {func(d string) error { return os.WriteFile(d+"/else", nil, 0o644) }, Quiet},
		"what is missing is made":      {func(d string) error { return os.Mkdir(d+"/sub/no", 0o755) }, dirwatchStirs},
		"a folder above is renamed":    {func(d string) error { return os.Rename(d+"/sub", d+"/x") }, Lost},
		"something else is renamed":    {func(d string) error { return os.Rename(d+"/sub/file", d+"/sub/file2") }, Quiet},
		"something takes the name":     {func(d string) error { return os.Rename(d+"/sub/file", d+"/sub/no") }, dirwatchStirs},
		"the folder above is replaced": {func(d string) error { must(t, os.RemoveAll(d+"/sub")); return os.Symlink("/", d+"/sub") }, Lost},
	} {
		t.Run(name, func(t *testing.T) {
			dir := dirwatchPlace(t)
			w := settled(t, func(w *DirWatch) {
				_, err := w.Path(dir + "/sub/no/where")
				must(t, err)
			})
			must(t, c.do(dir))
			if got := w.Now(); got != c.want {
				t.Fatalf("state %d, want %d", got, c.want)
			}
		})
	}
}

func TestRefusesWhatCannotBeReliedOn(t *testing.T) {
	w := open(t)
	if _, err := w.Folder("/proc/self"); err == nil {
		t.Error("watches /proc, through a link")
	}
	if _, err := w.Folder("/proc/sys"); !errors.Is(err, ErrCannot) {
		t.Errorf("watches /proc: %v", err)
	}
	dir := t.TempDir()
	must(t, os.Symlink("/", dir+"/link"))
	if _, err := w.Folder(dir + "/link/etc"); err == nil {
		t.Error("goes through a link")
	}
}

func TestTooMuchIsLost(t *testing.T) {
	dir, w := t.TempDir(), open(t)
	_, err := w.Folder(dir)
	must(t, err)
	for i := range 20000 {
		p := filepath.Join(dir, strconv.Itoa(i))
		must(t, os.WriteFile(p, nil, 0o600))
		must(t, os.Remove(p))
	}
	if got := w.Now(); got != Lost {
		t.Fatalf("state %d after a flood", got)
	}
}
