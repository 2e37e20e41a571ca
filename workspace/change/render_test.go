package change_test

import (
	"bytes"
	"io/fs"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/workspace/change"
	"golang.org/x/sys/unix"
)

func TestRender(t *testing.T) {
	r := newRig(t, map[string]string{
		"text": "1\n2\n3\n4\n5\n6\n7\n8\n9\n", "gone": "bye\n", "mode": "m\n", "old name": strings.Repeat("line\n", 9) + "a\n", "bin": "\x00\x01", "link": "-> a", "private": "p\n",
	})
	put(t, r.current+"/text", "1\n2\n3\n4\nfive\n6\n7\n8\n9")
	must(t, os.Remove(r.current+"/gone"))
	must(t, os.Chmod(r.current+"/mode", 0o755))
	must(t, os.Remove(r.current+"/old name"))
	put(t, r.current+"/new name", strings.Repeat("line\n", 9)+"b\n")
	put(t, r.current+"/bin", "\x89PNG\r\n\x1a\n\x00")
	put(t, r.current+"/link", "-> b")
	put(t, r.current+"/empty", "")
	put(t, r.current+"/prog\t\x1b[31m", "+x #!/bin/sh\n")
	must(t, os.Chmod(r.current+"/private", 0o600))
	must(t, os.Mkdir(r.current+"/folder", 0o755))
	must(t, unix.Mkfifo(r.current+"/pipe", 0o644))
	want := `diff --git a/bin b/bin
Binary files a/bin (2 bytes, application/octet-stream) and b/bin (9 bytes, image/png) differ
diff --git a/empty b/empty
new file mode 100644
# folder folder/ was added
diff --git a/gone b/gone
deleted file mode 100644
--- a/gone
+++ /dev/null
@@ -1 +0,0 @@
-bye
diff --git a/link b/link
--- a/link
+++ b/link
@@ -1 +1 @@
-a
\ No newline at end of file
+b
\ No newline at end of file
diff --git a/mode b/mode
old mode 100644
new mode 100755
diff --git a/old name b/new name
similarity index 95%
rename from old name
rename to new name
--- a/old name	
+++ b/new name	
@@ -7,4 +7,4 @@
 line
 line
 line
-a
+b
# pipe pipe was added
# mode of private changed from 0644 to 0600
diff --git "a/prog\t\033[31m" "b/prog\t\033[31m"
new file mode 100755
--- /dev/null
+++ "b/prog\t\033[31m"
@@ -0,0 +1 @@
+#!/bin/sh
diff --git a/text b/text
--- a/text
+++ b/text
@@ -2,8 +2,8 @@
 2
 3
 4
-5
+five
 6
 7
 8
-9
+9
\ No newline at end of file
`
	if got := r.render(change.RenderOptions{}); got != want {
		t.Errorf("got\n%s", got)
	}
	want = `bin
empty
folder/
gone
link
mode
new name
pipe
private
"prog\t\033[31m"
text
`
	if got := r.render(change.RenderOptions{Format: change.NameOnly}); got != want {
		t.Errorf("got\n%s", got)
	}
	want = ` bin                  | Bin 2 -> 9 bytes image/png
 empty                | 0
 folder/              | folder
 gone                 | 1 -
 link                 | 2 +-
 mode                 | 0
 old name => new name | 2 +-
 pipe                 | pipe
 private              | 0
 "prog\t\033[31m"     | 1 +
 text                 | 4 ++--
 10 files changed, 5 insertions(+), 5 deletions(-)
 create mode 100644 empty
 delete mode 100644 gone
 mode change 0644 => 0755 mode
 rename old name => new name (95%)
 create mode 000000 pipe
 mode change 0644 => 0600 private
 create mode 100755 "prog\t\033[31m"
`
	if got := r.render(change.RenderOptions{Format: change.Stat}); got != want {
		t.Errorf("got\n%s", got)
	}
}

// TestRenderForTerminals holds that nothing of a tree steers a terminal, and
// that colours are the only escapes.
func TestRenderForTerminals(t *testing.T) {
	r := newRig(t, map[string]string{"a": "old\x1b[2J\n"})
	put(t, r.current+"/a", "new\x1b]0;title\x07\r\u202e\x9b31m\ttab\n")
	put(t, r.current+"/\x1b[31m\u202e", "x\n")
	put(t, r.current+"/l", "-> \x1b[5m")
	for _, o := range []change.RenderOptions{{Terminal: true}, {Color: true}, {Format: change.Stat, Color: true}, {Format: change.NameOnly, Terminal: true}} {
		got := r.render(o)
		for _, color := range []string{"\x1b[1m", "\x1b[31m", "\x1b[32m", "\x1b[36m", "\x1b[m"} {
			if o.Color {
				got = strings.ReplaceAll(got, color, "")
			}
		}
		if i := strings.IndexFunc(got, func(r rune) bool {
			return r < ' ' && r != '\n' && r != '\t' || r == 0x7f || r == '\u202e' || r == 0xfffd
		}); i >= 0 {
			t.Errorf("%+v: %q", o, got[max(0, i-20):i+5])
		}
	}
	if raw := r.render(change.RenderOptions{}); !strings.Contains(raw, "+new\x1b]0;title\x07\r") {
		t.Errorf("for git, contents are changed: %q", raw)
	}
	var b bytes.Buffer
	must(t, change.RenderRisks(&b, r.compare()))
	if got := b.String(); strings.Contains(got, "\x1b") || !strings.Contains(got, "name: ") || !strings.Contains(got, `\033`) {
		t.Errorf("%q", got)
	}
}

