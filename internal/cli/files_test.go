package cli

import (
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/manager"
)

// inside serves a folder of the host as the workspace of a sandbox.
type inside struct{ *fsbridge.Files }

func rel(p string) string { return strings.TrimPrefix(p, "/workspace") }

func (f inside) Read(ctx context.Context, p string, offset, limit int64) (io.ReadCloser, error) {
	return f.Files.Read(ctx, rel(p), offset, limit)
}
func (f inside) Write(ctx context.Context, p string, r io.Reader, o sandbox.WriteOptions) error {
	return f.Files.Write(ctx, rel(p), r, o)
}
func (f inside) Mkdir(ctx context.Context, p string, perm fs.FileMode) error {
	return f.Files.Mkdir(ctx, rel(p), perm)
}
func (f inside) Remove(ctx context.Context, p string, recursive bool) error {
	return f.Files.Remove(ctx, rel(p), recursive)
}
func (f inside) Rename(ctx context.Context, from, to string) error {
	return f.Files.Rename(ctx, rel(from), rel(to))
}
func (f inside) Stat(ctx context.Context, p string) (fs.FileInfo, error) {
	return f.Files.Stat(ctx, rel(p))
}
func (f inside) ReadDir(ctx context.Context, p string) ([]fs.DirEntry, error) {
	return f.Files.ReadDir(ctx, rel(p))
}
func (f inside) Lstat(ctx context.Context, p string) (fs.FileInfo, error) {
	return f.Files.Lstat(ctx, rel(p))
}
func (f inside) ReadLink(ctx context.Context, p string) (string, error) {
	return f.Files.ReadLink(ctx, rel(p))
}
func (f inside) Symlink(ctx context.Context, target, p string) error {
	return f.Files.Symlink(ctx, target, rel(p))
}

