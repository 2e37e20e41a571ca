package tools

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
)

// A faulty is a folder whose operations can fail.
type faulty struct {
	*fsbridge.Files
	before func(op, path string) error // its error is the operation's; nothing is done then
	after  func(op, path string) error // its error is the operation's, which was done
	ops    []string
}

func (f *faulty) do(op, path string, fn func() error) error {
	f.ops = append(f.ops, op+" "+path)
	if f.before != nil {
		if err := f.before(op, path); err != nil {
			return err
		}
	}
	err := fn()
	if err == nil && f.after != nil {
		err = f.after(op, path)
	}
	return err
}

func (f *faulty) Write(ctx context.Context, path string, r io.Reader, o sandbox.WriteOptions) error {
	return f.do("write", path, func() error { return f.Files.Write(ctx, path, r, o) })
}
func (f *faulty) Remove(ctx context.Context, path string, recursive bool) error {
	return f.do("remove", path, func() error { return f.Files.Remove(ctx, path, recursive) })
}
func (f *faulty) Rename(ctx context.Context, from, to string) error {
	return f.do("rename", from, func() error { return f.Files.Rename(ctx, from, to) })
}
func (f *faulty) Mkdir(ctx context.Context, path string, perm fs.FileMode) error {
	return f.do("mkdir", path, func() error { return f.Files.Mkdir(ctx, path, perm) })
}

// A folder is one with files for changes.
type folder struct {
	*faulty
	t   *testing.T
	dir string
}

