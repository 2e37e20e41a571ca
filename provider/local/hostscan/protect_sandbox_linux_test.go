package hostscan

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
)

// disk is a host that reads this machine's file system, except stubs.
type disk struct{ placeholders *Placeholders }

func (d disk) Kind(p string) (plan.Kind, error) {
	fi, err := os.Lstat(p)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && d.placeholders.Is(p):
		return plan.Missing, nil
	case err != nil:
		return plan.Missing, err
	case fi.IsDir():
		return plan.Dir, nil
	case fi.Mode()&fs.ModeSymlink != 0:
		return plan.Link, nil
	}
	return plan.File, nil
}

func (disk) Names(dir string) (names []string, err error) {
	list, err := os.ReadDir(dir)
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names, err
}

func (disk) Link(p string) (plan.Target, error) {
	to, err := filepath.EvalSymlinks(p)
	return plan.Target{Text: to, Real: to}, err
}

// An instance is a sandbox of bubblewrap around the folder own of a rig.
type fixture struct {
	protectRig
	args []string
	held *Held
	plan plan.Plan
}

// raise builds the sandbox from the scan, rules, plan and stubs.
func (r protectRig) raise(placeholders *Placeholders) fixture {
	r.t.Helper()
	found, err := New(Limits{}).Scan(context.Background(), Request{Roots: []string{r.at("own")}, Find: Finds()})
	r.must(err)
	q := ProtectRequest{Own: r.at("own"), Found: found.Found}
	if r.there("home") {
		q.Home, q.Git = r.at("home"), UserGit(r.at("home"), noEnv)
	}
	rules := r.rules(q)
	w := plan.World{
		ShmSize: 1 << 16, Denies: append(slices.DeleteFunc(found.Denies(), func(d plan.Deny) bool { return d.Rule == RuleSocket }), rules.Denies...),
		Views: append(rules.Views, plan.View{Source: r.at("own"), Target: r.at("own"), Write: true, Why: "own"}),
	}
	for _, name := range []string{"/usr", "/bin", "/lib", "/lib64", "/etc"} {
		if to, err := os.Readlink(name); err == nil {
			w.Symlinks = append(w.Symlinks, plan.Symlink{Target: name, To: to})
		} else if _, err := os.Lstat(name); err == nil {
			w.Views = append(w.Views, plan.View{Source: name, Target: name, Why: "system"})
		}
	}
	_, p, err := plan.Draw(w, disk{placeholders})
	r.must(err)
	held, err := placeholders.Make(context.Background(), p.Placeholders)
	r.must(err)
	mask := r.at("mask")
	if _, err := os.Lstat(mask); err != nil {
		r.must(os.WriteFile(mask, nil, 0))
	}
	return fixture{r, plan.BwrapArgs(p, plan.BwrapOptions{
		MaskFile: mask, UID: 1000, GID: 1000, Workdir: r.at("own"), DisableUserns: true,
		Env: map[string]string{
			"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@x",
			"GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@x",
		},
	}), held, p}
}

// run runs a script inside, as an ordinary user of the host.
func (w fixture) run(script string) (string, error) {
	w.t.Helper()
	file, err := os.CreateTemp(w.t.TempDir(), "")
	w.must(err)
	defer file.Close()
	_, err = file.WriteString(strings.Join(w.args, "\x00") + "\x00")
	w.must(err)
	_, err = file.Seek(0, 0)
	w.must(err)
	cmd := exec.Command("bwrap", "--args", "3", "--", "/bin/sh", "-ec", script)
	cmd.ExtraFiles = []*os.File{file}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	out, err := cmd.CombinedOutput()
	if strings.Contains(string(out), "bwrap: No permissions") {
		testenv.Lack(w.t, "local", string(out))
	}
	return string(out), err
}

// give changes the owner of everything below own and main to the sandbox's
// user.
func (r protectRig) give() {
	r.t.Helper()
	for d := r.root; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		os.Chmod(d, 0o755)
	}
	if os.Geteuid() == 0 {
		for _, dir := range slices.DeleteFunc([]string{"own", "main"}, func(d string) bool { return !r.there(d) }) {
			r.must(filepath.WalkDir(r.at(dir), func(p string, _ fs.DirEntry, err error) error {
				return errors.Join(err, os.Lchown(p, 65534, 65534))
			}))
		}
	}
}

func (r protectRig) placeholders() *Placeholders {
	r.t.Helper()
	d, err := OpenPlaceholders(r.at("state"))
	r.must(err)
	return d
}

