package hostscan

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// worktree creates the repository main with a worktree at own and returns the
// request for it.
func worktree(t *testing.T) (protectRig, ProtectRequest) {
	r := protectNewRig(t)
	r.repo("main")
	r.git("main", "worktree", "add", "-q", "-b", "topic", r.at("own"))
	return r, ProtectRequest{Own: r.at("own"), Found: []string{r.at("own/.git")}}
}

func TestWorktree(t *testing.T) {
	r, q := worktree(t)
	for _, relative := range []bool{false, true} {
		if relative { // as git 2.48 writes them with worktree.useRelativePaths
			r.write("own/.git", "gitdir: ../main/.git/worktrees/own\n")
			r.write("main/.git/worktrees/own/gitdir", "../../../../own/.git\n")
		}
		got := r.rules(q)
		r.want(r.views(got.Views), "main/.git", "main/.git/worktrees/own write", "main/.git/objects write", "main/.git/refs write",
			"main/.git/logs write")
		r.want(r.lines(got.Denies, ofGit...),
			"main/.git/commondir keep", "main/.git/config keep", "main/.git/config.worktree keep", "main/.git/hooks keep dir",
			"main/.git/worktrees/own/commondir", "main/.git/worktrees/own/config.worktree keep", "main/.git/worktrees/own/gitdir",
			"own/.git keep")
		if len(got.Notes) != 0 {
			t.Errorf("notes %q", got.Notes)
		}
	}
	got := r.rules(ProtectRequest{Own: q.Own, Writable: []string{r.at("main")}})
	if len(got.Views) != 0 {
		t.Errorf("a main repository that can be written anyway gets views: %+v", got.Views)
	}
	got = r.rules(ProtectRequest{Writable: []string{q.Own}, Found: q.Found})
	if len(got.Views) != 0 {
		t.Errorf("a worktree that is not the agent's own folder opens %+v", got.Views)
	}
	r.dir("own/sub")
	r.must(os.Rename(r.at("own/.git"), r.at("own/sub/.git")))
	r.write("main/.git/worktrees/own/gitdir", r.at("own/sub/.git")+"\n")
	got = r.rules(ProtectRequest{Own: q.Own, Found: []string{r.at("own/sub/.git")}})
	if len(got.Views) != 0 {
		t.Errorf("a worktree below the agent's own folder opens %+v", got.Views)
	}
}

// TestPlantedPointers verifies that no file that code inside could have made
// opens a folder of the host.
func TestPlantedPointers(t *testing.T) {
	tests := []struct {
		name  string
		plant func(r protectRig)
	}{
		{"to another repository", func(r protectRig) { r.write("own/.git", "gitdir: "+r.at("main/.git")) }},
		{"to a worktree of somebody else", func(r protectRig) {
			r.git("main", "worktree", "add", "-q", "-b", "b", r.at("theirs"))
			r.write("own/.git", "gitdir: "+r.at("main/.git/worktrees/theirs"))
		}},
		{"to a folder of keys", func(r protectRig) { r.write("own/.git", "gitdir: "+r.at("keys")) }},
		{"to nothing", func(r protectRig) { r.write("own/.git", "gitdir: "+r.at("none")) }},
		{"to itself", func(r protectRig) { r.write("own/.git", "gitdir: .git") }},
		{"two lines", func(r protectRig) { r.write("own/.git", "gitdir: x\n"+r.at("main/.git/worktrees/own")) }},
		{"without the word", func(r protectRig) { r.write("own/.git", r.at("main/.git/worktrees/own")) }},
		{"NUL", func(r protectRig) { r.write("own/.git", "gitdir: "+r.at("main/.git/worktrees/own")+"\x00x") }},
		{"empty", func(r protectRig) { r.write("own/.git", "") }},
		{"long", func(r protectRig) {
			r.write("own/.git", "gitdir: "+strings.Repeat("./", maxPointer)+r.at("main/.git/worktrees/own"))
		}},
		{"relative and out", func(r protectRig) { r.write("own/.git", "gitdir: ../keys/../main/.git") }},
		{"a loop of links", func(r protectRig) {
			r.link("loop", "own/loop")
			r.write("own/.git", "gitdir: loop")
		}},
		{"commondir leads elsewhere", func(r protectRig) { r.write("main/.git/worktrees/own/commondir", r.at("keys")) }},
		{"commondir is missing", func(r protectRig) { r.must(os.Remove(r.at("main/.git/worktrees/own/commondir"))) }},
		{"record of another place", func(r protectRig) { r.write("main/.git/worktrees/own/gitdir", r.at("theirs/.git")) }},
		{"record is missing", func(r protectRig) { r.must(os.Remove(r.at("main/.git/worktrees/own/gitdir"))) }},
		{"record is a link", func(r protectRig) {
			r.must(os.Rename(r.at("main/.git/worktrees/own/gitdir"), r.at("record")))
			r.link(r.at("record"), "main/.git/worktrees/own/gitdir")
		}},
		{"worktree that is a link to elsewhere", func(r protectRig) {
			r.must(os.Rename(r.at("main/.git/worktrees/own"), r.at("fake")))
			r.link(r.at("fake"), "main/.git/worktrees/own")
		}},
		{"fake main repository without HEAD", func(r protectRig) { r.must(os.Remove(r.at("main/.git/HEAD"))) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, q := worktree(t)
			r.write("keys/id", "secret")
			tt.plant(r)
			got := r.rules(q)
			if len(got.Views) != 0 {
				t.Errorf("it opens %q", r.views(got.Views))
			}
			if lines := r.lines(got.Denies); !slices.Contains(lines, "own/.git keep") {
				t.Errorf(".git is not closed: %q", lines)
			}
			if len(got.Notes) == 0 {
				t.Error("nobody is told why git does not work")
			}
		})
	}
}

