package hostscan

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
)

func TestOwnFolderWithRepository(t *testing.T) {
	r := protectNewRig(t)
	r.repo("own")
	r.repo("lib")
	r.git("own", "submodule", "--quiet", "add", r.at("lib"), "vendor/lib")
	r.git("own", "worktree", "add", "-q", r.at("other"))
	r.must(os.RemoveAll(r.at("own/.git/modules/vendor/lib/hooks")))
	got := r.rules(ProtectRequest{Own: r.at("own"), Found: []string{r.at("own/.git"), r.at("own/vendor/lib/.git")}})
	r.want(r.lines(got.Denies, ofGit...),
		"own/.git/commondir keep", "own/.git/config keep", "own/.git/config.worktree keep", "own/.git/hooks keep dir",
		"own/.git/modules/vendor/lib/commondir keep", "own/.git/modules/vendor/lib/config keep",
		"own/.git/modules/vendor/lib/config.worktree keep", "own/.git/modules/vendor/lib/hooks keep dir",
		"own/.git/worktrees/other/HEAD", "own/.git/worktrees/other/commondir", "own/.git/worktrees/other/config.worktree keep",
		"own/.git/worktrees/other/gitdir", "own/.git/worktrees/other/index",
		"own/commondir keep", "own/refs keep", "own/vendor/lib/.git keep",
	)
	// Git inside must see that the folder of the worktree exists.
	if len(got.Views) != 1 || got.Views[0].Target != r.at("other/.git") || got.Views[0].Write || len(got.Notes) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestOwnFolderWithoutRepository(t *testing.T) {
	r := protectNewRig(t)
	r.dir("own")
	want := []string{"own/.git keep dir", "own/HEAD keep dir"}
	r.want(r.lines(r.rules(ProtectRequest{Own: r.at("own")}).Denies, ofGit...), want...)
	r.dir("own/.git") // as a stub, or as an incomplete repository
	r.dir("own/HEAD")
	r.dir("own/objects")
	r.dir("own/refs")
	r.want(r.lines(r.rules(ProtectRequest{Own: r.at("own")}).Denies, ofGit...), want...)
	r.want(r.lines(r.rules(ProtectRequest{Writable: []string{r.at("own")}}).Denies, ofGit...))
}

func TestBareRepository(t *testing.T) {
	r := protectNewRig(t)
	r.dir("own")
	r.git("own", "init", "-q", "--bare")
	inside := []string{"own/commondir keep", "own/config keep", "own/config.worktree keep", "own/hooks keep dir"}
	r.want(r.lines(r.rules(ProtectRequest{Own: r.at("own")}).Denies, ofGit...), append([]string{"own/.git keep dir"}, inside...)...)
	r.want(r.lines(r.rules(ProtectRequest{Writable: []string{r.at("own")}}).Denies, ofGit...), inside...)
}

func TestNestedAndOuterRepositories(t *testing.T) {
	r := protectNewRig(t)
	r.repo("p/a")
	r.repo("p/b")
	r.dir("p/half/.git")
	r.git("p/b", "config", "extensions.worktreeConfig", "true")
	got := r.rules(ProtectRequest{Writable: []string{r.at("p")}, Found: []string{r.at("p/a/.git"), r.at("p/b/.git"), r.at("p/half/.git")}})
	r.want(r.lines(got.Denies, ofGit...),
		"p/a/.git/commondir keep", "p/a/.git/config keep", "p/a/.git/config.worktree keep", "p/a/.git/hooks keep dir",
		"p/a/commondir keep", "p/a/refs keep",
		"p/b/.git/commondir keep", "p/b/.git/config keep", "p/b/.git/config.worktree keep", "p/b/.git/hooks keep dir",
		"p/b/commondir keep", "p/b/refs keep",
	)
	got = r.rules(ProtectRequest{Writable: []string{r.at("p/a/.git/hooks")}})
	if lines := r.lines(got.Denies, ruleHooks); !slices.Contains(lines, "p/a/.git/hooks keep dir") {
		t.Errorf("a view of the hooks themselves: %q", lines)
	}
}

// TestDamagedRepositories verifies that a repository which git does not accept
// at the moment stays closed: code inside could damage it, change what is open
// then, and repair it.
func TestDamagedRepositories(t *testing.T) {
	r := protectNewRig(t)
	r.repo("own")
	r.repo("lib")
	r.git("own", "submodule", "--quiet", "add", r.at("lib"), "vendor/lib")
	r.repo("own/nested")
	q := ProtectRequest{Own: r.at("own"), Found: []string{r.at("own/.git"), r.at("own/vendor/lib/.git"), r.at("own/nested/.git")}}
	whole := r.lines(r.rules(q).Denies, ofGit...)
	for _, damage := range []struct {
		name string
		do   func()
	}{
		{"submodule without HEAD", func() { r.must(os.Remove(r.at("own/.git/modules/vendor/lib/HEAD"))) }},
		{"submodule with a false HEAD", func() { r.write("own/.git/modules/vendor/lib/HEAD", "x") }},
		{"nested without HEAD", func() { r.must(os.Remove(r.at("own/nested/.git/HEAD"))) }},
		{"nested without objects", func() { r.must(os.RemoveAll(r.at("own/nested/.git/objects"))) }},
		{"stub of commondir", func() { r.write("own/.git/modules/vendor/lib/commondir", ".\n") }},
		{"folder above made a git folder", func() {
			r.dir("own/.git/modules/vendor/objects")
			r.dir("own/.git/modules/vendor/refs")
			r.write("own/.git/modules/vendor/HEAD", "ref: refs/heads/main\n")
		}},
	} {
		t.Run(damage.name, func(t *testing.T) {
			damage.do()
			now := r.lines(r.rules(q).Denies, ofGit...)
			for _, line := range whole {
				if !slices.Contains(now, line) {
					t.Errorf("%s is open now", line)
				}
			}
		})
	}
}

func TestLinksInGitFolders(t *testing.T) {
	for _, name := range []string{"hooks", "config", "commondir", "worktrees", "modules", "modules/x"} {
		t.Run(name, func(t *testing.T) {
			r := protectNewRig(t)
			r.repo("own")
			r.must(os.RemoveAll(r.at("own/.git/" + name)))
			r.link("../file", "own/.git/"+name)
			got := r.rules(ProtectRequest{Own: r.at("own")})
			r.want(r.lines(got.Denies, ofGit...), "own/.git")
			if len(got.Notes) != 1 || !strings.Contains(got.Notes[0], "committed") {
				t.Errorf("notes %q", got.Notes)
			}
		})
	}
	t.Run(".git", func(t *testing.T) {
		r := protectNewRig(t)
		r.repo("elsewhere")
		r.dir("own")
		r.link("../elsewhere/.git", "own/.git")
		r.want(r.lines(r.rules(ProtectRequest{Own: r.at("own")}).Denies, ofGit...), "own/.git keep")
		got := r.rules(ProtectRequest{Own: r.at("own"), Writable: []string{r.at("elsewhere")}})
		if lines := r.lines(got.Denies, ruleHooks); !slices.Equal(lines, []string{"elsewhere/.git/hooks keep dir"}) {
			t.Errorf("hooks behind the link: %q", lines)
		}
	})
}

// TestWhatConfigurationNames verifies that hooks and configuration elsewhere
// are closed too, where git itself finds them.
func TestWhatConfigurationNames(t *testing.T) {
	r := protectNewRig(t)
	r.repo("own")
	r.git("own", "config", "core.hooksPath", ".githooks")
	r.git("own", "config", "include.path", "../more.conf")
	r.git("own", "config", "includeIf.gitdir:/**.path", r.at("own/cond.conf"))
	r.git("own", "config", "--add", "include.path", "~/private.conf")
	r.write("own/more.conf", "[include]\npath = sub/third.conf\n[core]hooksPath = \"/usr/share/hooks\"\n")
	r.write("own/cond.conf", "[include]\npath = .\n") // contains no readable include
	got := r.rules(ProtectRequest{Own: r.at("own"), Home: r.at("home")})
	lines := r.lines(got.Denies, ruleConfig)
	for _, w := range []string{"own/.githooks keep dir", "own/.git/.githooks keep dir", "own/cond.conf keep", "own/more.conf keep", "own/sub/third.conf keep"} {
		if !slices.Contains(lines, w) {
			t.Errorf("%q is not among %q", w, lines)
		}
	}
	if slices.Contains(lines, "own keep") || len(lines) != 8 {
		t.Errorf("closed: %q", lines)
	}
}

func TestHomeAndTables(t *testing.T) {
	r := protectNewRig(t)
	r.dir("home/.config")
	r.write("home/.bashrc", "")
	lines := r.lines(r.rules(ProtectRequest{Home: r.at("home"), Writable: []string{r.root}}).Denies)
	for _, w := range []string{
		"home/.bashrc keep", "home/.bash_profile keep", "home/.zshenv keep", "home/.config/fish keep dir", "home/.gitconfig keep",
		"home/.zshrc.zwc keep", "home/.zshenv.zwc keep", "home/.zprofile.zwc keep", "home/.zlogin.zwc keep", "home/.zlogout.zwc keep",
		"home/.zcompdump keep", "home/.bash_completion keep", "home/.config/bash_completion keep", "home/.local/share/bash-completion keep dir",
		"home/.local/share/systemd/user keep dir", "home/.local/share/dbus-1/services keep dir", "home/.config/plasma-workspace keep dir",
		"home/.config/tmux keep dir", "home/.local/share/fish/vendor_conf.d keep dir", "home/.local/share/nvim/site keep dir", "home/.vim keep dir",
		"home/.config/git keep dir", "home/.claude keep dir", "home/.config/systemd keep dir", ".vscode dir", ".bashrc",
	} {
		if !slices.Contains(lines, w) {
			t.Errorf("%q is not among %q", w, lines)
		}
	}
	lines = r.lines(r.rules(ProtectRequest{Home: r.at("home"), Writable: []string{r.at("home/.config")}}).Denies, ruleStartup)
	if !slices.Contains(lines, "home/.config/fish keep dir") || slices.Contains(lines, "home/.bashrc keep") {
		t.Errorf("of a part of the home: %q", lines)
	}
	if lines := r.lines(r.rules(ProtectRequest{Home: r.at("home"), Writable: []string{r.at("homely"), r.at("out")}}).Denies); slices.ContainsFunc(lines, func(l string) bool {
		return strings.HasPrefix(l, "home/")
	}) {
		t.Errorf("of a home that cannot be written: %q", lines)
	}
	lines = r.lines(r.rules(ProtectRequest{Home: r.at("home"), Own: r.at("own")}).Denies, ruleAgent, ruleEditor)
	r.want(lines, "own/.agents keep dir", "own/.claude keep dir", "own/.codex keep dir", "own/.cursor keep dir", "own/.devcontainer dir",
		"own/.exrc", "own/.gemini keep dir", "own/.idea keep dir", "own/.mcp.json", "own/.nvim.lua", "own/.opencode keep dir", "own/.vim dir",
		"own/.vscode keep dir", "own/.zed keep dir", "own/skills dir")
	lines = r.lines(r.rules(ProtectRequest{Home: r.at("home"), Writable: []string{r.at("out")}}).Denies, ruleAgent, ruleEditor)
	r.want(lines, "out/.agents dir", "out/.claude dir", "out/.codex dir", "out/.cursor dir", "out/.devcontainer dir", "out/.exrc",
		"out/.gemini dir", "out/.idea dir", "out/.mcp.json", "out/.nvim.lua", "out/.opencode dir", "out/.vim dir", "out/.vscode dir", "out/.zed dir")
	got := r.rules(ProtectRequest{Settings: []string{r.at("conf/sandbox.json")}})
	r.want(r.lines(got.Denies), "conf/sandbox.json keep")
}

// TestLinksOnTheWay verifies the effect of the tables if a person, or a cloned
// repository, has put links on the paths.
func TestLinksOnTheWay(t *testing.T) {
	r := protectNewRig(t)
	r.dir("own/elsewhere")
	r.link("elsewhere", "own/.claude")   // kept
	r.link("elsewhere", "own/.vscode")   // of an editor, leads inside
	r.link("..", "own/.idea")            // would close everything
	r.link("/usr", "own/.zed")           // outside of the writable folders
	r.link("nowhere/x", "own/.mcp.json") // dangling
	r.link(".vim", "own/.vim")           // a loop
	got := r.rules(ProtectRequest{Own: r.at("own")})
	r.want(r.lines(got.Denies, ruleAgent, ruleEditor), "own/.agents keep dir", "own/.claude keep", "own/.codex keep dir", "own/.cursor keep dir",
		"own/.devcontainer dir", "own/.exrc", "own/.gemini keep dir", "own/.nvim.lua", "own/.opencode keep dir", "own/elsewhere",
		"own/nowhere/x", "own/skills dir")
	if len(got.Notes) != 1 || !strings.Contains(got.Notes[0], r.at("own/.claude")) {
		t.Errorf("notes %q", got.Notes)
	}
}

func TestProtectBounds(t *testing.T) {
	r := protectNewRig(t)
	var found []string
	for i := range maxRepos + 1 {
		found = append(found, r.at(fmt.Sprint(i))+"/.git")
	}
	if _, err := Look(ProtectRequest{Writable: []string{r.root}, Found: found}); sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
		t.Errorf("many repositories: %v", err)
	}
	if _, err := Look(ProtectRequest{Own: "a"}); sandbox.CodeOf(err) != sandbox.CodeValidation {
		t.Errorf("relative path: %v", err)
	}
	r.git(".", "init", "-q", "--bare", "many/00")
	found = []string{r.at("many/00/HEAD")}
	for i := range maxBare {
		name := fmt.Sprintf("many/%02d", i+1)
		r.must(os.CopyFS(r.at(name), os.DirFS(r.at("many/00"))))
		found = append(found, r.at(name+"/HEAD"))
	}
	lines := r.lines(r.rules(ProtectRequest{Writable: []string{r.at("many")}, Found: found}).Denies, ofGit...)
	if last := lines[len(lines)-1]; last != fmt.Sprintf("many/%02d", maxBare) || len(lines) != 5*maxBare+1 {
		t.Errorf("of many bare repositories %d paths are closed, the last one %s", len(lines), last)
	}
	r.repo("own")
	for i := range protectMaxFolders + 1 {
		r.dir(fmt.Sprintf("own/.git/worktrees/w%d", i))
	}
	r.want(r.lines(r.rules(ProtectRequest{Own: r.at("own")}).Denies, ofGit...), "own/.git")
}

