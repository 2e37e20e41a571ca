package manager_test

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/provider"
)

// folderOfPerson makes a git repository that is an agent's own folder and belongs
// to an ordinary user, and returns it with settings by which the agent works in
// it.
func folderOfPerson(t *testing.T) (dir, settings string) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Fatal(err)
	}
	dir = tempDir(t, 0o755)
	must(t, os.WriteFile(filepath.Join(dir, "a"), []byte("1\n"), 0o644))
	onHost(t, dir, "init", "-q")
	onHost(t, dir, "add", ".")
	onHost(t, dir, "commit", "-qm", "first")
	give(t, dir)
	return dir, `{"agents": {"defaults": {"sandbox": {"workspaceAccess": "rw"}}, "list": [{"id": "main", "workspace": "` + dir + `"}]}}`
}

func give(t *testing.T, dir string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(p, 1000, 1000)
	}))
}

func onHost(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=b@c.d", "-c", "safe.directory=*", "-c", "init.defaultBranch=main"}, args...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
}

// inside runs a line that the policy for commands cannot read.
func inside(m *manager.Manager, line string) (string, manager.Outcome, error) {
	return run(m, "s", "x="+quoted(line)+`; python3 -c 'import subprocess, sys; sys.exit(subprocess.call(["sh", "-c", sys.argv[1]]))' "$x"`)
}

