package hostscan

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
)

// A placeholderRig is a folder of records and a folder for stubs.
type placeholderRig struct {
	t           *testing.T
	d           *Placeholders
	state, root string
}

func placeholderNewRig(t *testing.T) placeholderRig {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := placeholderRig{t: t, state: root + "/state/stubs", root: root + "/w"}
	r.must(os.Mkdir(r.root, 0o755))
	r.d = r.open()
	return r
}

func (r placeholderRig) open() *Placeholders {
	r.t.Helper()
	d, err := OpenPlaceholders(r.state)
	r.must(err)
	return d
}

func (r placeholderRig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r placeholderRig) at(rel string) string { return filepath.Join(r.root, rel) }

// placeholders returns stubs for names; a trailing slash means a folder.
func (r placeholderRig) placeholders(names ...string) []plan.Placeholder {
	var out []plan.Placeholder
	for _, n := range names {
		name, dir := strings.CutSuffix(n, "/")
		out = append(out, plan.Placeholder{Path: r.at(name), Dir: dir})
	}
	return out
}

func (r placeholderRig) make(names ...string) *Held {
	r.t.Helper()
	h, err := r.d.Make(context.Background(), r.placeholders(names...))
	r.must(err)
	return h
}

// want verifies the names below the root and, if none of them is a stub, that
// no record is left.
func (r placeholderRig) want(names ...string) {
	r.t.Helper()
	var got []string
	r.must(filepath.WalkDir(r.root, func(p string, e fs.DirEntry, err error) error {
		if p != r.root {
			got = append(got, strings.TrimPrefix(p, r.root+"/"))
		}
		return err
	}))
	if !slices.Equal(got, names) {
		r.t.Errorf("there is %q, want %q", got, names)
	}
}

func (r placeholderRig) noRecords() {
	r.t.Helper()
	entries, err := os.ReadDir(r.state)
	r.must(err)
	for _, e := range entries {
		if e.Name() != "lock" && e.Name() != heldName {
			r.t.Errorf("the record %s is left", e.Name())
		}
	}
}

func TestMakeAndRelease(t *testing.T) {
	r := placeholderNewRig(t)
	names := []string{"f", "d/", "d/in/", "d/in/f", "settings.json", "commondir"}
	first := r.make(names...)
	r.want("commondir", "d", "d/in", "d/in/f", "f", "settings.json")
	for name, want := range map[string]string{"f": "", "d/in/f": "", "settings.json": "{}\n", "commondir": ".\n"} {
		data, err := os.ReadFile(r.at(name))
		fi, _ := os.Lstat(r.at(name))
		if err != nil || string(data) != want || fi.Mode() != fileMode {
			t.Errorf("%s: %q %v %v", name, data, fi.Mode(), err)
		}
		if fi.Size() > maxSize {
			t.Errorf("%s is longer than MaxSize", name)
		}
		if !r.d.Is(r.at(name)) || !r.open().Is(r.at(name)) {
			t.Errorf("%s is not known as a stub", name)
		}
	}
	if r.d.Is(r.root) || r.d.Is(r.at("none")) {
		t.Error("something is taken for a stub")
	}
	second := r.make("d/", "f")
	if !first.Intact() || !second.Intact() {
		t.Error("stubs do not count as intact")
	}
	for range 2 {
		r.must(first.Release())
	}
	r.want("d", "f")
	if got, err := r.d.Sweep(context.Background()); err != nil || len(got) != 0 {
		t.Errorf("a sweep removes what is held: %q, %v", got, err)
	}
	r.must(second.Release())
	r.want()
	r.noRecords()
	r.must(r.make().Release())
}

