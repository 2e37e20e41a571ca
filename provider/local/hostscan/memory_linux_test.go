package hostscan

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
	"golang.org/x/sys/unix"
)

// settled makes the scanner trust what it reads at once. Tests then wait for
// the next step of the file system's clock before they change a file.
func (x *tree) settled() {
	x.t.Helper()
	x.s.settle = 0
	x.tick()
}

// tick waits until a change gets a later time than all changes before.
func (x *tree) tick() {
	x.t.Helper()
	probe := func() int64 {
		p := filepath.Join(x.t.TempDir(), "clock")
		x.must(os.WriteFile(p, nil, 0o600))
		var st unix.Stat_t
		x.must(unix.Stat(p, &st))
		return st.Ctim.Nano()
	}
	begin := probe()
	testenv.Until(x.t, "the clock of the file system goes on", func() bool { return probe() > begin })
}

func TestRemembersWhatHasNotChanged(t *testing.T) {
	x := newTree(t, "a/.env", "a/b/c/x", "d/e/f/.env", "g/x")
	x.settled()
	q := x.request("**/.env")
	first := x.scan(q)
	if first.Listed != 8 {
		t.Errorf("read %d folders, want 8", first.Listed)
	}
	again := x.scan(q)
	if again.Listed != 0 || !again.Same(first) || again.Entries != first.Entries {
		t.Errorf("the second time: %+v, want %+v without reading", again, first)
	}
	x.tick()
	x.file("d/e/.env")
	third := x.scan(q)
	x.want("hits", hits(third), "a/.env", "d/e/.env", "d/e/f/.env")
	if third.Listed != 1 || third.Same(first) {
		t.Errorf("read %d folders after one changed, want 1", third.Listed)
	}
	q.Globs = append(q.Globs, Glob{Pattern: "**/x"})
	x.want("hits of other globs", hits(x.scan(q)), "a/.env", "a/b/c/x", "d/e/.env", "d/e/f/.env", "g/x")
}

// TestForgetsTheRecent verifies that the scanner reads a folder again if it was
// read in the same step of the file system's clock as its last change.
func TestForgetsTheRecent(t *testing.T) {
	x := newTree(t, "a/b")
	q := x.request("**/.env")
	for i := range 50 {
		x.scan(q)
		name := fmt.Sprintf("a/d%d/.env", i)
		x.file(name)
		if r := x.scan(q); !slices.Contains(hits(r), x.at(name)) {
			t.Fatalf("%s was not found", name)
		}
	}
}

// TestSeesEveryChange compares a cached scan with a new scanner's after each of
// the changes that users and programs make to a tree.
func TestSeesEveryChange(t *testing.T) {
	x := newTree(t, "a/.env", "a/sub/.env", "a/sub/y", "b/x", "c/deep/er/.env", "plain")
	x.settled()
	q := x.request("**/.env", "ROOT/b/**/y", "**/shut")
	q.Globs = append(q.Globs, Glob{Pattern: "**/still", Rule: "still"})
	steps := []struct {
		name string
		do   func() error
	}{
		{"nothing", func() error { return nil }},
		{"file replaced by rename", func() error { return os.Rename(x.at("plain"), x.at("a/.env")) }},
		{"file removed", func() error { return os.Remove(x.at("a/.env")) }},
		{"folder moved", func() error { return os.Rename(x.at("a/sub"), x.at("b/sub")) }},
		{"folder exchanged", func() error {
			return unix.Renameat2(unix.AT_FDCWD, x.at("b"), unix.AT_FDCWD, x.at("c"), unix.RENAME_EXCHANGE)
		}},
		{"folder replaced by a link", func() error {
			if err := os.Rename(x.at("b"), x.at("b2")); err != nil {
				return err
			}
			return os.Symlink("b2", x.at("b"))
		}},
		{"folder becomes denied", func() error { return os.Rename(x.at("b2"), x.at("shut")) }},
		{"folder is denied no longer", func() error { return os.Rename(x.at("shut"), x.at("b2")) }},
		{"folder becomes closed for writing", func() error { return os.Rename(x.at("b2"), x.at("still")) }},
		{"closed altogether", func() error { return os.Rename(x.at("still"), x.at("shut")) }},
		{"and for writing alone again", func() error { return os.Rename(x.at("shut"), x.at("still")) }},
		{"and not at all", func() error { return os.Rename(x.at("still"), x.at("b2")) }},
		{"file becomes a folder", func() error {
			x.must(os.Remove(x.at("b2/deep/er/.env")))
			return os.Mkdir(x.at("b2/deep/er/.env"), 0o755)
		}},
		{"everything removed", func() error {
			x.must(os.RemoveAll(x.at("b2")))
			return os.RemoveAll(x.at("c"))
		}},
	}
	for _, s := range steps {
		x.tick()
		x.must(s.do())
		got := x.scan(q)
		fresh, err := New(Limits{}).Scan(context.Background(), q)
		x.must(err)
		if !got.Same(fresh) {
			t.Errorf("%s: remembered %+v, there is %+v", s.name, got, fresh)
		}
	}
}

// TestReplacedFile verifies that another file under the same name is another
// hit, because a mask hides only the file that it is mounted on.
func TestReplacedFile(t *testing.T) {
	x := newTree(t, ".env", "new")
	q := x.request("**/.env")
	first := x.scan(q)
	x.must(os.Rename(x.at("new"), x.at(".env")))
	if x.scan(q).Same(first) {
		t.Error("a scan does not tell two files apart")
	}
}