// TestFakeMainRepository verifies that links in a main repository do not open
// their targets.
func TestFakeMainRepository(t *testing.T) {
	for _, name := range []string{"objects", "refs", "logs"} {
		r, q := worktree(t)
		r.must(os.Rename(r.at("main/.git/"+name), r.at("real-"+name)))
		r.link(r.at("real-"+name), "main/.git/"+name)
		got := r.rules(q)
		for _, v := range r.views(got.Views) {
			if strings.Contains(v, name) {
				t.Errorf("opens %s", v)
			}
		}
		if name != "logs" && len(got.Notes) == 0 {
			t.Error("nobody is told that commits fail")
		}
	}
	testenv.Require(t, "root")
	r, q := worktree(t)
	r.must(os.Chown(r.at("main/.git"), 65534, 65534))
	if got := r.rules(q); len(got.Views) != 0 {
		t.Errorf("a repository of another user is opened: %+v", got.Views)
	}
}

// TestCommitInWorktree verifies that the views and denies allow git to commit
// in a worktree, and allow no other change of the main repository.
func TestCommitInWorktree(t *testing.T) {
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		testenv.Lack(t, "local", err)
	}
	r, q := worktree(t)
	got := r.rules(q)
	args := []string{"--ro-bind", "/", "/", "--dev", "/dev", "--unshare-all", "--cap-drop", "ALL", "--bind", q.Own, q.Own}
	for _, v := range got.Views {
		how := "--ro-bind"
		if v.Write {
			how = "--bind"
		}
		args = append(args, how, v.Source, v.Target)
	}
	for _, d := range got.Denies {
		if _, err := os.Lstat(d.Path); err == nil {
			args = append(args, "--ro-bind", d.Path, d.Path)
		}
	}
	run := func(script string) error {
		cmd := exec.Command(bwrap, append(args, "--chdir", q.Own, "sh", "-ec", script)...)
		cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@x", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@x", "HOME=/nonexistent")
		out, err := cmd.CombinedOutput()
		t.Logf("%s: %v\n%s", script, err, out)
		return err
	}
	if err := run("echo x > new && git add new && git commit -qm second && git branch other && git stash list && git status"); err != nil {
		t.Fatalf("commit: %v", err)
	}
	if log := r.git("main", "log", "-1", "--format=%s", "topic"); log != "second\n" {
		t.Errorf("the main repository has %q", log)
	}
	main := r.at("main/.git")
	for _, script := range []string{
		"git config core.fsmonitor /bin/sh", "echo x > " + main + "/hooks/pre-commit", "echo x >> " + main + "/config",
		"echo x > .git", "mv .git git2", "rm .git", "echo ../../evil > " + main + "/worktrees/own/commondir",
		"mv " + main + " " + main + "2", "mv " + main + "/hooks " + main + "/h", "echo x > " + main + "/commondir",
		"rm " + main + "/worktrees/own/gitdir", "echo x > " + main + "/HEAD", "git worktree add ../w3",
	} {
		if run(script) == nil {
			t.Errorf("%s: done", script)
		}
	}
}
