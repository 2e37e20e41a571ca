package cli

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge/copy"
)

// files lists everything below dir with its content.
func files(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		name := strings.TrimPrefix(strings.TrimPrefix(p, dir), "/")
		switch {
		case err != nil:
			t.Error(err)
		case name == "":
		case d.IsDir():
			out = append(out, name+"/")
		case d.Type()&os.ModeSymlink != 0:
			out = append(out, name+"@")
		default:
			out = append(out, name+"="+content(t, p))
		}
		return nil
	})
	return out
}

func TestCopyBetweenSides(t *testing.T) {
	tests := []struct {
		name   string
		args   string
		want   string // of the other side, or of standard error when it fails
		status int
	}{
		{"a file into the workspace", "one sandbox:", "w/ w/x=inside one=1", 0},
		{"with both prefixes", "host:one sandbox:two", "w/ w/x=inside two=1", 0},
		{"with the URL of a file inside", "one sandbox:///workspace/a%20b", "a b=1 w/ w/x=inside", 0},
		{"with the URL of a file behind the side", "one sandbox:file:///workspace/w/x", "w/ w/x=1", 0},
		{"with the URL of another host", "one sandbox:file://host/x", "names the host host", 1},
		{"into a folder that is made", "one sandbox:a/b/c", "a/ a/b/ a/b/c=1 w/ w/x=inside", 0},
		{"a file over a file", "one sandbox:w/x", "w/ w/x=1", 0},
		{"a folder under its name", "tree sandbox:", "tree/ tree/in=2 w/ w/x=inside", 0},
		{"a folder with a slash", "tree/ sandbox:", "tree/ tree/in=2 w/ w/x=inside", 0},
		{"a folder into a folder", "tree sandbox:w", "w/ w/tree/ w/tree/in=2 w/x=inside", 0},
		{"a folder under a new name", "tree sandbox:new", "new/ new/in=2 w/ w/x=inside", 0},
		{"the content of a folder", "tree/. sandbox:w", "w/ w/in=2 w/x=inside", 0},
		{"the content under a new name", "tree/. sandbox:new", "new/ new/in=2 w/ w/x=inside", 0},
		{"several", "one tree sandbox:w -q", "w/ w/one=1 w/tree/ w/tree/in=2 w/x=inside", 0},
		{"several into no folder", "one tree sandbox:nope", "sandbox: hint: make it first: sandbox fs mkdir nope", 1},
		{"a folder over a file", "tree sandbox:w/x", "a folder cannot replace a file", 1},
		{"into no folder", "one sandbox:nope/", "is no folder", 1},
		{"nothing there", "nope sandbox:", "SANDBOX.NOT_FOUND: host:./nope", 1},
		{"no folder there", "nope/x sandbox:", "SANDBOX.NOT_FOUND: host:nope/", 1},
		{"a path outside", "one sandbox:/etc/x", "SANDBOX.CAPABILITY_BLOCKED", 1},
		{"within the sandbox", "sandbox:w sandbox:v", "v/ v/x=inside w/ w/x=inside", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, dir := withFiles(t)
			put(t, filepath.Join(dir, "w/x"), "inside")
			t.Chdir(t.TempDir())
			put(t, "one", "1")
			put(t, "tree/in", "2")
			r := call(t, f, append([]string{"cp"}, strings.Fields(tt.args)...)...)
			got := strings.Join(files(t, dir), " ")
			if tt.status != 0 {
				got = r.stderr
			}
			if r.status != tt.status || r.stdout != "" || tt.status == 0 && (got != sorted(tt.want) || r.stderr != "") || !strings.Contains(got, tt.want) && tt.status != 0 {
				t.Errorf("status %d, %q, %s; want %q", r.status, got, r.stderr, tt.want)
			}
		})
	}
}

// sorted puts words in the order in which files lists them.
func sorted(words string) string {
	list := strings.Fields(words)
	slices.SortFunc(list, func(a, b string) int {
		a, _, _ = strings.Cut(a, "=")
		b, _, _ = strings.Cut(b, "=")
		return strings.Compare(a, b)
	})
	return strings.Join(list, " ")
}