func TestHardLinks(t *testing.T) {
	x := newTree(t, "a/.env", "b/", "vault/key", "vault/sub/key2", "out/", "c/x", "literal")
	for to, from := range map[string]string{
		"b/copy": "a/.env", "b/copy2": "a/.env", "c/key": "vault/key", "c/key2": "vault/sub/key2", "c/lit": "literal",
		"vault/env": "a/.env", "out/env": "a/.env",
	} {
		x.must(os.Link(x.at(from), x.at(to)))
	}
	q := x.request("**/.env")
	q.Roots = []string{x.at("a"), x.at("b"), x.at("c")}
	q.Denied = []plan.Deny{
		{Path: x.at("vault"), Rule: "vault"}, {Path: x.at("literal"), Read: true, Rule: "literal"}, {Path: x.at("none"), Rule: "none"},
	}
	for _, settle := range []time.Duration{settleTime, 0} {
		x.s.settle = settle
		for range 3 {
			r := x.scan(q)
			var got []string
			for _, a := range r.Aliases {
				got = append(got, fmt.Sprintf("%v %v %s", x.rel([]string{a.Path, a.Of}), a.Read, a.Rule))
			}
			want := []string{
				"[b/copy a/.env] true **/.env", "[b/copy2 a/.env] true **/.env", "[c/key vault/key] false vault",
				"[c/key2 vault/sub/key2] false vault", "[c/lit literal] true literal", "[vault/env a/.env] true **/.env",
			}
			if !slices.Equal(got, want) || r.Unseen != 1 {
				t.Fatalf("aliases %q and %d unseen, want %q and one", got, r.Unseen, want)
			}
			if !slices.Contains(r.Denies(), plan.Deny{Path: x.at("c/lit"), Read: true, Rule: "literal"}) {
				t.Fatalf("denies %+v", r.Denies())
			}
		}
	}
	x.tick()
	x.must(os.Link(x.at("a/.env"), x.at("c/new")))
	x.must(os.Remove(x.at("b/copy")))
	if r := x.scan(q); r.Aliases[1].Path != x.at("c/key") || r.Aliases[4].Path != x.at("c/new") {
		t.Errorf("after a change: %+v", r.Aliases)
	}
	q.Roots = append(q.Roots, x.at("out/env")) // the sandbox shows a single file
	if r := x.scan(q); !slices.ContainsFunc(r.Aliases, func(a Alias) bool { return a.Path == x.at("out/env") && a.Read }) {
		t.Errorf("a root that is another name of a denied file: %+v", r.Aliases)
	}
}

// TestMatchingNamesOfOneFile verifies that two matching names of one file are
// not aliases and do not hide a third name.
func TestMatchingNamesOfOneFile(t *testing.T) {
	x := newTree(t, "a/.env", "b/", "c/")
	x.must(os.Link(x.at("a/.env"), x.at("b/.env")))
	q := x.request("**/.env")
	q.Roots = append(q.Roots, x.at("a"), x.at("a/.env"))
	if r := x.scan(q); len(r.Hits) != 2 || len(r.Aliases) != 0 || r.Unseen != 0 {
		t.Errorf("%+v", r)
	}
	x.must(os.Link(x.at("a/.env"), x.at("c/third")))
	if r := x.scan(q); len(r.Aliases) != 1 || r.Aliases[0].Path != x.at("c/third") || r.Unseen != 0 {
		t.Errorf("%+v", r)
	}
}

// BenchmarkWarm measures the scan before a command: 20,000 files in 2,000
// unchanged folders.
func BenchmarkWarm(b *testing.B) { benchmark(b, true) }

// BenchmarkCold measures the first scan of the same tree.
func BenchmarkCold(b *testing.B) { benchmark(b, false) }

func benchmark(b *testing.B, warm bool) {
	x := newTree(b)
	for i := range 2000 {
		for j := range 10 {
			x.file(fmt.Sprintf("src/p%d/q%d/f%d.go", i/20, i%20, j))
		}
	}
	for i := range 20 {
		x.file(fmt.Sprintf("src/p%d/.env", i*3))
	}
	x.settled()
	q := x.request("**/.env", "**/.env.*", "**/.envrc", "**/credentials.json", "**/secrets.json", "ROOT/**/*.key")
	x.scan(q)
	b.ResetTimer()
	for b.Loop() {
		if !warm {
			x.s.trees = map[string]*node{}
		}
		if r := x.scan(q); len(r.Hits) != 20 || warm && r.Listed != 0 {
			b.Fatalf("%d hits, %d folders read", len(r.Hits), r.Listed)
		}
	}
}

func TestUnreadable(t *testing.T) {
	if os.Geteuid() == 0 {
		asOrdinaryUser(t, "^TestUnreadable$") // root can read everything
		return
	}
	x := newTree(t, "a/.env", "hidden/.env", "names/.env", "ok/.env")
	x.must(os.Chmod(x.at("hidden"), 0o311))
	x.must(os.Chmod(x.at("names"), 0o444))
	t.Cleanup(func() { os.Chmod(x.at("hidden"), 0o755); os.Chmod(x.at("names"), 0o755) })
	for i := range 4 {
		q := x.request("**/.env")
		if i > 1 {
			q.Denied = []plan.Deny{{Path: x.root, Rule: "closed for writing"}}
		}
		r := x.scan(q)
		x.want("unreadable", r.Unreadable, "hidden", "names")
		x.want("hits", hits(r), "a/.env", "ok/.env")
		if !slices.Contains(r.Denies(), plan.Deny{Path: x.at("hidden"), Read: true, Rule: RuleUnreadable}) {
			t.Errorf("denies %+v", r.Denies())
		}
	}
	q := x.request("**/.env")
	q.Roots = []string{x.at("hidden/below")}
	if _, err := x.s.Scan(context.Background(), q); err != nil && sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Error(err)
	}
}