func TestWhatAPersonMadeStays(t *testing.T) {
	tests := []struct {
		name        string
		placeholder string
		do          func(r placeholderRig) error
		left        []string
	}{
		{"file written to", "x", func(r placeholderRig) error {
			r.must(os.Chmod(r.at("x"), 0o644))
			r.must(os.WriteFile(r.at("x"), []byte("mine"), 0o644))
			return os.Chmod(r.at("x"), fileMode)
		}, []string{"x"}},
		{"file of another mode", "x", func(r placeholderRig) error { return os.Chmod(r.at("x"), 0o600) }, []string{"x"}},
		{"file with another name", "x", func(r placeholderRig) error { return os.Link(r.at("x"), r.at("y")) }, []string{"x", "y"}},
		{"file touched", "x", func(r placeholderRig) error {
			fi, err := os.Lstat(r.at("x"))
			r.must(err)
			return os.Chtimes(r.at("x"), fi.ModTime(), fi.ModTime().Add(1))
		}, []string{"x"}},
		{"file replaced", "x", func(r placeholderRig) error {
			r.must(os.WriteFile(r.at("y"), nil, fileMode))
			return os.Rename(r.at("y"), r.at("x"))
		}, []string{"x"}},
		{"file replaced by a link", "x", func(r placeholderRig) error {
			r.must(os.Remove(r.at("x")))
			return os.Symlink("/etc/passwd", r.at("x"))
		}, []string{"x"}},
		{"file replaced by a folder", "x", func(r placeholderRig) error {
			r.must(os.Remove(r.at("x")))
			return os.Mkdir(r.at("x"), dirMode)
		}, []string{"x"}},
		{"folder with something in it", "x/", func(r placeholderRig) error { return os.WriteFile(r.at("x/y"), nil, 0o600) }, []string{"x", "x/y"}},
		{"folder replaced", "x/", func(r placeholderRig) error {
			r.must(os.Remove(r.at("x")))
			return os.Mkdir(r.at("x"), dirMode)
		}, []string{"x"}},
		{"folder of another mode", "x/", func(r placeholderRig) error { return os.Chmod(r.at("x"), 0o700) }, []string{"x"}},
		{"removed", "x", func(r placeholderRig) error { return os.Remove(r.at("x")) }, nil},
		{"moved away", "x/", func(r placeholderRig) error { return os.Rename(r.at("x"), r.at("y")) }, []string{"y"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := placeholderNewRig(t)
			h := r.make(tt.placeholder)
			r.must(tt.do(r))
			if h.Intact() && tt.name != "folder with something in it" {
				t.Error("it counts as intact")
			}
			r.must(h.Release())
			r.want(tt.left...)
			r.noRecords()
		})
	}
}

func TestMakeRefuses(t *testing.T) {
	r := placeholderNewRig(t)
	r.must(os.WriteFile(r.at("there"), []byte("mine"), 0o600))
	r.must(os.Mkdir(r.at("real"), 0o755))
	r.must(os.Symlink("real", r.at("link")))
	r.must(os.Symlink("nowhere", r.at("dangling")))
	tests := []struct {
		name        string
		placeholder plan.Placeholder
		code        sandbox.Code
	}{
		{"something is there", plan.Placeholder{Path: r.at("there")}, sandbox.CodeBusy},
		{"a dangling link is there", plan.Placeholder{Path: r.at("dangling")}, sandbox.CodeBusy},
		{"parent is a link", plan.Placeholder{Path: r.at("link/x")}, sandbox.CodeUnavailable},
		{"parent is missing", plan.Placeholder{Path: r.at("none/x")}, sandbox.CodeUnavailable},
		{"parent is a file", plan.Placeholder{Path: r.at("there/x")}, sandbox.CodeUnavailable},
		{"relative", plan.Placeholder{Path: "x"}, sandbox.CodeValidation},
		{"dots", plan.Placeholder{Path: r.at("real") + "/../x"}, sandbox.CodeValidation},
		{"root", plan.Placeholder{Path: "/"}, sandbox.CodeValidation},
		{"NUL", plan.Placeholder{Path: r.at("x\x00y")}, sandbox.CodeValidation},
		{"long", plan.Placeholder{Path: r.at(strings.Repeat("x", 300))}, sandbox.CodeUnavailable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, err := r.d.Make(context.Background(), append(r.placeholders("before", "real/before/"), tt.placeholder))
			if sandbox.CodeOf(err) != tt.code || h != nil {
				t.Errorf("%v, want %s", err, tt.code)
			}
			r.want("dangling", "link", "real", "there")
			r.noRecords()
		})
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := r.d.Make(ctx, r.placeholders("x")); sandbox.CodeOf(err) != sandbox.CodeUnavailable || !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of ctx: %v", err)
	}
}