func TestCopyToTheHost(t *testing.T) {
	f, dir := withFiles(t)
	put(t, filepath.Join(dir, "tree/in"), "2")
	if err := os.Chmod(filepath.Join(dir, "tree/in"), 0o750); err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for _, args := range []string{"sandbox:tree a", "sandbox:tree/in b", "sandbox:tree/. .", "sandbox:tree a/", "sandbox:/workspace/tree/in sandbox:tree host:a"} {
		if r := call(t, f, append([]string{"cp"}, strings.Fields(args)...)...); r.status != 0 {
			t.Fatalf("%s: status %d: %s", args, r.status, r.stderr)
		}
	}
	want := "a/ a/in=2 a/tree/ a/tree/in=2 b=2 in=2"
	if got := strings.Join(files(t, "."), " "); got != want {
		t.Errorf("there is %s, want %s", got, want)
	}
	if info, _ := os.Stat("b"); info.Mode() != 0o750 {
		t.Errorf("the mode is %v", info.Mode())
	}
	if r := call(t, f, "cp", "sandbox:tree/in", "no/such/x"); r.status != 1 || !strings.Contains(r.stderr, "host:no/such/ cannot be opened as a folder") {
		t.Errorf("status %d: %s", r.status, r.stderr)
	}
}

func TestCopyOfArchives(t *testing.T) {
	f, dir := withFiles(t)
	put(t, filepath.Join(dir, "tree/in"), "2")
	r := call(t, f, "cp", "sandbox:tree", "-")
	if r.status != 0 {
		t.Fatalf("status %d: %s", r.status, r.stderr)
	}
	var names []string
	for in := tar.NewReader(strings.NewReader(r.stdout)); ; {
		h, err := in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
	}
	if got := strings.Join(names, " "); got != "tree/ tree/in" {
		t.Errorf("the archive has %s", got)
	}
	if r := callWith(t, f, feed(t, r.stdout), "cp", "-", "sandbox:back"); r.status != 0 || r.stderr != "" {
		t.Fatalf("status %d: %s", r.status, r.stderr)
	}
	if got := content(t, filepath.Join(dir, "back/tree/in")); got != "2" {
		t.Errorf("it came back as %q", got)
	}
	if r := callWith(t, f, feed(t, "no archive"), "cp", "-", "sandbox:back"); r.status != 1 || !strings.Contains(r.stderr, "the archive is malformed") {
		t.Errorf("status %d: %s", r.status, r.stderr)
	}
}

func TestCopyTellsWhatItLeavesOut(t *testing.T) {
	f, dir := withFiles(t)
	t.Chdir(t.TempDir())
	put(t, "tree/file", "1")
	for name, target := range map[string]string{"tree/in": "file", "tree/out\x1b[2J": "/etc/passwd"} {
		if err := os.Symlink(target, name); err != nil {
			t.Fatal(err)
		}
	}
	r := call(t, f, "cp", "tree", "sandbox:")
	if r.status != 1 || r.stderr != "sandbox: cp: left out: tree/out\\x1b[2J: it is a link that leads out, to /etc/passwd\n" {
		t.Errorf("status %d and %q", r.status, r.stderr)
	}
	if got := strings.Join(files(t, dir), " "); got != "tree/ tree/file=1 tree/in@" {
		t.Errorf("there is %s", got)
	}
}