func newFolder(t *testing.T, files map[string]string) *folder {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		changeMust(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		changeMust(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
	}
	root, err := os.OpenRoot(dir)
	changeMust(t, err)
	t.Cleanup(func() { root.Close() })
	return &folder{&faulty{Files: fsbridge.NewHostFiles(root, dir)}, t, dir}
}

// tree is what is in the folder: "path mode content".
func (f *folder) tree() string {
	f.t.Helper()
	var out []string
	changeMust(f.t, filepath.WalkDir(f.dir, func(p string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(f.dir, p)
		if err != nil || rel == "." {
			return err
		}
		if d.IsDir() {
			out = append(out, rel+"/")
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		b, err := os.ReadFile(p)
		out = append(out, rel+" "+info.Mode().Perm().String()+" "+string(b))
		return err
	}))
	sort.Strings(out)
	return strings.Join(out, "\n")
}

func changeMust(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func content(s string) *changeContent { return &changeContent{Data: []byte(s)} }

// loaded is the change of a file as it is now.
func (f *folder) loaded(path string, after *changeContent) changeFile {
	f.t.Helper()
	before, err := loadChange(f.t.Context(), f, path, 1<<20)
	changeMust(f.t, err)
	return changeFile{Path: path, Before: before, After: after}
}

// several are changes of every kind.
func (f *folder) several() []changeFile {
	return []changeFile{
		f.loaded("a", content("A")), f.loaded("new/deep/file", content("fresh")), f.loaded("run", &changeContent{Data: []byte("RUN"), Mode: 0o755}),
		f.loaded("b", content("a")), f.loaded("gone", nil), f.loaded("sub/gone", nil),
	}
}

var changeFiles = map[string]string{"a": "a", "b": "b", "gone": "g", "sub/gone": "sg", "run": "run", "other": "o"}

func TestChangeApply(t *testing.T) {
	f := newFolder(t, changeFiles)
	changeMust(t, applyChange(t.Context(), f, f.several()))
	want := "a -rw-r--r-- A\nb -rw-r--r-- a\nnew/\nnew/deep/\nnew/deep/file -rw-r--r-- fresh\nother -rw-r--r-- o\nrun -rwxr-xr-x RUN\nsub/"
	if got := f.tree(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestApplyPutsEverythingBack has each operation fail once, before it has done
// anything and after it has done all, and holds that the files are as before.
func TestApplyPutsEverythingBack(t *testing.T) {
	steps := func() int {
		f := newFolder(t, changeFiles)
		changeMust(t, applyChange(t.Context(), f, f.several()))
		return len(f.ops)
	}()
	if steps < 9 {
		t.Fatalf("only %d operations", steps)
	}
	broken := errors.New("broken")
	for _, when := range []string{"before", "after", "cancel"} {
		for at := range steps {
			f := newFolder(t, changeFiles)
			changes, before := f.several(), f.tree()
			ctx, cancel := context.WithCancel(t.Context())
			fail := func(string, string) error {
				if len(f.ops) != at+1 {
					return nil
				}
				cancel()
				return broken
			}
			if when == "before" {
				f.before = fail
			} else {
				f.after = fail
			}
			if when == "cancel" {
				f.after = func(op, path string) error { fail(op, path); return nil }
			}
			err := applyChange(ctx, f, changes)
			cancel()
			if when == "cancel" && err == nil {
				continue // this transport went on to the end
			}
			var e *sandbox.Error
			if !errors.As(err, &e) || !strings.Contains(e.Message, "every file is as it was before") || e.Code == sandbox.CodeInternal {
				t.Errorf("%s step %d (%s): %v", when, at, f.ops[at], err)
			}
			if got := f.tree(); got != before {
				t.Errorf("%s step %d (%s): got\n%s\nwant\n%s", when, at, f.ops[at], got, before)
			}
		}
	}
}

// TestApplyTellsWhatCannotBePutBack holds that the error names each file that is
// not as it was, and how it is.
func TestApplyTellsWhatCannotBePutBack(t *testing.T) {
	f := newFolder(t, changeFiles)
	changes := f.several()
	f.before = func(op, path string) error {
		switch {
		case op == "remove" && path == "gone":
			changeMust(t, os.WriteFile(filepath.Join(f.dir, "b"), []byte("somebody else's"), 0o644))
			return errors.New("the disk is gone")
		case path == "a" && len(f.ops) > 6:
			return errors.New("and stays so")
		}
		return nil
	}
	err := applyChange(t.Context(), f, changes)
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Hint == "" || e.Retryable {
		t.Fatalf("%v", err)
	}
	for _, want := range []string{"a is changed, and could not be put back (and stays so)", "b was changed by another program meanwhile"} {
		if !strings.Contains(e.Message, want) {
			t.Errorf("%q is not in %q", want, e.Message)
		}
	}
	if strings.Contains(e.Message, "run is") || strings.Contains(e.Message, "new/deep") {
		t.Errorf("files that are as before are named: %s", e.Message)
	}
	if got, _ := os.ReadFile(filepath.Join(f.dir, "b")); string(got) != "somebody else's" {
		t.Errorf("what somebody else wrote is %q", got)
	}
}

func TestApplyHoldsWhatWasRead(t *testing.T) {
	for name, meanwhile := range map[string]func(dir string) error{
		"changed":              func(dir string) error { return os.WriteFile(filepath.Join(dir, "a"), []byte("x"), 0o644) },
		"much larger":          func(dir string) error { return os.WriteFile(filepath.Join(dir, "a"), make([]byte, 1<<20), 0o644) },
		"gone":                 func(dir string) error { return os.Remove(filepath.Join(dir, "a")) },
		"there all at once":    func(dir string) error { return os.WriteFile(filepath.Join(dir, "fresh"), nil, 0o644) },
		"a link in its place":  func(dir string) error { return relink(dir, "a", "other") },
		"a folder of the name": func(dir string) error { return os.Mkdir(filepath.Join(dir, "fresh"), 0o755) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFolder(t, changeFiles)
			changes := []changeFile{f.loaded("b", content("B")), f.loaded("a", content("A")), f.loaded("fresh", content("F"))}
			changeMust(t, meanwhile(f.dir))
			before := f.tree()
			err := applyChange(t.Context(), f, changes)
			if c := sandbox.CodeOf(err); c != sandbox.CodeBusy && c != sandbox.CodeCapabilityBlocked {
				t.Errorf("%v", err)
			}
			if got := f.tree(); got != before {
				t.Errorf("got\n%s\nwant\n%s", got, before)
			}
		})
	}
}

func relink(dir, name, target string) error {
	return errors.Join(os.Remove(filepath.Join(dir, name)), os.Symlink(target, filepath.Join(dir, name)))
}

func TestLoadRefuses(t *testing.T) {
	f := newFolder(t, changeFiles)
	changeMust(t, os.Symlink("a", filepath.Join(f.dir, "link")))
	for _, path := range []string{"link", "sub"} {
		if _, err := loadChange(t.Context(), f, path, 100); sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := loadChange(t.Context(), f, "sub/gone", 1); sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
		t.Errorf("too large: %v", err)
	}
	if c, err := loadChange(t.Context(), f, "sub/none", 1); c != nil || err != nil {
		t.Errorf("nothing there: %v, %v", c, err)
	}
}