// TestSweepBelievesNothing verifies that a sweep removes and renames nothing
// because of a forged record.
func TestSweepBelievesNothing(t *testing.T) {
	r := placeholderNewRig(t)
	r.must(os.WriteFile(r.at("mine"), nil, fileMode))
	path := r.at("mine")
	for i, text := range []string{
		"", "{", "{}", `{"path":"/etc"}`, `{"path":"` + path + `","temp":".sandbox-stub-x","ino":1}{"path`, `{"path":"` + path + `","temp":"mine"}`, `{"path":"` + path + `","temp":".sandbox-stub-x/../mine"}`,
		`{"path":"` + r.root + `/../w/mine","temp":".sandbox-stub-x"}`,
	} {
		for _, name := range []string{key(path) + oldSuffix, fmt.Sprint(i) + oldSuffix, key(r.root) + listSuffix, fmt.Sprint(i) + listSuffix, key(r.root) + newSuffix} {
			r.must(os.WriteFile(filepath.Join(r.state, name), []byte(text), 0o600))
			if got, _ := r.d.Sweep(context.Background()); len(got) != 0 {
				t.Errorf("%q: removed %q", text, got)
			}
			r.want("mine")
			r.noRecords()
		}
	}
}

func TestManyAtOnce(t *testing.T) {
	r := placeholderNewRig(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			d := r.open()
			for i := range 20 {
				h, err := d.Make(context.Background(), r.placeholders("a/", "a/b", "c"))
				if err != nil {
					t.Errorf("round %d: %v", i, err)
					return
				}
				if !h.Intact() {
					t.Error("a stub that is held was removed")
				}
				if _, err := d.Sweep(context.Background()); err != nil {
					t.Error(err)
				}
				if !h.Intact() {
					t.Error("a sweep removed a stub that is held")
				}
				if err := h.Release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	r.want()
	r.noRecords()
}

// BenchmarkIs measures Is for a path without a stub.
func BenchmarkIs(b *testing.B) {
	d, err := OpenPlaceholders(b.TempDir() + "/stubs")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if d.Is("/usr/bin/env") {
			b.Fatal("a program is taken for a stub")
		}
	}
}

// BenchmarkMakeAndRelease measures the cost of one sandbox's stubs.
func BenchmarkMakeAndRelease(b *testing.B) {
	root, err := filepath.EvalSymlinks(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	d, err := OpenPlaceholders(root + "/stubs")
	if err != nil {
		b.Fatal(err)
	}
	var placeholders []plan.Placeholder
	for i := range 8 {
		placeholders = append(placeholders, plan.Placeholder{Path: fmt.Sprintf("%s/s%d", root, i), Dir: i%2 == 0})
	}
	for b.Loop() {
		h, err := d.Make(context.Background(), placeholders)
		if err != nil {
			b.Fatal(err)
		}
		if err := h.Release(); err != nil {
			b.Fatal(err)
		}
	}
}

// TestLeave verifies that stubs outlive the process that leaves them until they
// are dropped, and belong to the owner of their folder if Owned is set.
func TestLeave(t *testing.T) {
	r := placeholderNewRig(t)
	d, err := OpenPlaceholders(filepath.Join(t.TempDir(), "stubs"))
	r.must(err)
	d.Owned = true
	dir, err := filepath.EvalSymlinks(t.TempDir())
	r.must(err)
	if os.Geteuid() == 0 {
		r.must(os.Chown(dir, 1000, 1000))
	}
	want := []plan.Placeholder{{Path: dir + "/folder", Dir: true}, {Path: dir + "/file"}}
	held, err := d.Make(t.Context(), want)
	r.must(err)
	var paths []string
	for _, s := range want {
		paths = append(paths, s.Path)
	}
	r.must(d.Drop(t.Context(), paths))
	if !d.Is(paths[0]) || !d.Is(paths[1]) {
		t.Error("stubs that are held were dropped")
	}
	r.must(held.Leave())
	for _, p := range paths {
		st, err := os.Lstat(p)
		r.must(err)
		if owner := st.Sys().(*syscall.Stat_t).Uid; !d.Is(p) || os.Geteuid() == 0 && owner != 1000 {
			t.Errorf("%s: a stub %v, of user %d", p, d.Is(p), owner)
		}
	}
	r.must(os.WriteFile(dir+"/folder/x", nil, 0o600))
	r.must(d.Drop(t.Context(), paths))
	if _, err := os.Lstat(dir + "/folder/x"); err != nil {
		t.Error("what was put into a stub is gone")
	}
	if _, err := os.Lstat(dir + "/file"); err == nil {
		t.Error("a stub that was dropped is there")
	}
}
