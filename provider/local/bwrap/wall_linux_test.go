package bwrap_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/provider/local/bwrap"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
)

// nobody is who the walls of these tests belong to when root runs them.
const nobody = 65534

// disk is this machine.
type disk struct{}

func (disk) Kind(p string) (plan.Kind, error) {
	fi, err := os.Lstat(p)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return plan.Missing, nil
	case err != nil:
		return plan.Missing, err
	case fi.Mode().IsRegular():
		return plan.File, nil
	case fi.IsDir():
		return plan.Dir, nil
	case fi.Mode()&fs.ModeSymlink != 0:
		return plan.Link, nil
	case fi.Mode()&fs.ModeSocket != 0:
		return plan.Socket, nil
	}
	return plan.Other, nil
}

func (disk) Names(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

func (disk) Link(p string) (plan.Target, error) {
	text, err := os.Readlink(p)
	if err != nil {
		return plan.Target{}, err
	}
	real, err := filepath.EvalSymlinks(p)
	return plan.Target{Text: text, Real: real}, err
}

// A wall is what a real bwrap makes of a plan.
type wall struct {
	plan plan.Plan
	args []string
	bin  string
}

// raise plans w and makes the stubs.
func raise(t *testing.T, w plan.World, mask string) wall {
	t.Helper()
	bin, err := exec.LookPath("bwrap")
	if err != nil {
		testenv.Lack(t, "local", err)
	}
	for _, name := range []string{"/usr", "/bin", "/lib", "/lib64"} {
		if fi, err := os.Lstat(name); err == nil && fi.Mode()&fs.ModeSymlink != 0 {
			to, _ := os.Readlink(name)
			w.Symlinks = append(w.Symlinks, plan.Symlink{Target: name, To: to})
		} else if err == nil {
			w.Views = append(w.Views, plan.View{Source: name, Target: name, Why: "system"})
		}
	}
	w, err = plan.Gather(w, disk{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Make(w)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range p.Stubs {
		if s.Dir {
			err = os.Mkdir(s.Path, 0o755)
		} else {
			err = os.WriteFile(s.Path, nil, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		give(t, s.Path)
	}
	return wall{plan: p, bin: bin, args: bwrap.Args(p, bwrap.Options{
		MaskFile: mask, UID: 1000, GID: 1000, Hostname: "wall", Workdir: "/workspace",
		Env: map[string]string{"PATH": "/usr/bin:/bin"}, DisableUserns: true,
	})}
}

// give makes p and all below it nobody's, when root runs the test.
func give(t *testing.T, p string) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	err := filepath.WalkDir(p, func(q string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(q, nobody, nobody))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// sh runs a line in a wall of its own and returns what it wrote.
func (w wall) sh(t *testing.T, line string) string {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "args"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString(strings.Join(w.args, "\x00") + "\x00"); err != nil {
		t.Fatal(err)
	}
	if _, err := file.Seek(0, 0); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()

	cmd := exec.CommandContext(ctx, w.bin, "--args", "3", "--", "/bin/sh", "-c", line)
	cmd.ExtraFiles = []*os.File{file}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	if err := cmd.Run(); err != nil && strings.HasPrefix(out.String(), "bwrap: No permissions") {
		testenv.Lack(t, "local", out.String())
	} else if ctx.Err() != nil {
		t.Fatal(ctx.Err())
	}
	return out.String()
}

// hostile is a workspace with something of everything.
func hostile(t *testing.T) (ws, mask string, w plan.World) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for d := dir; d != "/" && d != os.TempDir(); d = filepath.Dir(d) {
		_ = os.Chmod(d, 0o755) // others have to come through
	}
	mask, ws = filepath.Join(dir, "mask"), filepath.Join(dir, "ws")
	for p, text := range map[string]string{
		"a/b/.env": "secret", "a/b/code": "code", ".git/config": "config", ".git/hooks/x": "hook",
		"vault/key": "key", "vault/deep/key": "key", "free": "free",
	} {
		p = filepath.Join(ws, p)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(mask, nil, 0); err != nil {
		t.Fatal(err)
	}
	give(t, dir)
	return ws, mask, plan.World{
		ShmSize: 1 << 16,
		Views: []plan.View{
			{Source: ws, Target: "/workspace", Write: true, Why: "workspace"},
			{Source: ws, Target: ws, Write: true, Why: "own folder"},
			{Source: ws + "/vault/deep", Target: "/deep", Optional: true, Why: "filesystem.allowRead"},
		},
		Tmpfs: []sandbox.Tmpfs{{Target: "/var/tmp", Size: 1 << 20, Mode: 0o1777}},
		Denies: []plan.Deny{
			{Path: ws + "/a/b/.env", Read: true, Rule: "**/.env"},
			{Path: ws + "/vault", Read: true, Rule: "vault"},
			{Path: ws + "/.git/hooks", Keep: true, Dir: true, Rule: "hooks"},
			{Path: ws + "/.git/config", Keep: true, Rule: "config"},
			{Path: ws + "/.mcp.json", Keep: true, Rule: "servers"},
			{Path: ws + "/.claude/skills", Keep: true, Dir: true, Rule: "skills"},
		},
	}
}

// TestWall holds by a real bwrap that what a plan closes is closed.
func TestWall(t *testing.T) {
	ws, mask, world := hostile(t)
	w := raise(t, world, mask)
	const (
		denied   = "Permission denied"
		readOnly = "Read-only file system"
		busy     = "Device or resource busy"
	)
	tests := []struct{ name, line, want string }{
		{"reads what is free", "cat free && cat a/b/code", "freecode"},
		{"writes what is free", "echo x > a/new && cat a/new", "x"},
		{"masked file", "cat a/b/.env", denied},
		{"masked file by its host path", "cat " + ws + "/a/b/.env", denied},
		{"masked file through root", "cat /proc/self/root" + ws + "/a/b/.env", denied},
		{"masked file through dots", "cat a/../a/b/./.env", denied},
		{"masked file by a link", "ln -s /workspace/a/b/.env l; cat l", denied},
		{"hard link of a masked file", "ln a/b/.env h && cat h", "failed to create hard link"},
		{"write to a masked file", "echo x > a/b/.env", readOnly},
		{"chmod of a masked file", "chmod 777 a/b/.env", readOnly},
		{"removal of a masked file", "rm -f a/b/.env", busy},
		{"masked folder", "ls vault", denied},
		{"below a masked folder", "cat vault/key", denied},
		{"write into a masked folder", "touch vault/x", denied},
		{"chmod of a masked folder", "chmod 777 vault", readOnly},
		{"view of what lies in it", "ls /deep", denied},
		{"rename of a folder above", "mv a z", busy},
		{"rename of the next folder above", "mv a/b a/z", busy},
		{"rename of the repository", "mv .git z", busy},
		{"rename by the host path", "mv " + ws + "/.git " + ws + "/z", busy},
		{"new hook", "touch .git/hooks/pre-commit", readOnly},
		{"old hook", "echo x > .git/hooks/x", readOnly},
		{"config", "echo x > .git/config", readOnly},
		{"config by replacing", "echo x > .git/c && mv .git/c .git/config", busy},
		{"index", "echo x > .git/index && cat .git/index", "x"},
		{"missing file that is kept", "echo x > .mcp.json", readOnly},
		{"missing file, made another way", "echo x > m && mv m .mcp.json", busy},
		{"missing folder that is kept", "mkdir -p .claude/skills", readOnly},
		{"missing folder, moved away", "mv .claude z", busy},
		{"unmount", "umount a/b/.env", "umount"},
		{"remount", "mount -o remount,rw,bind /workspace/.git/hooks", "mount"},
		{"namespace of its own", "unshare -Ur true", "unshare"},
		{"root", "touch /x", readOnly},
		{"made parents", "touch " + filepath.Dir(ws) + "/x", readOnly},
		{"devices", "touch /dev/x", readOnly},
		{"system", "touch /usr/x", readOnly},
		{"null", "echo x > /dev/null && echo fine", "fine"},
		{"size of shm", "head -c 100000 /dev/zero > /dev/shm/x", "No space left"},
		{"size of tmp", "head -c 2000000 /dev/zero > /var/tmp/x", "No space left"},
		{"processes", "ls -d /proc/[0-9]*", "/proc/1\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := w.sh(t, "exec 2>&1; "+tt.line); !strings.Contains(got, tt.want) {
				t.Errorf("%s: got %q, want %q", tt.line, got, tt.want)
			}
		})
	}
	for p, want := range map[string]string{"a/b/.env": "secret", ".git/config": "config", ".git/hooks/x": "hook", "vault/key": "key", ".mcp.json": ""} {
		if got, err := os.ReadFile(filepath.Join(ws, p)); err != nil || string(got) != want {
			t.Errorf("%s holds %q afterwards: %v", p, got, err)
		}
	}
}

// TestFrozenFolder holds that a link that has to stay does, and that the
// files beside it can be written to.
func TestFrozenFolder(t *testing.T) {
	ws, mask, world := hostile(t)
	if err := os.Symlink("a/b/code", filepath.Join(ws, ".envrc")); err != nil {
		t.Fatal(err)
	}
	world.Denies = []plan.Deny{{Path: ws + "/.envrc", Keep: true, Rule: "start-up"}}
	w := raise(t, world, mask)
	for line, want := range map[string]string{
		"rm -f .envrc":              "Read-only file system",
		"echo x > .envrc":           "Read-only file system",
		"echo x > a/b/code":         "Read-only file system",
		"echo x > new":              "Read-only file system",
		"mv a z":                    "Read-only file system",
		"echo x > free && cat free": "x",
		"echo x > a/n && cat a/n":   "x",
	} {
		if got := w.sh(t, "exec 2>&1; "+line); !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}

// TestRootShownByName holds that a wall can show the whole host.
func TestRootShownByName(t *testing.T) {
	ws, mask, world := hostile(t)
	world.Views = []plan.View{
		{Source: "/", Target: "/", Optional: true, Why: "filesystem.allowRead: /"},
		{Source: ws, Target: "/workspace", Write: true, Why: "workspace"},
	}
	world.Tmpfs = nil
	w := raise(t, world, mask)
	for line, want := range map[string]string{
		"cat " + ws + "/free":         "free",
		"echo x > " + ws + "/free":    "Read-only file system",
		"cat " + ws + "/a/b/.env":     "Permission denied",
		"cat /workspace/a/b/.env":     "Permission denied",
		"echo x > a/n && cat a/n":     "x",
		"touch /etc/x; touch /x":      "Read-only file system",
		"ls /proc | grep -c '^[0-9]'": "\n",
	} {
		if got := w.sh(t, "exec 2>&1; "+line); !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}