func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// TestDockerProtectsFolders holds that code in a container that can write in an
// agent's own folder cannot make what runs on the host there: by programs and by
// files, in the repository that was there, in one that a person makes and in one
// that code inside makes; that git works in it all the same; and that nothing is
// left in the folder.
func TestDockerProtectsFolders(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	dir, settings := folderOfPerson(t)
	m := r.manager(settings)
	before := namesIn(t, dir)
	closed := []string{
		".git/hooks/x", ".git/config", ".git/config.worktree", ".git/commondir", ".vscode/x", ".idea/x", ".zed/x",
		".claude/x", ".agents/x", ".codex/x", ".cursor/x", ".gemini/x", ".opencode/x",
	}
	refused := func(t *testing.T, names []string) {
		t.Helper()
		for _, name := range names {
			if name == ".git/config.worktree" && len(names) == len(closed) {
				// Closed as soon as it counts; see package protect.
				onHost(t, dir, "config", "extensions.worktreeConfig", "true")
				give(t, dir)
			}
			out, o, err := inside(m, "mkdir -p $(dirname "+name+") && echo evil >> "+name)
			if err != nil || o.Exit.Code == 0 {
				t.Errorf("a program writes %s: %q, %v", name, out, err)
			}
			if !o.Blocked && err == nil {
				t.Errorf("%s: the outcome does not say that it was blocked", name)
			}
			err = withFiles(t, m, "s", func(ctx context.Context, f manager.Share) error {
				return f.Write(ctx, name, strings.NewReader("evil"), sandbox.WriteOptions{})
			})
			if sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
				t.Errorf("files write %s: %v", name, err)
			}
			if text, _ := os.ReadFile(filepath.Join(dir, name)); strings.Contains(string(text), "evil") {
				t.Errorf("%s was written", name)
			}
		}
	}
	refused(t, closed)
	e, err := m.Explain(t.Context(), who("s"), nil, manager.Questions{Path: ".vscode/tasks.json"})
	must(t, err)
	if !slices.ContainsFunc(e.Verdicts, func(v manager.Verdict) bool {
		return v.Operation == "write" && v.Verdict == "deny" && strings.Contains(v.Reason, "protection: ")
	}) {
		t.Errorf("explain says of a closed path: %+v", e.Verdicts)
	}
	if !slices.ContainsFunc(e.Wall, func(s provider.Step) bool { return s.Target == "/workspace/.git/hooks" && s.Does == "read-only" }) {
		t.Errorf("explain says of what is closed: %+v", e.Wall)
	}
	for _, line := range []string{
		"mv .git .git2", "mv .git/hooks h", "mv .git/config c", "rm -rf .git/hooks", "ln .git/config c && echo >> c", "rmdir .claude", "mv .vscode v",
		"ln -s /tmp .git/hooks", "git config core.fsmonitor evil", "umount .git/hooks", "touch -d 1970-01-02 .git/config",
	} {
		if out, o, err := inside(m, line); err != nil || o.Exit.Code == 0 {
			t.Errorf("%s: %q, %v", line, out, err)
		}
	}
	inside(m, "rm -rf c h v") // what mv had copied by then
	if out, o, err := inside(m, "set -e; echo 2 > a; git -c user.name=a -c user.email=b commit -qam second; test -z \"$(git status --short)\"; git checkout -qb side; git log --oneline | wc -l; git stash list; git tag x"); err != nil || o.Exit.Code != 0 || !strings.Contains(out, "2") {
		t.Errorf("git inside: %q, exit %d, %v", out, o.Exit.Code, err)
	}
	for p, uid := range owners(t, dir) {
		if uid != 1000 {
			t.Errorf("%s belongs to %d", p, uid)
		}
	}

	t.Run("made inside", func(t *testing.T) {
		out, o, err := inside(m, "set -e; git init -q sub; printf '#!/bin/sh\n' > sub/.git/hooks/pre-commit; chmod +x sub/.git/hooks/pre-commit; git -C sub config core.fsmonitor evil")
		if err != nil || o.Exit.Code != 0 {
			t.Fatalf("%q, %d, %v", out, o.Exit.Code, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "sub/.git/hooks/pre-commit")); err == nil {
			t.Error("a hook that was made in a new repository is there for git on the host")
		}
		if text, err := os.ReadFile(filepath.Join(dir, "sub/.git/config")); err != nil || strings.Contains(string(text), "evil") {
			t.Errorf("the configuration of a new repository: %q, %v", text, err)
		}
		if len(o.Violations) == 0 {
			t.Error("the outcome does not say so")
		}
		refused(t, []string{"sub/.git/hooks/x", "sub/.git/config"})
	})
	t.Run("made by a person", func(t *testing.T) {
		onHost(t, dir, "init", "-q", "theirs")
		give(t, dir)
		refused(t, []string{"theirs/.git/hooks/x", "theirs/.git/config"})
	})
	t.Run("replaced by a person", func(t *testing.T) {
		onHost(t, dir, "config", "a.b", "c") // a new file in the place of the old one
		give(t, dir)
		refused(t, []string{".git/config"})
		must(t, os.Rename(filepath.Join(dir, ".git/hooks"), filepath.Join(dir, ".git/old")))
		must(t, os.Mkdir(filepath.Join(dir, ".git/hooks"), 0o755))
		must(t, os.Remove(filepath.Join(dir, ".claude")))
		give(t, dir)
		refused(t, []string{".git/hooks/x", ".claude/x"})
		must(t, os.RemoveAll(filepath.Join(dir, ".git/old")))
	})
	t.Run("in use", func(t *testing.T) {
		must(t, m.Files(t.Context(), manager.Request{Who: who("s")}, func(manager.Share) error {
			onHost(t, dir, "config", "a.b", "d")
			give(t, dir)
			_, _, err := run(m, "s", "true")
			if sandbox.CodeOf(err) != sandbox.CodeBusy {
				t.Errorf("a sandbox in use that has lost a mount: %v", err)
			}
			return nil
		}))
	})
	t.Run("nothing is left", func(t *testing.T) {
		mustRun(t, m, "s", "true")
		l, err := m.List(t.Context(), manager.ListOptions{})
		must(t, err)
		for _, c := range l.Containers { // behind our back
			must(t, r.engine.Remove(t.Context(), c.Name))
		}
		_, err = m.List(t.Context(), manager.ListOptions{})
		must(t, err)
		must(t, os.RemoveAll(filepath.Join(dir, "sub")))
		must(t, os.RemoveAll(filepath.Join(dir, "theirs")))
		if now := namesIn(t, dir); !slices.Equal(now, before) {
			t.Errorf("left in the folder: %q, before %q", now, before)
		}
	})
}

// namesIn returns the names at the top of a folder and of its git folder.
func namesIn(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	for _, d := range []string{dir, filepath.Join(dir, ".git")} {
		list, err := os.ReadDir(d)
		must(t, err)
		for _, e := range list {
			if e.Name() != "config.worktree" && e.Name() != "logs" {
				names = append(names, e.Name())
			}
		}
	}
	return names
}

func owners(t *testing.T, dir string) map[string]uint32 {
	t.Helper()
	out := map[string]uint32{}
	must(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			out[p] = info.Sys().(*syscall.Stat_t).Uid
		}
		return err
	}))
	return out
}
