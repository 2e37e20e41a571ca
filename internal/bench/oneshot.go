//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// ordinary is the user of the rows for ordinary users: an id that no user of
// the machine has, so that nothing of a real user counts.
const ordinary = 61234

// files is how many files the repository of those rows holds.
const files = 300

// A caller is who makes one-shot calls: a user with a home and a state folder
// of his own.
type caller struct {
	uid        int
	home       string
	scratch    string // a folder that bubblewrap shows
	repository string
}

// newCaller makes the folders of a caller, below the rig's temporary folder.
// Sandboxes of root run as another user, to whom his repository belongs.
func (s *Session) newCaller(ctx context.Context, uid int) (caller, error) {
	base := filepath.Join(filepath.Dir(s.Rig.StateDir()), fmt.Sprintf("caller-%d", uid))
	c := caller{uid: uid, home: filepath.Join(base, "home"), scratch: filepath.Join(base, "scratch"), repository: filepath.Join(base, "repository")}
	if _, err := os.Stat(base); err == nil {
		return c, nil // another row has made them
	}
	if err := os.Chmod(filepath.Dir(base), 0o711); err != nil { // the state folder in it is root's alone
		return c, err
	}
	for _, dir := range []string{c.home, c.scratch, c.repository} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return c, err
		}
	}
	if err := os.WriteFile(filepath.Join(c.home, "settings.json"), []byte("{}\n"), 0o644); err != nil {
		return c, err
	}
	for i := range files {
		dir := filepath.Join(c.repository, fmt.Sprintf("part%02d", i%20))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return c, err
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("file%03d.txt", i)), []byte("some text\n"), 0o644); err != nil {
			return c, err
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=bench", "-c", "user.email=bench@localhost", "commit", "-q", "-m", "files"}} {
		git := exec.CommandContext(ctx, "git", append([]string{"-C", c.repository}, args...)...)
		git.Env = append(os.Environ(), "HOME="+c.home, "GIT_CONFIG_NOSYSTEM=1")
		if out, err := git.CombinedOutput(); err != nil {
			return c, wrong("git %s: %v: %s", args[0], err, out)
		}
	}
	return c, c.own(base)
}

// own gives the folders to their user.
func (c caller) own(base string) error {
	return filepath.WalkDir(base, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		uid := c.uid
		if uid == 0 && (path == c.repository || strings.HasPrefix(path, c.repository+"/")) {
			uid = ordinary
		}
		return os.Lchown(path, uid, uid)
	})
}

// command does nothing but run args as the caller, which has to succeed and to
// be silent.
func (c caller) command(guest string, args ...string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		var out, errOut bytes.Buffer
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = "/", &out, &errOut
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.home, "SANDBOX_GUEST=" + guest}
		if c.uid != os.Geteuid() {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(c.uid), Gid: uint32(c.uid)}}
		}
		return silent(0, &out, &errOut, cmd.Run())
	}
}

// typed is bubblewrap as people type it: the system read-only, one folder to
// work in, everything else new.
func typed(folder string) ([]string, error) {
	args := []string{"bwrap", "--unshare-all", "--die-with-parent", "--new-session"}
	for _, dir := range []string{"/usr", "/etc", "/bin", "/sbin", "/lib", "/lib64"} {
		st, err := os.Lstat(dir)
		switch {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			return nil, err
		case st.Mode()&os.ModeSymlink != 0:
			to, err := os.Readlink(dir)
			if err != nil {
				return nil, err
			}
			args = append(args, "--symlink", to, dir)
		default:
			args = append(args, "--ro-bind", dir, dir)
		}
	}
	return append(args, "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--bind", folder, "/workspace", "--chdir", "/workspace", truePath), nil
}

// once is a one-shot call of uid with a scratch workspace or a repository,
// beside bubblewrap typed by hand, by the same user on a folder of his. The
// session is there already, its sandbox is put up and ends with each call.
func (s *Session) once(uid int, repository bool) func(context.Context) (operation, error) {
	return func(ctx context.Context) (operation, error) {
		lacks := func(why string) operation {
			return operation{ways: []way{{name: WayHand, lacks: why}, {name: WayLocal, lacks: why}}}
		}
		if s.local == nil {
			return lacks(s.noLocal), nil
		}
		if _, err := exec.LookPath("git"); err != nil {
			return lacks(err.Error()), nil
		}
		c, err := s.newCaller(ctx, uid)
		if err != nil {
			return operation{}, err
		}
		folder := c.scratch
		if repository {
			folder = c.repository
		}
		if err := c.command(s.Guest, "test", "-x", s.Program, "-a", "-x", s.Guest, "-a", "-w", folder)(ctx); err != nil {
			return lacks(fmt.Sprintf("user %d cannot start %s, or not use %s", uid, s.Program, folder)), nil
		}
		hand, err := typed(folder)
		if err != nil {
			return operation{}, err
		}
		args := []string{s.Program, "--config", filepath.Join(c.home, "settings.json"), "--state-dir", filepath.Join(c.home, "state"), "--provider", "local", "--session", "scratch", "run", "--", truePath}
		if repository {
			args = append(args[:8:8], "repository", "run", "--workspace", c.repository, "--", truePath)
		}
		return operation{rounds: 60, cold: true, ways: []way{
			{name: WayHand, turn: 1, take: timed(c.command(s.Guest, hand...), nil)},
			{name: WayLocal, turn: 1, take: timed(c.command(s.Guest, args...), nil)},
		}}, nil
	}
}
