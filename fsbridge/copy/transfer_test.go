package copy

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A folder is one side of a transfer.
type folder struct {
	*fsbridge.Files
	dir string
}

func newFolder(t testing.TB) folder {
	t.Helper()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	must(t, err)
	t.Cleanup(func() { root.Close() })
	return folder{fsbridge.NewHostFiles(root, "dir"), dir}
}

func (f folder) put(t testing.TB, name, content string, mode fs.FileMode) {
	t.Helper()
	p := filepath.Join(f.dir, name)
	must(t, os.MkdirAll(filepath.Dir(p), 0o755))
	must(t, os.WriteFile(p, []byte(content), 0o600))
	must(t, os.Chmod(p, mode))
}

// tree describes everything in the folder, one line each.
func (f folder) tree(t testing.TB) []string {
	t.Helper()
	out := []string{}
	must(t, filepath.WalkDir(f.dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == f.dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(p, f.dir+"/")
		switch {
		case d.IsDir():
			name += "/"
		case d.Type() == fs.ModeSymlink:
			target, _ := os.Readlink(p)
			name += " -> " + target
		case d.Type().IsRegular():
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			name += fmt.Sprintf(" %v %q", info.Mode(), b)
		}
		out = append(out, name)
		return nil
	}))
	return out
}

// filled is a tree with everything that can be in one.
func filled(t *testing.T) folder {
	f := newFolder(t)
	f.put(t, "top/bin", "\x00\xff\n", 0o755)
	f.put(t, "top/sub/deep/-dash", "x", 0o600)
	f.put(t, "top/sub/we ird\nname", "", 0o644)
	f.put(t, "top/big", strings.Repeat("0123456789abcdef", 40_000), 0o644)
	must(t, os.Mkdir(filepath.Join(f.dir, "top/empty"), 0o755))
	must(t, os.Symlink("sub/deep/-dash", filepath.Join(f.dir, "top/in")))
	must(t, os.Symlink("../bin", filepath.Join(f.dir, "top/sub/up")))
	must(t, os.Symlink("/etc/passwd", filepath.Join(f.dir, "top/abs")))
	must(t, os.Symlink("../../x", filepath.Join(f.dir, "top/sub/out")))
	must(t, syscall.Mkfifo(filepath.Join(f.dir, "top/pipe"), 0o600))
	return f
}

func TestCopy(t *testing.T) {
	big := fmt.Sprintf("%q", strings.Repeat("0123456789abcdef", 40_000))
	content := []string{
		`big -rw-r--r-- ` + big, `bin -rwxr-xr-x "\x00\xff\n"`, `empty/`, `in -> sub/deep/-dash`,
		`sub/`, `sub/deep/`, `sub/deep/-dash -rw------- "x"`, `sub/up -> ../bin`, "sub/we ird\nname -rw-r--r-- \"\"",
	}
	under := func(name string) []string {
		out := []string{name + "/"}
		for _, line := range content {
			out = append(out, name+"/"+line)
		}
		return out
	}
	tests := []struct {
		name, from, dir, as string
		want                []string
	}{
		{"under its name", "top", "", "top", under("top")},
		{"under another name", "top", "", "new", under("new")},
		{"its content", "top", "", "", content},
		{"into a folder that is made", "top", "x", "y", append([]string{"x/"}, under("x/y")...)},
		{"a file under another name", "top/bin", "", "other", []string{`other -rwxr-xr-x "\x00\xff\n"`}},
		{"a file under its name", "top/bin", "", "", []string{`bin -rwxr-xr-x "\x00\xff\n"`}},
		{"what a link leads to", "top/in", "", "l", []string{`l -rw------- "x"`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			from, to := filled(t), newFolder(t)
			var tally Tally
			must(t, Copy(t.Context(), Source{Files: from, Path: tt.from}, Target{Files: to, Dir: tt.dir, Name: tt.as}, &tally))
			if d := cmp.Diff(tt.want, to.tree(t)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

func TestTallyTellsWhatPassedAndWhatDidNot(t *testing.T) {
	from, to := filled(t), newFolder(t)
	var tally Tally
	must(t, Copy(t.Context(), Source{Files: from, Path: "top"}, Target{Files: to, Name: "x"}, &tally))
	if got, want := tally.Count(), (Count{Files: 4, Folders: 4, Links: 2, Bytes: 640_004}); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
	left := []string{}
	for _, l := range tally.Left() {
		left = append(left, l.Path+": "+l.Reason)
	}
	slices.Sort(left)
	want := []string{
		"top/pipe: it is a pipe, a socket or a device",
		"x/abs: it is a link that leads out, to /etc/passwd",
		"x/sub/out: it is a link that leads out, to ../../x",
	}
	if d := cmp.Diff(want, left); d != "" {
		t.Errorf("left out (-want +got):\n%s", d)
	}
}

func TestMergeReplacesFilesAndKeepsOthers(t *testing.T) {
	from, to := newFolder(t), newFolder(t)
	from.put(t, "a/f", "new", 0o644)
	to.put(t, "a/f", "old", 0o640)
	to.put(t, "a/other", "stays", 0o644)
	must(t, Copy(t.Context(), Source{Files: from, Path: "a"}, Target{Files: to, Name: "a"}, &Tally{}))
	want := []string{"a/", `a/f -rw-r----- "new"`, `a/other -rw-r--r-- "stays"`}
	if d := cmp.Diff(want, to.tree(t)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// TestLinksCannotClimbThroughLinks holds that names alone do not decide
// whether a link stays in its tree: s is a link to its own folder, so that
// each "s" costs a ".." nothing.
func TestLinksCannotClimbThroughLinks(t *testing.T) {
	from, to := newFolder(t), newFolder(t)
	must(t, os.WriteFile(filepath.Join(filepath.Dir(to.dir), "secret"), []byte("secret"), 0o600))
	must(t, os.Mkdir(filepath.Join(from.dir, "top"), 0o755))
	must(t, os.Symlink(".", filepath.Join(from.dir, "top/s")))
	must(t, os.Symlink("s/../secret", filepath.Join(from.dir, "top/l")))
	var tally Tally
	must(t, Copy(t.Context(), Source{Files: from, Path: "top"}, Target{Files: to}, &tally))
	if b, err := os.ReadFile(filepath.Join(to.dir, "l")); err == nil {
		t.Errorf("the copied link leads out, to %q", b)
	}
	if left := tally.Left(); len(left) != 1 || left[0].Path != "l" {
		t.Errorf("left out %+v", left)
	}
}

// TestLinksCannotClimbThroughEarlierLinks does the same in two steps: the
// first copy leaves a link where the second has a folder.
func TestLinksCannotClimbThroughEarlierLinks(t *testing.T) {
	to := newFolder(t)
	must(t, os.WriteFile(filepath.Join(filepath.Dir(to.dir), "secret"), []byte("secret"), 0o600))
	first, second := newFolder(t), newFolder(t)
	must(t, os.Symlink(".", filepath.Join(first.dir, "s")))
	second.put(t, "s/f", "", 0o644)
	must(t, os.Symlink("../secret", filepath.Join(second.dir, "s/l")))
	copyAll := func(from folder) error {
		return Copy(t.Context(), Source{Files: from}, Target{Files: to}, &Tally{})
	}
	must(t, copyAll(first))
	if err := copyAll(second); sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
		t.Errorf("the second copy: %v", err)
	}
	if b, err := os.ReadFile(filepath.Join(to.dir, "l")); err == nil {
		t.Errorf("the copied link leads out, to %q", b)
	}
}