func TestDecideIsSorted(t *testing.T) {
	r := protectNewRig(t)
	r.repo("own")
	d := r.rules(ProtectRequest{Own: r.at("own"), Home: r.root}).Denies
	if !slices.IsSortedFunc(d, func(a, b plan.Deny) int { return strings.Compare(a.Path, b.Path) }) {
		t.Error("denies are not in order")
	}
}

// TestNoRepositoryBecomesBare verifies that the folder of a repository is kept
// without a name that a bare repository needs, whatever files the project has.
func TestNoRepositoryBecomesBare(t *testing.T) {
	for name, tc := range map[string]struct {
		make func(r protectRig)
		want []string
	}{
		"plain":            {func(protectRig) {}, []string{"own/commondir keep", "own/refs keep"}},
		"refs":             {func(r protectRig) { r.dir("own/refs") }, []string{"own/commondir keep", "own/objects keep"}},
		"refs and objects": {func(r protectRig) { r.dir("own/refs"); r.dir("own/objects") }, []string{"own/HEAD keep", "own/commondir keep"}},
		"garbled HEAD":     {func(r protectRig) { r.write("own/.git/HEAD", "x") }, []string{"own/commondir keep", "own/refs keep"}},
		"without objects":  {func(r protectRig) { r.must(os.RemoveAll(r.at("own/.git/objects"))) }, []string{"own/commondir keep", "own/refs keep"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := protectNewRig(t)
			r.repo("own")
			tc.make(r)
			q := ProtectRequest{Writable: []string{r.at("own")}, Found: []string{r.at("own/.git")}}
			r.want(r.lines(r.rules(q).Denies, ruleNoBare), tc.want...)
		})
	}
}

