package hostscan

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// found returns the places of repositories below the folder rel.
func (r protectRig) found(rel string) []string {
	r.t.Helper()
	res, err := New(Limits{}).Scan(context.Background(), Request{Roots: []string{r.at(rel)}, Find: Finds()})
	r.must(err)
	return res.Found
}

// evil creates a script that leaves a mark when it runs.
func (r protectRig) evil(rel string) string {
	r.t.Helper()
	r.write(rel, "#!/bin/sh\ntouch '"+r.at("ran")+"'\n")
	r.must(os.Chmod(r.at(rel), 0o755))
	return r.at(rel)
}

// people runs what a person's editor and shell run in a folder, and ignores
// errors.
func (r protectRig) people(rel string) {
	r.t.Helper()
	for _, args := range [][]string{{"status"}, {"status", "--porcelain=2"}, {"diff"}, {"log", "-p"}, {"add", "-A"}, {"commit", "-qm", "x"}, {"fetch"}, {"stash"}, {"worktree", "list"}, {"fsmonitor--daemon", "status"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = r.at(rel)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@x",
			"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@x", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*", "GIT_TERMINAL_PROMPT=0")
		_ = cmd.Run() // most fail: only the programs that they start matter
	}
}

// TestHold verifies that nothing which code inside creates in a folder makes
// git on the host run a program of its choice, and that Hold reports what code
// inside broke.
func TestHold(t *testing.T) {
	fsmonitor := func(r protectRig) string {
		return "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = " + r.evil("own/evil.sh") + "\n\thooksPath = " + r.at("own/hooks.d") + "\n[remote \"origin\"]\n\turl = ssh://x/y\n"
	}
	bare := func(r protectRig, rel, config string) {
		r.dir(rel + "/objects")
		r.dir(rel + "/refs")
		r.write(rel+"/config", config)
		r.write(rel+"/HEAD", "ref: refs/heads/main\n")
	}
	for name, tc := range map[string]struct {
		plant  func(r protectRig)
		at     string // where a person then works
		want   string // part of a report
		silent bool   // nothing would have run: only the report matters
	}{
		"new repository": {func(r protectRig) { r.repo("own/new"); r.write("own/new/.git/config", fsmonitor(r)) }, "own/new", "core.fsmonitor", false},
		"renamed into place": {func(r protectRig) {
			r.repo("own/new")
			r.write("own/new/.git/config", fsmonitor(r))
			r.must(os.Rename(r.at("own/new"), r.at("own/other")))
		}, "own/other", "core.fsmonitor", false},
		"in the index of the outer one": {func(r protectRig) {
			r.repo("own/sub")
			r.git("own", "-c", "advice.addEmbeddedRepo=false", "add", "sub")
			r.write("own/sub/.git/config", "[core]\n\tfsmonitor = \""+r.evil("own/sub/evil.sh")+"\"\n")
		}, "own", "core.fsmonitor", false},
		"hooks": {func(r protectRig) {
			r.repo("own/new")
			r.evil("own/new/.git/hooks/pre-commit")
			r.evil("own/new/.git/hooks/post-index-change")
		}, "own/new", "hooks", false},
		"a link for hooks": {func(r protectRig) {
			r.repo("own/new")
			r.evil("own/h/post-index-change")
			r.must(os.RemoveAll(r.at("own/new/.git/hooks")))
			r.link("../../h", "own/new/.git/hooks")
		}, "own/new", "links", false},
		"config.worktree": {func(r protectRig) {
			r.repo("own/new")
			r.git("own/new", "config", "extensions.worktreeConfig", "true")
			r.write("own/new/.git/config.worktree", "[core]\n\tfsmonitor = "+r.evil("own/evil.sh")+"\n")
		}, "own/new", "core.fsmonitor", false},
		"include": {func(r protectRig) {
			r.repo("own/new")
			r.write("own/x.conf", "[core]\n\tfsmonitor = "+r.evil("own/evil.sh")+"\n")
			r.git("own/new", "config", "include.path", r.at("own/x.conf"))
		}, "own/new", "include.path", false},
		"filter": {func(r protectRig) {
			r.repo("own/new")
			r.write("own/new/.gitattributes", "* filter=x\n")
			r.git("own/new", "config", "filter.x.clean", r.evil("own/evil.sh"))
		}, "own/new", "filter.x.clean", false},
		"ssh": {func(r protectRig) {
			r.repo("own/new")
			r.git("own/new", "config", "core.sshCommand", r.evil("own/evil.sh"))
			r.git("own/new", "remote", "add", "origin", "ssh://h/p")
		}, "own/new", "core.sshcommand", false},
		"read in two ways": {func(r protectRig) {
			r.repo("own/new")
			r.write("own/new/.git/config", "[core]\n\tabbrev = \"7\\\n\"\n[user \"a\\\"]\"]\n\tname = \"x # y\"\n")
		}, "own/new", "two ways", true},
		"pointer to a folder": {func(r protectRig) {
			r.repo("own/real")
			r.write("own/real/.git/config", fsmonitor(r))
			r.must(os.Rename(r.at("own/real/.git"), r.at("own/real/store")))
			r.write("own/new/.git", "gitdir: ../real/store\n")
		}, "own/new", "core.fsmonitor", false},
		"pointer by a link": {func(r protectRig) {
			r.repo("own/real")
			r.write("own/real/.git/config", fsmonitor(r))
			r.must(os.Rename(r.at("own/real/.git"), r.at("own/real/store")))
			r.link("../real/store", "own/new/.git")
		}, "own/new", "core.fsmonitor", false},
		"new bare repository": {func(r protectRig) {
			r.git("own", "init", "-q", "--bare", "b.git")
			bare(r, "own/b.git", "[core]\n\trepositoryformatversion = 0\n\tworktree = .\n\tfsmonitor = "+r.evil("own/evil.sh")+"\n")
		}, "own/b.git", "core.fsmonitor", false},
		"bare with a work tree": {func(r protectRig) {
			bare(r, "own/d", "[core]\n\trepositoryformatversion = 0\n\tworktree = .\n\tfsmonitor = "+r.evil("own/evil.sh")+"\n")
		}, "own/d", "core.fsmonitor", false},
		"bare beside a broken repository": {func(r protectRig) {
			r.must(os.Remove(r.at("own/nested/.git/HEAD")))
			bare(r, "own/nested", "[core]\n\trepositoryformatversion = 0\n\tworktree = .\n\tfsmonitor = "+r.evil("own/evil.sh")+"\n")
		}, "own/nested", "a bare repository", false},
		"bare beside a garbled HEAD": {func(r protectRig) {
			r.write("own/nested/.git/HEAD", "nothing\n")
			bare(r, "own/nested", "[core]\n\trepositoryformatversion = 0\n\tworktree = .\n\tfsmonitor = "+r.evil("own/evil.sh")+"\n")
		}, "own/nested", "a bare repository", false},
		"bare with its objects elsewhere": {func(r protectRig) {
			r.must(os.Rename(r.at("own/nested/.git/refs"), r.at("own/nested/.git/r")))
			bare(r, "own/nested/x", "[core]\n\trepositoryformatversion = 0\n\tsshCommand = "+r.evil("own/evil.sh")+"\n[remote \"origin\"]\n\turl = ssh://h/p\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n")
			r.write("own/nested/HEAD", "ref: refs/heads/main\n")
			r.write("own/nested/commondir", "x\n")
		}, "own/nested", "a bare repository", false},
		"commondir": {func(r protectRig) {
			r.repo("own/new")
			bare(r, "own/x", "[core]\n\tfsmonitor = "+r.evil("own/evil.sh")+"\n")
			r.write("own/new/.git/commondir", "../../x\n")
		}, "own/new", "from elsewhere", false},
		"worktree of the outer one": {func(r protectRig) {
			bare(r, "own/x", "[core]\n\tfsmonitor = "+r.evil("own/evil.sh")+"\n")
			r.git("own", "worktree", "add", "-q", r.at("own/wt"))
			r.write("own/.git/worktrees/wt/commondir", "../../../x\n")
		}, "own/wt", "from elsewhere", false},
		"submodule": {func(r protectRig) {
			r.git("own", "submodule", "--quiet", "add", r.at("lib"), "vendor/lib")
			r.git("own/vendor/lib", "config", "core.fsmonitor", r.evil("own/evil.sh"))
		}, "own", "core.fsmonitor", false},
		"broken":      {func(r protectRig) { r.must(os.Remove(r.at("own/.git/HEAD"))) }, "own", "no longer takes", true},
		"objects off": {func(r protectRig) { r.must(os.Rename(r.at("own/.git/objects"), r.at("own/.git/o"))) }, "own", "no longer takes", true},
		"plain":       {func(r protectRig) { r.repo("own/new") }, "own/new", "was made in the sandbox", true},
		"clone":       {func(r protectRig) { r.git("own", "clone", "-q", r.at("lib"), "new") }, "own/new", "was made in the sandbox", true},
	} {
		t.Run(name, func(t *testing.T) {
			run := func(hold bool) (got []Planted, ran bool) {
				r := protectNewRig(t)
				r.repo("own")
				r.repo("own/nested")
				r.repo("lib")
				old, err := Look(ProtectRequest{Own: r.at("own"), Found: r.found("own")})
				r.must(err)
				tc.plant(r)
				if hold {
					got, err = Hold(old, r.found("own"))
					r.must(err)
					for _, p := range got {
						if p.Held != "" && !r.there(strings.TrimPrefix(p.Held, r.root+"/")) {
							t.Errorf("%s is not there", p.Held)
						}
					}
				}
				r.people(tc.at)
				if !strings.Contains(tc.at, "nested") && tc.want == "was made in the sandbox" {
					r.git(tc.at, "status") // it still works
				}
				return got, r.there("ran")
			}
			if _, ran := run(false); !ran && !tc.silent {
				t.Fatal("the attack does not work")
			}
			got, ran := run(true)
			if ran {
				t.Error("git on the host ran what was planted")
			}
			if !slices.ContainsFunc(got, func(p Planted) bool { return strings.Contains(p.Why, tc.want) }) {
				t.Errorf("reported %+v", got)
			}
			if (tc.want == "was made in the sandbox") && (len(got) != 1 || got[0].Held != "") {
				t.Errorf("an ordinary repository: %+v", got)
			}
		})
	}
}

// TestHoldLeavesWhatWasThere verifies that Hold reports and renames nothing in
// unchanged folders, whatever their configuration.
func TestHoldLeavesWhatWasThere(t *testing.T) {
	r := protectNewRig(t)
	r.repo("own")
	r.repo("own/nested")
	r.repo("lib")
	r.git("own", "submodule", "--quiet", "add", r.at("lib"), "vendor/lib")
	r.git("own", "worktree", "add", "-q", r.at("own/wt"))
	r.git("own", "init", "-q", "--bare", "b.git")
	for _, dir := range []string{"own", "own/nested", "own/vendor/lib", "own/b.git"} {
		r.git(dir, "config", "core.hooksPath", "x")
		r.git(dir, "config", "filter.lfs.clean", "git-lfs clean -- %f")
	}
	r.evil("own/.git/hooks/pre-commit")
	r.link("nowhere", "own/l/.git")
	old, err := Look(ProtectRequest{Own: r.at("own"), Found: r.found("own")})
	r.must(err)
	got, err := Hold(old, r.found("own"))
	r.must(err)
	if len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

// TestHoldIsNotLedAway verifies that links in the place of files to be renamed
// do not redirect Hold.
func TestHoldIsNotLedAway(t *testing.T) {
	r := protectNewRig(t)
	r.repo("own")
	r.write("away/config", "[core]\n\tfsmonitor = x\n")
	r.dir("away/hooks")
	r.write("away/hooks/pre-commit", "x")
	old, err := Look(ProtectRequest{Own: r.at("own"), Found: r.found("own")})
	r.must(err)
	r.repo("own/new")
	r.must(os.Remove(r.at("own/new/.git/config")))
	r.link(r.at("away/config"), "own/new/.git/config")
	r.dir("own/b")
	r.link(r.at("away"), "own/b/.git")
	_, err = Hold(old, r.found("own"))
	r.must(err)
	for _, p := range []string{"away/config", "away/hooks/pre-commit"} {
		if !r.there(p) {
			t.Errorf("%s is gone", p)
		}
	}
	if names, _ := filepath.Glob(r.at("away/*")); len(names) != 2 {
		t.Errorf("away holds %q", names)
	}
	if r.there("own/new/.git") {
		t.Error("a git folder with a link for its configuration was left")
	}
}

// TestEncode verifies that git reads the encoded settings as they were checked.
func TestEncode(t *testing.T) {
	list := []setting{
		{key: "core.bare", value: "false"}, {key: "core.filemode", bare: true}, {key: "remote.url", sub: `a "b" \c`, value: "x \"y\" \\ # ; \t z"},
		{key: "branch.merge", sub: "main", value: "refs/heads/main"}, {key: "branch.merge", sub: "main", value: ""},
	}
	got := parseConfig(encode(list))
	if !slices.Equal(got, list) {
		t.Errorf("%q is read as %+v", encode(list), got)
	}
	file := filepath.Join(t.TempDir(), "c")
	if err := os.WriteFile(file, []byte(encode(list)), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("git", "config", "--file", file, "--null", "--list").Output()
	want := "core.bare\nfalse\x00core.filemode\x00remote.a \"b\" \\c.url\nx \"y\" \\ # ; \t z\x00branch.main.merge\nrefs/heads/main\x00branch.main.merge\n\x00"
	if err != nil || string(out) != want {
		t.Errorf("git reads %q, %v", out, err)
	}
}
