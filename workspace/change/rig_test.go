package change_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/workspace/change"
)

// A rig is a host's folder, what it was when a workspace was made of it (base),
// and what the workspace is now (current), all of them plain folders.
type rig struct {
	testing.TB
	host, base, current, journal string
}

// newRig makes the three folders with the same files: by path, with a slash at
// the end for a folder, "-> " before the target of a link, and "+x " before the
// content of a program.
func newRig(t testing.TB, files map[string]string) *rig {
	t.Helper()
	dir := t.TempDir()
	r := &rig{TB: t, host: dir + "/host", base: dir + "/base", current: dir + "/current", journal: dir + "/journal"}
	for _, root := range []string{r.host, r.base, r.current} {
		must(t, os.Mkdir(root, 0o755))
		fill(t, root, files)
	}
	return r
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fill makes files below root.
func fill(t testing.TB, root string, files map[string]string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		content, at := files[name], filepath.Join(root, name)
		must(t, os.MkdirAll(filepath.Dir(at), 0o755))
		if strings.HasSuffix(name, "/") {
			must(t, os.MkdirAll(at, 0o755))
			continue
		}
		put(t, at, content)
	}
}

// put replaces what is at a path.
func put(t testing.TB, at, content string) {
	t.Helper()
	must(t, os.RemoveAll(at))
	if to, ok := strings.CutPrefix(content, "-> "); ok {
		must(t, os.Symlink(to, at))
		return
	}
	mode := fs.FileMode(0o644)
	if rest, ok := strings.CutPrefix(content, "+x "); ok {
		content, mode = rest, 0o755
	}
	must(t, os.WriteFile(at, []byte(content), 0o600))
	must(t, os.Chmod(at, mode))
}

// snapshot describes all below root.
func snapshot(t testing.TB, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	must(t, filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil || rel == "." {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		out[rel] = info.Mode().String()
		switch {
		case info.Mode().Type() == fs.ModeSymlink:
			to, err := os.Readlink(p)
			out[rel] = "-> " + to
			return err
		case info.Mode().IsRegular():
			data, err := os.ReadFile(p)
			out[rel] += " " + string(data)
			return err
		}
		return nil
	}))
	return out
}

// differ fails the test unless two snapshots are the same.
func differ(t testing.TB, what string, got, want map[string]string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if w, ok := want[name]; !ok {
			t.Errorf("%s: %q is there: %.80q", what, name, got[name])
		} else if w != got[name] {
			t.Errorf("%s: %q is %.80q, want %.80q", what, name, got[name], w)
		}
	}
	for name := range want {
		if _, ok := got[name]; !ok {
			t.Errorf("%s: %q is missing", what, name)
		}
	}
}

func (r *rig) tree(folder string) *change.Tree {
	r.Helper()
	t, err := change.Folder(folder)
	must(r, err)
	r.Cleanup(func() { t.Close() })
	return t
}

// compare lists what the current tree has changed.
func (r *rig) compare() []change.Entry {
	r.Helper()
	entries, err := change.Compare(context.Background(), r.tree(r.base), r.tree(r.current), change.Options{})
	must(r, err)
	return entries
}

func (r *rig) plan(o change.PlanOptions) (*change.Plan, error) {
	r.Helper()
	return change.NewPlan(context.Background(), r.host, r.tree(r.base), r.tree(r.current), o)
}

// mustPlan is plan where no error is expected.
func (r *rig) mustPlan(o change.PlanOptions) *change.Plan {
	r.Helper()
	p, err := r.plan(o)
	must(r, err)
	return p
}

// apply applies everything.
func (r *rig) apply(o change.PlanOptions) error {
	r.Helper()
	p, err := r.plan(o)
	if err != nil {
		return err
	}
	_, err = p.Apply(context.Background(), r.journal)
	return err
}

// everything consents to all risks.
func everything() change.PlanOptions {
	return change.PlanOptions{AllowRisks: []change.Risk{
		change.RiskGit, change.RiskEditor, change.RiskAgent, change.RiskShell, change.RiskPackages, change.RiskDesktop, change.RiskCI, change.RiskSSH,
		change.RiskTools, change.RiskLink, change.RiskSetID, change.RiskName,
	}}
}

func refused(t testing.TB, err error, code sandbox.Code) {
	t.Helper()
	if sandbox.CodeOf(err) != code {
		t.Errorf("error %v, want one of code %s", err, code)
	}
}