// tree lists the paths below own.
func (r protectRig) tree() string {
	r.t.Helper()
	var b strings.Builder
	r.must(filepath.WalkDir(r.at("own"), func(p string, _ fs.DirEntry, err error) error {
		if !strings.Contains(p, "/objects") {
			b.WriteString(p + "\n")
		}
		return err
	}))
	return b.String()
}

// TestSandboxAroundRepository verifies with a real sandbox and a real git that
// work in a repository succeeds while files that the host would run stay
// closed, and that nothing is left behind.
func TestSandboxAroundRepository(t *testing.T) {
	if _, err := exec.LookPath("bwrap"); err != nil {
		testenv.Lack(t, "local", err)
	}
	r := protectNewRig(t)
	r.repo("own")
	r.must(os.RemoveAll(r.at("own/.git/hooks")))
	r.give()
	before, placeholders := r.tree(), r.placeholders()
	w := r.raise(placeholders)
	if again := r.raise(placeholders); strings.Join(again.args, "\n") != strings.Join(w.args, "\n") {
		t.Error("a second sandbox differs from the first, although only its stubs were made")
	} else {
		r.must(again.held.Release())
	}
	if out, err := w.run("echo x >> file && git add -A && git commit -qm second && git checkout -qb b && git stash list && git gc -q && git status --short"); err != nil || out != "" {
		t.Errorf("work in the repository: %v\n%s", err, out)
	}
	if out := r.git("own", "-c", "safe.directory=*", "status", "--short"); out != "" {
		t.Errorf("git on the host sees %q while the sandbox stands", out)
	}
	if out := r.git("own", "-c", "safe.directory=*", "log", "--format=%s", "--name-only"); out != "second\n\nfile\nfirst\n\nfile\n" {
		t.Errorf("committed: %q", out)
	}
	for _, script := range []string{
		"git config core.fsmonitor x", "echo x > .git/config", "echo x > .git/hooks/post-checkout", "rmdir .git/hooks", "mv .git/hooks .git/h",
		"echo ../evil > .git/commondir", "rm -f .git/commondir", "mv .git git2", "rm -rf .git/config", "ln -f file .git/config",
		"echo x > refs", "rm -f refs", "mkdir refs", "mv refs r", "rm -f commondir; echo x > commondir", "rm -f .git/config.worktree", "echo x > .git/config.worktree",
		"mkdir .claude/skills", "rmdir .claude", "mv .claude c", "mkdir -p .codex/x", "echo x > .agents/x", "chmod 777 .claude", "touch .git/hooks/x",
	} {
		if out, err := w.run(script); err == nil {
			t.Errorf("%s: done\n%s", script, out)
		}
	}
	r.must(w.held.Release())
	if after := r.tree(); !strings.Contains(before, "/.git/config\n") || strings.Contains(after, "commondir") || strings.Contains(after, "own/refs") || strings.Contains(after, "config.worktree") || strings.Contains(after, ".claude") ||
		strings.Contains(after, "/hooks") || strings.Contains(after, "sandbox-stub") {
		t.Errorf("left behind:\n%s", after)
	}
}

// TestSandboxAroundFolderWithoutRepository verifies that no repository can be
// created.
func TestSandboxAroundFolderWithoutRepository(t *testing.T) {
	if _, err := exec.LookPath("bwrap"); err != nil {
		testenv.Lack(t, "local", err)
	}
	r := protectNewRig(t)
	r.dir("own")
	r.give()
	before := r.tree()
	w := r.raise(r.placeholders())
	for _, script := range []string{"git init", "mkdir -p .git/hooks", "rm -r HEAD", "mv HEAD h", "echo 'ref: refs/heads/x' > HEAD", "git init --separate-git-dir=g ."} {
		if out, err := w.run(script); err == nil {
			t.Errorf("%s: done\n%s", script, out)
		}
	}
	w.run("git init --bare . || :; git init --bare . && git config core.fsmonitor 'touch ran' && git config core.bare false")
	cmd := exec.Command("git", "-c", "safe.directory=*", "status")
	cmd.Dir = r.at("own")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "not a git repository") {
		t.Errorf("git on the host takes the folder for a repository: %v\n%s", err, out)
	}
	if out, err := w.run("mkdir sub && cd sub && git init -q && git commit -q --allow-empty -m x && cd .. && rm -rf sub objects refs config hooks branches description info g"); err != nil {
		t.Errorf("a repository below: %v\n%s", err, out)
	}
	r.must(w.held.Release())
	if after := r.tree(); after != before {
		t.Errorf("left behind:\n%s", after)
	}
}