// withFiles returns a backend whose sandbox has the folder dir as workspace.
func withFiles(t *testing.T) (f *fake, dir string) {
	t.Helper()
	dir = t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	table, err := fsbridge.NewMountTable([]sandbox.Mount{{Source: dir, Target: "/workspace", Role: sandbox.RoleWorkspace}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	b := fsbridge.New(table, inside{fsbridge.NewHostFiles(root, "/workspace")}, fsbridge.Transport{Name: fsbridge.TransportScript})
	return &fake{share: &manager.Share{Bridge: b, Name: "sbx-a", Exposed: []string{dir}}}, dir
}

func put(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// feed returns a file to read text from.
func feed(t *testing.T, text string) *os.File {
	t.Helper()
	p := filepath.Join(t.TempDir(), "in")
	put(t, p, text)
	f, err := os.Open(p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestFileCommands(t *testing.T) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	f, dir := withFiles(t)
	steps := []struct {
		args, in string
		status   int
		out      string // of standard output
		says     string // part of standard error
	}{
		{"write a/b/bin", string(every), 0, "", ""},
		{"read a/b/bin", "", 0, string(every), ""},
		{"read --offset 65 --limit 3 a/b/bin", "", 0, "ABC", ""},
		{"read /workspace/a/b/bin --offset=255", "", 0, "\xff", ""},
		{"read a/b/bin --limit 0", "", 0, "", ""},
		{"write --exclusive a/b/bin", "x", 1, "", "sandbox: fs write: SCHEMA.VALIDATION_FAILED: /workspace/a/b/bin: file exists\n"},
		{"write --perm 0600 secret", "x", 0, "", ""},
		{"ls", "", 0, "a\nsecret\n", ""},
		{"ls a -0", "", 0, "b\x00", ""},
		{"mkdir a/c", "", 0, "", ""},
		{"mkdir a/c", "", 1, "", "file exists"},
		{"mkdir -p a/c x/y/z", "", 0, "", ""},
		{"mkdir nope/x", "", 1, "", "sandbox: fs mkdir: SANDBOX.NOT_FOUND: "},
		{"cp a/b/bin a/c", "", 0, "", ""},
		{"cp a/b/bin a/c/other", "", 0, "", ""},
		{"cp a copy", "", 1, "", "sandbox: hint: copy it with all that is in it: sandbox fs cp -r\n"},
		{"cp -r a copy", "", 0, "", ""},
		{"cp a/b a/c x -r", "", 0, "", ""},
		{"cp a/b a/c nope -r", "", 1, "", "nope is no folder"},
		{"mv secret x", "", 0, "", ""},
		{"mv x/secret moved", "", 0, "", ""},
		{"mv nope x", "", 1, "", "SANDBOX.NOT_FOUND"},
		{"mv nope new/deep/x", "", 1, "", "SANDBOX.NOT_FOUND: /workspace/nope"},
		{"ls new", "", 1, "", "SANDBOX.NOT_FOUND"},
		{"mv moved new/deep/x", "", 0, "", ""},
		{"read new/deep/x", "", 0, "x", ""},
		{"mv new/deep/x moved", "", 0, "", ""},
		{"rm -r new", "", 0, "", ""},
		{"glob **/other", "", 0, "a/c/other\ncopy/c/other\nx/c/other\n", ""},
		{"glob /workspace/m* m* moved", "", 0, "/workspace/moved\nmoved\n", ""},
		{"glob nothing*", "", 0, "", ""},
		{"glob [", "", 2, "", "malformed"},
		{"rm a", "", 1, "", "sandbox: hint: remove it with all that is in it: sandbox fs rm -r\n"},
		{"rm nope moved gone", "", 1, "", "sandbox: fs rm: SANDBOX.NOT_FOUND: /workspace/nope"},
		{"rm -r a x copy", "", 0, "", ""},
		{"ls", "", 0, "", ""},
		{"rm -r /workspace", "", 1, "", "a mount itself cannot be removed"},
		{"read /etc/passwd", "", 1, "", "sandbox: fs read: SANDBOX.CAPABILITY_BLOCKED: "},
		{"ls ../x", "", 1, "", "SANDBOX.CAPABILITY_BLOCKED"},
		{"write file:///workspace/of%20url", "x", 0, "", ""},
		{"read sandbox:///workspace/of%20url", "", 0, "x", ""},
		{"glob file:///workspace/*%20url", "", 0, "/workspace/of url\n", ""},
		{"write file:x", "x", 1, "", "relative"},
		{"mkdir -p https://example.com/x", "", 1, "", "not a path"},
		{"rm file:///workspace/of%20url", "", 0, "", ""},
		{"ls", "", 0, "", ""},
		{"write -- -dash", "x", 0, "", ""},
		{"rm -- -dash", "", 0, "", ""},
	}
	for _, s := range steps {
		r := callWith(t, f, feed(t, s.in), append([]string{"fs"}, strings.Fields(s.args)...)...)
		if r.status != s.status || r.stdout != s.out || !strings.Contains(r.stderr, s.says) || s.says == "" && r.stderr != "" {
			t.Errorf("fs %s: status %d, stdout %q, stderr %q; want %d, %q, %q", s.args, r.status, r.stdout, r.stderr, s.status, s.out, s.says)
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("left over: %v", entries)
	}
}

func TestFileCommandsNeedTheirArguments(t *testing.T) {
	for _, args := range []string{
		"fs", "fs nope", "fs read", "fs read a b", "fs write", "fs ls a b", "fs stat", "fs mkdir", "fs rm", "fs mv a", "fs cp a", "fs glob",
		"fs read --offset -1 a", "fs read --limit x a", "fs write --perm 0 a", "fs write --perm 1777 a", "fs write --perm rw a", "fs ls -l -0", "fs glob -0 -o json x",
		"fs read --nope a", "shell x", "shell", "shell -c true -t",
		"cp", "cp a", "cp a b", "cp - -", "cp a -", "cp sandbox:a a b", "cp a sandbox:b c", "cp - a", "cp - a sandbox:b", "cp sandbox:a sandbox:b -",
	} {
		f, _ := withFiles(t)
		r := call(t, f, strings.Fields(args)...)
		if r.status != 2 || r.stdout != "" || !strings.HasPrefix(r.stderr, "sandbox: ") && !strings.HasPrefix(r.stderr, `{"type":`) {
			t.Errorf("%s: status %d, stdout %q, stderr %q", args, r.status, r.stdout, r.stderr)
		}
		if f.options.Log != nil {
			t.Errorf("%s: the backend was asked", args)
		}
	}
	f, _ := withFiles(t)
	if r := call(t, f, "fs", "read", ""); r.status != 2 {
		t.Errorf("an empty path gives status %d: %s", r.status, r.stderr)
	}
}

// TestAFailedSandboxIsNoFailedOperation tells 125 from 1.
func TestAFailedSandboxIsNoFailedOperation(t *testing.T) {
	gone := &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "read", Message: "the guest has gone", Hint: "see what happened"}
	tests := []struct {
		name string
		err  error
		want int
		says string
	}{
		{"the sandbox fell", gone, 125, "sandbox: PROVIDER.UNAVAILABLE: read: the guest has gone\nsandbox: hint: see what happened\n"},
		{"no answer", &sandbox.Error{Code: sandbox.CodeTimeout, Message: "late"}, 125, "sandbox: PROVIDER.TIMEOUT: late\n"},
		{"no room", &sandbox.Error{Code: sandbox.CodeBudgetExceeded, Op: "write", Field: "path", Message: "/workspace/x", Err: syscall.ENOSPC, Hint: "remove files"}, 1,
			"sandbox: fs mkdir: QUOTA.BUDGET_EXCEEDED: /workspace/x: no space left on device\nsandbox: hint: remove files\n"},
		{"an error without code", errTest, 1, "sandbox: fs mkdir: UNKNOWN.INTERNAL: it broke\n"},
		{"hostile text", &sandbox.Error{Code: sandbox.CodeNotFound, Message: "x\x1b[2J\n"}, 1, "sandbox: fs mkdir: SANDBOX.NOT_FOUND: x\\x1b[2J\\n\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, _ := withFiles(t)
			table, _ := fsbridge.NewMountTable([]sandbox.Mount{{Target: "/workspace", Role: sandbox.RoleWorkspace}}, nil)
			f.share.Bridge = fsbridge.New(table, broken{err: tt.err}, fsbridge.Transport{})
			if r := call(t, f, "fs", "mkdir", "x"); r.status != tt.want || r.stderr != tt.says {
				t.Errorf("status %d and %q, want %d and %q", r.status, r.stderr, tt.want, tt.says)
			}
		})
	}
}

type broken struct {
	sandbox.Files
	err error
}

func (b broken) Mkdir(context.Context, string, fs.FileMode) error { return b.err }

func TestNamesAreSafeToLookAt(t *testing.T) {
	f, dir := withFiles(t)
	name := strings.TrimSuffix(hostile, "\n") + "\xff\n"
	put(t, filepath.Join(dir, name), "x")
	if err := os.Symlink(hostile, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"ls"}, {"ls", "-l"}, {"ls", "-o", "json"}, {"stat", name, "link"}, {"stat", name, "-o", "json"}, {"glob", "*"}, {"glob", "*", "-o", "json"}, {"rm", name + "2"}} {
		r := call(t, f, append([]string{"fs"}, args...)...)
		for _, c := range r.stdout + r.stderr {
			if c != '\n' && !termsafe.Safe(c) {
				t.Errorf("%q: it holds %U", args, c)
			}
		}
	}
	if r := call(t, f, "fs", "ls", "-0"); r.stdout != "link\x00"+name+"\x00" {
		t.Errorf("raw names are %q", r.stdout)
	}
	if r := call(t, f, "fs", "glob", "-0", "x*"); r.stdout != name+"\x00" {
		t.Errorf("raw matches are %q", r.stdout)
	}
}

func TestFileJSON(t *testing.T) {
	f, dir := withFiles(t)
	put(t, filepath.Join(dir, "a\xff"), "12345")
	if err := os.Symlink("a", filepath.Join(dir, "l")); err != nil {
		t.Fatal(err)
	}
	var list struct{ Entries []map[string]any }
	if err := json.Unmarshal([]byte(call(t, f, "fs", "ls", "-o", "json").stdout), &list); err != nil {
		t.Fatal(err)
	}
	file, link := list.Entries[0], list.Entries[1]
	for key, want := range map[string]any{"type": "file", "size": 5.0, "mode": "0644", "target": "", "pathBase64": "L3dvcmtzcGFjZS9h/w==", "name": "a\ufffd"} {
		if file[key] != want {
			t.Errorf("%s of a file is %v, want %v", key, file[key], want)
		}
	}
	for key, want := range map[string]any{"path": "/workspace/l", "name": "l", "type": "link", "target": "a"} {
		if link[key] != want {
			t.Errorf("%s of a link is %v, want %v", key, link[key], want)
		}
	}
	if _, ok := link["mtime"].(string); !ok {
		t.Errorf("the time is %v", link["mtime"])
	}
	if r := call(t, f, "fs", "stat", "-L", "l", "-o", "json"); r.status != 1 || r.stdout != "" {
		t.Errorf("a dangling link: status %d, %s%s", r.status, r.stdout, r.stderr)
	}
	if r := call(t, f, "fs", "glob", "none", "-o", "json"); !strings.Contains(r.stdout, `"matches": []`) {
		t.Errorf("no match gives %s", r.stdout)
	}
}

func TestModeText(t *testing.T) {
	for mode, want := range map[fs.FileMode]string{
		0o644: "-rw-r--r--", fs.ModeDir | 0o755: "drwxr-xr-x", fs.ModeSymlink | 0o777: "lrwxrwxrwx", fs.ModeNamedPipe | 0o600: "prw-------",
		fs.ModeSocket: "s---------", fs.ModeDevice | 0o660: "brw-rw----", fs.ModeDevice | fs.ModeCharDevice | 0o666: "crw-rw-rw-",
		fs.ModeDir | fs.ModeSticky | 0o777: "drwxrwxrwt", fs.ModeSetuid | 0o755: "-rwsr-xr-x", fs.ModeSetgid | 0o644: "-rw-r-Sr--", fs.ModeSticky: "---------T",
	} {
		if got := modeText(mode); got != want {
			t.Errorf("%v is written %s, want %s", mode, got, want)
		}
	}
	if got := modeBits(fs.ModeSetuid | fs.ModeSticky | 0o750); got != 0o5750 {
		t.Errorf("bits are %o", got)
	}
}

// TestWriteGivenUpKeepsTheOld interrupts a write whose input stays open.
func TestWriteGivenUpKeepsTheOld(t *testing.T) {
	f, dir := withFiles(t)
	put(t, filepath.Join(dir, "x"), "old")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	w.WriteString("half")
	ctx, cancel := context.WithCancel(context.Background())
	out, done := collect(t)
	ended := make(chan int)
	go func() {
		ended <- Program{Args: []string{"sandbox", "fs", "write", "x"}, Stdin: r, Stdout: out, Stderr: out, Backend: f}.Run(ctx)
	}()
	for { // the half has been taken when the temporary file holds it
		if m, _ := filepath.Glob(filepath.Join(dir, ".sbx-*.tmp")); len(m) == 1 && content(t, m[0]) == "half" {
			break
		}
	}
	cancel()
	if status := <-ended; status == 0 {
		t.Error("it claims success")
	}
	done()
	if got := content(t, filepath.Join(dir, "x")); got != "old" {
		t.Errorf("it holds %q", got)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("left over: %v", entries)
	}
}
