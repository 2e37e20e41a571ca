//go:build linux

package local_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
)

// ownRepo puts a git repository with one commit into a folder that is not a
// scratch workspace, and has s work in it.
func ownRepo(t testing.TB, r *rig, s *sandbox.Spec) string {
	t.Helper()
	own := filepath.Join(filepath.Dir(r.home), "own")
	must(t, os.Mkdir(own, 0o755))
	give(t, *s, filepath.Join(own, "file"), "text")
	hostGit(t, own, "init", "-q", "-b", "main")
	hostGit(t, own, "add", ".")
	hostGit(t, own, "commit", "-qm", "first")
	must(t, filepath.WalkDir(own, func(p string, _ os.DirEntry, err error) error {
		if err == nil {
			err = os.Lchown(p, s.UID, s.GID)
		}
		return err
	}))
	for i := range s.Mounts {
		if s.Mounts[i].Role == sandbox.RoleWorkspace {
			s.Mounts[i].Source = own
		}
	}
	return own
}

func hostGit(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "safe.directory=*", "-c", "user.name=a", "-c", "user.email=a@x"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, _ := cmd.CombinedOutput() // what it could not do is for the caller to see
	return string(out)
}

// TestNoCommandHasGitOnTheHostRunIt holds that after each command, and while it
// runs in the folder itself, git on the host runs nothing that it has made.
func TestNoCommandHasGitOnTheHostRunIt(t *testing.T) {
	const evil = `printf '#!/bin/sh\ntouch '"$PWD"'/ran\n' > evil.sh; chmod +x evil.sh; `
	const bare = `mkdir -p objects refs; echo "ref: refs/heads/main" > HEAD; printf '[core]\nrepositoryformatversion = 0\nworktree = .\nfsmonitor = '"$PWD"'/evil.sh\n' > config; `
	for name, tc := range map[string]struct{ script, at, want string }{
		"HEAD removed":     {evil + "rm .git/HEAD; " + bare, ".", "no longer takes"},
		"HEAD garbled":     {evil + "echo x > .git/HEAD; " + bare, ".", "no longer takes"},
		"refs renamed":     {evil + "mv .git/refs .git/r; " + bare, ".", "no longer takes"},
		"objects renamed":  {evil + "mv .git/objects .git/o; " + bare, ".", "no longer takes"},
		"objects by a way": {evil + "rm .git/HEAD; mkdir -p x; (cd x; " + bare + "); echo x > commondir; cp x/HEAD x/config .", ".", "no longer takes"},
		"config.worktree":  {evil + "printf '[core]\nfsmonitor = '$PWD'/evil.sh\n' > .git/config.worktree", ".", ""},
		"new repository":   {evil + "git init -q new; git -C new config core.fsmonitor $PWD/evil.sh", "new", "core.fsmonitor"},
		"in a background":  {evil + "(git init -q new; git -C new config core.fsmonitor $PWD/evil.sh) & wait", "new", "core.fsmonitor"},
	} {
		t.Run(name, func(t *testing.T) {
			var own string
			g := newGuardRig(t, func(r *rig, s *sandbox.Spec) { own = ownRepo(t, r, s) })
			p, err := g.sb.Start(context.Background(), sandbox.Command{Args: []string{"sh", "-c", tc.script}})
			must(t, err)
			_, err = p.Wait()
			must(t, err)
			if name == "config.worktree" {
				hostGit(t, own, "config", "extensions.worktreeConfig", "true")
			}
			for range 2 {
				hostGit(t, filepath.Join(own, tc.at), "add", "-A")
				hostGit(t, filepath.Join(own, tc.at), "status")
			}
			if _, err := os.Lstat(filepath.Join(own, "ran")); err == nil {
				t.Error("git on the host ran what the command has made")
			}
			var reported []string
			for _, v := range p.(sandbox.ViolationObserver).Violations() {
				reported = append(reported, v.Resource+": "+v.Rule)
			}
			if all := strings.Join(reported, "\n"); !strings.Contains(all, tc.want) || !strings.Contains(g.warned(), tc.want) {
				t.Errorf("reported %q, warned of %q", all, g.warned())
			}
		})
	}
}

// TestOrdinaryWorkInARepository holds that what keeps the folder from becoming
// a bare repository does no harm.
func TestOrdinaryWorkInARepository(t *testing.T) {
	var own string
	g := newGuardRig(t, func(r *rig, s *sandbox.Spec) { own = ownRepo(t, r, s) })
	out, code := sh(t, g.sb, `export HOME=/tmp; git config --global user.name a; git config --global user.email a@x
set -e; echo more >> file; git diff --stat HEAD; git log --oneline HEAD | wc -l; git status --porcelain; git add -A; git commit -qm second
git stash list; git init -q new; git -C new status --short; git clone -q . copy; git status --porcelain; cat .git/HEAD`)
	if code != 0 || !strings.Contains(out, " M file\n") || strings.Contains(out, "refs\n") && strings.Contains(out, "?? refs") || !strings.HasSuffix(out, "?? copy/\n?? new/\nref: refs/heads/main") {
		t.Errorf("%d\n%s", code, out)
	}
	if got := hostGit(t, own, "status", "--porcelain"); got != "?? copy/\n?? new/\n" {
		t.Errorf("git on the host sees %q", got)
	}
	if w := g.warned(); strings.Count(w, "was made in the sandbox") != 2 || strings.Contains(w, "kept as") {
		t.Errorf("warned of %q", w)
	}
	if out, _ := sh(t, g.sb, "git -C new config core.fsmonitor x"); !strings.Contains(out, "error") {
		t.Errorf("the next command may write there: %s", out)
	}
}
