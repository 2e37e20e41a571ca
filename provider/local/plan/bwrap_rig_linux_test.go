package plan_test

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
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
)

// The user id of the sandboxes of these tests when root runs them.
const nobody = 65534

// disk is a host that reads this machine's file system.
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

// A sandbox is a sandbox that a real bwrap builds from a plan.
type fixture struct {
	plan plan.Plan
	args []string
	bin  string
}

// raise plans w and creates the stubs.
func raise(t *testing.T, w plan.World, mask string) fixture {
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
	_, p, err := plan.Draw(w, disk{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range p.Placeholders {
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
	return fixture{plan: p, bin: bin, args: plan.BwrapArgs(p, plan.BwrapOptions{
		MaskFile: mask, UID: 1000, GID: 1000, Hostname: "wall", Workdir: "/workspace",
		Env: map[string]string{"PATH": "/usr/bin:/bin"}, DisableUserns: true,
	})}
}

// give changes the owner of p and everything below it to that user when root
// runs the test.
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

// sh runs a shell line in a new sandbox and returns its output.
func (w fixture) sh(t *testing.T, line string) string {
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

// hostile creates a workspace with files of every kind that matters to a plan.
func hostile(t *testing.T) (ws, mask string, w plan.World) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for d := dir; d != "/" && d != os.TempDir(); d = filepath.Dir(d) {
		_ = os.Chmod(d, 0o755) // other users need to pass through
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