func TestRenderSeesChanges(t *testing.T) {
	r := newRig(t, map[string]string{"a": "1\n"})
	put(t, r.current+"/a", "2\n")
	entries := r.compare()
	put(t, r.current+"/a", "3\n")
	err := change.Render(deadline(t), &bytes.Buffer{}, entries, change.RenderOptions{Base: r.tree(r.base), Current: r.tree(r.current)})
	refused(t, err, sandbox.CodeBusy)
	err = change.Render(deadline(t), &bytes.Buffer{}, nil, change.RenderOptions{Format: "xml"})
	refused(t, err, sandbox.CodeValidation)
}

// git runs git in a folder.
func git(t testing.TB, dir string, args ...string) {
	t.Helper()
	path, err := exec.LookPath("git")
	if err != nil {
		testenv.Lack(t, "nettools", err)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	cmd.Env = []string{"HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C", "PATH=" + os.Getenv("PATH")}
	if out, err := cmd.CombinedOutput(); err != nil {
		patch, _ := os.ReadFile(args[len(args)-1])
		t.Fatalf("git %q: %v: %s\n%s", args, err, out, patch)
	}
}

// TestGitApplies holds that git makes the current tree of the base and the
// patch, but for binary files and what git does not record.
func TestGitApplies(t *testing.T) {
	for seed := range int64(testenv.Rounds(3, 10, 300)) {
		rng := rand.New(rand.NewSource(seed))
		r := newRig(t, nil)
		mutate(t, rng, r.base, 40)
		dropBinaries(t, r.base)
		for range 3 {
			dropEmpty(t, r.base)
		}
		copyTree(t, r.base, r.current)
		mutate(t, rng, r.current, 40)
		dropBinaries(t, r.current)
		patch := r.render(change.RenderOptions{})
		if !strings.Contains(patch, "diff --git") {
			continue
		}
		file := filepath.Join(t.TempDir(), "patch")
		must(t, os.WriteFile(file, []byte(patch), 0o600))
		git(t, r.base, "apply", "--whitespace=nowarn", file)
		got, want := filesOf(t, r.base), filesOf(t, r.current)
		if differ(t, "after git apply", got, want); t.Failed() {
			t.Fatalf("seed %d:\n%s", seed, patch)
		}
	}
}

// dropBinaries removes files whose content no patch holds.
func dropBinaries(t testing.TB, root string) {
	t.Helper()
	must(t, filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var data []byte
			if data, err = os.ReadFile(p); err == nil && bytes.Contains(data, []byte{0}) {
				return os.Remove(p)
			}
		}
		return err
	}))
}

// dropEmpty removes empty folders, which git does not see and which are in its
// way.
func dropEmpty(t testing.TB, root string) {
	t.Helper()
	for name, s := range snapshot(t, root) {
		if strings.HasPrefix(s, "d") {
			_ = os.Remove(filepath.Join(root, name)) // fails where it is not empty
		}
	}
}

// filesOf is a snapshot of what git records.
func filesOf(t testing.TB, root string) map[string]string {
	all := snapshot(t, root)
	for name, s := range all {
		if strings.HasPrefix(s, "d") {
			delete(all, name)
		}
	}
	return all
}

func TestQuote(t *testing.T) {
	for name, want := range map[string]string{
		"plain": "plain", "a b": "a b", `q"`: `"q\""`, `b\`: `"b\\"`, "é": `"\303\251"`, "\x00\x07\x7f\xff": `"\000\a\177\377"`, "\r\n\t": `"\r\n\t"`,
	} {
		if got := change.Quote(name); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
		if back, ok := change.Unquote(want); !ok || back != name {
			t.Errorf("%s: %q, %v", want, back, ok)
		}
	}
	for _, bad := range []string{"", `"`, `"a`, `"\"`, `"\9"`, `"\777"`, `"a"b"`, `"\40"`} {
		if got, ok := change.Unquote(bad); ok {
			t.Errorf("%s: %q", bad, got)
		}
	}
}