// brief writes entries as "kind path", one in a line.
func brief(entries []change.Entry) string {
	var b strings.Builder
	for _, e := range entries {
		fmt.Fprintf(&b, "%s %s", e.Kind, change.Quote(e.Path))
		if e.From != "" {
			fmt.Fprintf(&b, " < %s %d%%", change.Quote(e.From), e.Similarity)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// render returns what Render writes.
func (r *rig) render(o change.RenderOptions) string {
	r.Helper()
	o.Base, o.Current = r.tree(r.base), r.tree(r.current)
	var b bytes.Buffer
	must(r, change.Render(context.Background(), &b, r.compare(), o))
	return b.String()
}

// samples are names and contents of random trees.
var samples = struct{ names, contents []string }{
	[]string{"a", "b.txt", "dir", "sub", "with space", "umlaut-é", "latin-\xff", `quo"te`, "tab\there", "back\\slash", "new\nline", "-dash", "ünï", "z"},
	[]string{
		"", "one\n", "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\neleven\n", "one\ntwo\nthree\nfour\nFIVE\nsix\nseven\neight\nnine\nten\neleven\ntwelve\n",
		"no newline", "crlf\r\nlines\r\n", "bin\x00ary", "latin \xe9\n", "--- a/x\n+++ b/x\n@@ -1 +1 @@\n", "-- \n++ \n", "\n\n\n", "+x #!/bin/sh\nexit 0\n", "-> a", "-> dir/b.txt",
	},
}

// mutate changes the tree below root at random. Without odd names it makes none
// that git cannot apply.
func mutate(t testing.TB, rng *rand.Rand, root string, n int) {
	t.Helper()
	pick := func() string {
		var parts []string
		for range 1 + rng.Intn(3) {
			parts = append(parts, samples.names[rng.Intn(len(samples.names))])
		}
		return filepath.Join(root, filepath.Join(parts...))
	}
	for range n {
		at := pick()
		switch rng.Intn(10) {
		case 0:
			must(t, removeAll(at))
		case 1:
			if info, err := os.Lstat(at); err == nil && info.Mode().IsRegular() {
				must(t, os.Chmod(at, []fs.FileMode{0o644, 0o755}[rng.Intn(2)]))
			}
		case 2:
			to := pick()
			if os.MkdirAll(filepath.Dir(to), 0o755) == nil && !strings.HasPrefix(to+"/", at+"/") && !strings.HasPrefix(at+"/", to+"/") {
				must(t, removeAll(to))
				if err := os.Rename(at, to); err == nil || os.IsNotExist(err) {
					continue
				}
			}
		case 3:
			_ = os.MkdirAll(at, 0o755)
		default:
			if dir := filepath.Dir(at); os.MkdirAll(dir, 0o755) != nil {
				for d := dir; d != root; d = filepath.Dir(d) { // a file is in the way
					if info, err := os.Lstat(d); err == nil && !info.IsDir() {
						must(t, removeAll(d))
					}
				}
				must(t, os.MkdirAll(dir, 0o755))
			}
			if inside(root, filepath.Dir(at)) {
				put(t, at, samples.contents[rng.Intn(len(samples.contents))])
			}
		}
	}
}

// inside reports whether no link leads on the way to a folder.
func inside(root, dir string) bool {
	for d := dir; d != root; d = filepath.Dir(d) {
		if info, err := os.Lstat(d); err != nil || !info.IsDir() {
			return false
		}
	}
	return true
}

// removeAll removes a path unless a link or file leads to it.
func removeAll(at string) error {
	err := os.RemoveAll(at)
	if err != nil && strings.Contains(err.Error(), "not a directory") {
		return nil
	}
	return err
}

// copyTree copies a tree with modes and links.
func copyTree(t testing.TB, from, to string) {
	t.Helper()
	must(t, os.RemoveAll(to))
	must(t, filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(from, p)
		at := filepath.Join(to, rel)
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			return os.Mkdir(at, info.Mode().Perm())
		case info.Mode().Type() == fs.ModeSymlink:
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			return os.Symlink(target, at)
		}
		data, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		if err := os.WriteFile(at, data, 0o600); err != nil {
			return err
		}
		return os.Chmod(at, info.Mode().Perm())
	}))
}

// deadline ends a test's context.
func deadline(t testing.TB) context.Context {
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(done)
	return ctx
}
