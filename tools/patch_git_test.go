package tools

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// words are few, so that lines repeat and hunks look alike.
var words = []string{"a", "b", "}", "", "\tx", "  y", "-- z", "++ w", "@@ -1 +1 @@", "\\ q", "*** End Patch", "c\r", "d \t"}

// randomText has up to n lines, and sometimes no newline at the end.
func randomText(r *rand.Rand, n int) string {
	var b strings.Builder
	for range r.IntN(n + 1) {
		b.WriteString(words[r.IntN(len(words))] + "\n")
	}
	if r.IntN(4) == 0 {
		return strings.TrimSuffix(b.String(), "\n")
	}
	return b.String()
}

// altered is a text with some lines changed, added and taken.
func altered(r *rand.Rand, text string) string {
	lines := strings.SplitAfter(text, "\n")
	for range 1 + r.IntN(4) {
		i := r.IntN(len(lines))
		switch r.IntN(3) {
		case 0:
			lines[i] = words[r.IntN(len(words))] + "\n"
		case 1:
			lines[i] += words[r.IntN(len(words))] + "\n"
		case 2:
			lines = append(lines[:i:i], lines[i+1:]...)
		}
		if len(lines) == 0 {
			return ""
		}
	}
	return strings.Join(lines, "")
}

// randomTrees returns a tree and a random modification of it.
func randomTrees(r *rand.Rand) (old, now tree) {
	names := []string{"x", "d/y", "d/e/z z", "ü", "tab\tname", `quote"name`, "a/b", "b/a"}
	old, now = tree{}, tree{}
	for _, name := range names {
		text := randomText(r, 40)
		switch r.IntN(6) {
		case 0: // nowhere
		case 1:
			old[name] = text
		case 2:
			now[name] = text
		case 3:
			old[name], now[name+".moved"] = text, altered(r, text)
		default:
			old[name], now[name] = text, altered(r, text)
		}
	}
	return old, now
}

// repository is a place to make diffs in.
type repository struct {
	t   *testing.T
	dir string
}

func newRepository(t *testing.T) repository {
	t.Helper()
	g := repository{t, t.TempDir()}
	g.git("init", "-q")
	return g
}

func (g repository) git(args ...string) string {
	g.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "core.autocrlf=false", "-c", "core.safecrlf=false", "-c", "user.name=t", "-c", "user.email=t@localhost"}, args...)...)
	cmd.Dir = g.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		g.t.Fatalf("git %v: %v\n%s", args, err, errOut.String())
	}
	return string(out)
}

// tree commits nothing but the files, and returns the id of the tree.
func (g repository) tree(files tree) string {
	g.t.Helper()
	entries, err := os.ReadDir(g.dir)
	if err != nil {
		g.t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != ".git" {
			if err := os.RemoveAll(filepath.Join(g.dir, e.Name())); err != nil {
				g.t.Fatal(err)
			}
		}
	}
	for name, text := range files {
		path := filepath.Join(g.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			g.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			g.t.Fatal(err)
		}
	}
	g.git("add", "-A", "--force")
	return strings.TrimSpace(g.git("write-tree"))
}

// TestGitDiffs holds that what git says lies between two trees makes the one of
// the other, and that its reverse leads back.
func TestGitDiffs(t *testing.T) {
	g := newRepository(t)
	styles := [][]string{{}, {"-M30%"}, {"--no-prefix"}, {"--no-renames", "-U1"}, {"--patience", "-U10"}, {"--src-prefix=i/", "--dst-prefix=w/"}, {"--inter-hunk-context=3"}}
	applied := 0
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 9))
		old, now := randomTrees(r)
		before, after := g.tree(old), g.tree(now)
		if before == after {
			continue
		}
		style := styles[seed%uint64(len(styles))]
		diff := g.git(append(append([]string{"diff", "--no-color", "--no-ext-diff"}, style...), before, after)...)
		back := g.git(append(append([]string{"diff", "--no-color", "--no-ext-diff", "-R"}, style...), before, after)...)
		for _, way := range []struct {
			from, to tree
			diff     string
		}{{old, now, diff}, {now, old, back}} {
			files := tree{}
			for k, v := range way.from {
				files[k] = v
			}
			res, err := apply(t, files, way.diff)
			if err != nil {
				t.Fatalf("seed %d, %v: %v\n%s", seed, style, err, way.diff)
			}
			files.carry(res)
			if files.show() != way.to.show() {
				t.Fatalf("seed %d, %v: got %q\nwant %q\n%s", seed, style, files.show(), way.to.show(), way.diff)
			}
			applied++
			for _, c := range res.Changes {
				if len(c.Notes) > 0 {
					t.Errorf("seed %d: a diff that is exact has notes: %v", seed, c.Notes)
				}
			}
		}
	}
	if applied < 100 {
		t.Errorf("only %d diffs were applied", applied)
	}
}

// TestMovedContext holds that a diff fits a file that has become longer before
// or after, or is refused, and never changes another place.
func TestMovedContext(t *testing.T) {
	g := newRepository(t)
	fitted, refused := 0, 0
	for seed := range uint64(80) {
		r := rand.New(rand.NewPCG(seed, 10))
		text := randomText(r, 30)
		changed := altered(r, text)
		if text == changed || text == "" || changed == "" || !strings.HasSuffix(text, "\n") || !strings.HasSuffix(changed, "\n") {
			continue
		}
		before, after := g.tree(tree{"x": text}), g.tree(tree{"x": changed})
		diff := g.git("diff", "--no-color", "--no-ext-diff", before, after)
		var head, tail string
		for i := range 1 + r.IntN(5) {
			head += fmt.Sprintf("head %d\n", i)
			tail += fmt.Sprintf("tail %d\n", i)
		}
		res, err := apply(t, tree{"x": head + text + tail}, diff)
		if err != nil {
			refused++ // several places, or another file; nothing has changed
			continue
		}
		fitted++
		if got, want := string(res.Changes[0].Data), head+changed+tail; got != want {
			t.Errorf("seed %d: got %q, want %q\n%s", seed, got, want, diff)
		}
	}
	if fitted < 20 {
		t.Errorf("only %d fitted, %d were refused", fitted, refused)
	}
}