// TestScriptsThatConfigurationRuns verifies that work tree files which git
// passes to a shell are closed, and that words which are not files are not.
func TestScriptsThatConfigurationRuns(t *testing.T) {
	r := protectNewRig(t)
	r.repo("own")
	r.dir("own/tools")
	r.write("own/clean.py", "x")
	for _, c := range [][2]string{
		{"core.fsmonitor", "./tools/fsm.sh"}, {"filter.a.clean", "python3 clean.py --flag %f"}, {"filter.b.process", "node tools/f.js | tr a/b c"},
		{"core.sshCommand", "ssh -F " + r.at("own/tools/ssh") + " -i ~/key"}, {"core.hooksPath", ".husky/_"}, {"diff.x.textconv", "sed s/one/two/"},
		{"alias.go", "!sh -c './run it'"}, {"remote.origin.url", "./elsewhere"}, {"credential.helper", "!tools/cred get"},
	} {
		r.git("own", "config", c[0], c[1])
	}
	got := r.rules(ProtectRequest{Own: r.at("own"), Home: r.at("home")})
	lines := r.lines(got.Denies, ruleConfig)
	for _, w := range []string{
		"own/tools/fsm.sh keep", "own/clean.py keep", "own/tools/f.js keep", "own/tools/ssh keep", "own/.husky/_ keep dir", "own/.husky keep dir",
		"own/run keep", "own/tools/cred keep",
	} {
		if !slices.Contains(lines, w) {
			t.Errorf("%q is not among %q", w, lines)
		}
	}
	for _, l := range lines {
		if strings.HasPrefix(l, "own/s") || strings.HasPrefix(l, "own/a") || strings.Contains(l, "elsewhere") || strings.Contains(l, "get") {
			t.Errorf("%q is closed", l)
		}
	}
}