// TestHostSideStaysInItsFolder is about paths of the host that lead through
// folders which code in a sandbox can write.
func TestHostSideStaysInItsFolder(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(p string) string { return filepath.Join(base, p) }
	put(t, at("private/secret"), "secret")
	put(t, at("ws/sub/file"), "mine")
	put(t, at("free/file"), "free")
	for name, target := range map[string]string{
		"ws/evil": at("private"), "ws/up": "../private", "ws/in": "sub", "free/link": at("private"), "mine": at("free"), "into": at("ws/evil"), "good": at("ws/sub"),
		"ws/secret": at("private/secret"), "free/secret": "../private/secret",
	} {
		if err := os.Symlink(target, at(name)); err != nil {
			t.Fatal(err)
		}
	}
	exposed := []string{at("ws")}
	tests := []struct {
		name, path string
		opens      bool // the folder
		reads      string
	}{
		{"a folder of ours", "free/file", true, "free"},
		{"through our own link", "mine/file", true, "free"},
		{"a file in an exposed folder", "ws/sub/file", true, "mine"},
		{"through our own link into one", "good/file", true, "mine"},
		{"through a link in an exposed folder", "ws/evil/secret", false, ""},
		{"through a relative one", "ws/up/secret", false, ""},
		{"through one that stays", "ws/in/file", false, ""},
		{"through our link and then theirs", "into/secret", false, ""},
		{"up again", "ws/sub/../../private/secret", false, ""},
		{"up after a link of theirs", "ws/evil/../free/file", false, ""},
		{"a file that is a link out", "ws/secret", true, ""},
		{"so even in a folder of ours", "free/secret", true, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e, err := onHost(operand{path: base + "/" + tt.path}, exposed)
			if err != nil {
				if tt.opens || sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
					t.Errorf("it is refused: %v", err)
				}
				return
			}
			defer e.close()
			if !tt.opens {
				t.Fatal("it was opened")
			}
			r, err := e.files.Read(t.Context(), e.path, 0, -1)
			if err != nil {
				if tt.reads != "" || sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
					t.Errorf("reading: %v", err)
				}
				return
			}
			defer r.Close()
			if b, _ := io.ReadAll(r); string(b) != tt.reads {
				t.Errorf("read %q, want %q", b, tt.reads)
			}
		})
	}
}

// TestExposedFolderIsEnteredByRoot swaps a folder in an exposed one for a
// link while it is opened: it is refused or the real one, never the other.
func TestExposedFolderIsEnteredByRoot(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	put(t, base+"/private/name", "secret")
	put(t, base+"/ws/real/name", "mine")
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			os.Rename(base+"/ws/real", base+"/ws/sub")
			os.Rename(base+"/ws/sub", base+"/ws/real")
			os.Symlink(base+"/private", base+"/ws/sub")
			os.Remove(base + "/ws/sub")
		}
	}()
	defer func() { close(stop); <-stopped }()
	opened := 0
	for deadline := time.Now().Add(time.Minute); opened < 300 && time.Now().Before(deadline); {
		root, err := openFolder(base+"/ws/sub", []string{base + "/ws"})
		if err != nil {
			continue
		}
		opened++
		b, err := root.ReadFile("name")
		root.Close()
		if err != nil || string(b) != "mine" {
			t.Fatalf("read %q, %v", b, err)
		}
	}
	if opened < 300 {
		t.Errorf("it could be opened %d times only", opened)
	}
}

func TestProgressLine(t *testing.T) {
	c := copy.Count{Files: 3, Bytes: 512 << 10}
	tests := []struct {
		name  string
		total int64
		width int
		want  string
	}{
		{"with a total", 1 << 20, 79, "[############............]  50%  512KiB/1MiB  256KiB/s  3 files"},
		{"without", -1, 79, "512KiB  256KiB/s  3 files"},
		{"of nothing", 0, 79, "512KiB  256KiB/s  3 files"},
		{"more than there was", 100, 79, "[########################] 100%  512KiB/100B  256KiB/s  3 files"},
		{"narrow", 1 << 20, 10, "[########…"},
	}
	for _, tt := range tests {
		if got := progressLine(c, tt.total, 2*time.Second, tt.width); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	if got := rate(1000, 0); !strings.HasSuffix(got, "/s") {
		t.Errorf("at once it is %s", got)
	}
}

func TestCopyIsSilentWithoutATerminal(t *testing.T) {
	f, _ := withFiles(t)
	t.Chdir(t.TempDir())
	put(t, "big", string(bytes.Repeat([]byte("x"), 4<<20)))
	if r := call(t, f, "cp", "big", "sandbox:"); r.status != 0 || r.stdout+r.stderr != "" {
		t.Errorf("status %d, it says %q", r.status, r.stdout+r.stderr)
	}
}

// TestCopyWhereEverythingIsExposed checks that copying works with a daemon
// that does not report what code inside can write.
func TestCopyWhereEverythingIsExposed(t *testing.T) {
	dir := t.TempDir()
	root, err := openFolder(dir, []string{"/"})
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := root.WriteFile("made", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir + "/made"); err != nil {
		t.Error(err)
	}
}
