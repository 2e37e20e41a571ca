package hostscan

import (
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

func noEnv(string) string { return "" }

func TestUserGit(t *testing.T) {
	env := map[string]string{"XDG_CONFIG_HOME": "/x", "GIT_CONFIG_GLOBAL": "/home/me/.gitconfig", "GIT_CONFIG_SYSTEM": "relative"}
	want := []string{"/etc/gitconfig", "/home/me/.gitconfig", "/home/me/.config/git/config", "/x/git/config"}
	if got := UserGit("/home/me", func(name string) string { return env[name] }); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if got := UserGit("", noEnv); !slices.Equal(got, want[:1]) {
		t.Errorf("without a home: %q", got)
	}
}

// TestUserConfiguration verifies that paths which the user's own configuration
// names are closed like those of a repository's.
func TestUserConfiguration(t *testing.T) {
	r := protectNewRig(t)
	r.repo("own")
	r.repo("home/work/nested")
	r.write("home/dots/gitconfig", "[includeIf \"gitdir:~/work/\"]\npath = work/.gitconfig-work\n[core]\nhooksPath = .githooks\n")
	r.link("dots/gitconfig", "home/.gitconfig")
	r.write("home/.config/git/config", "[include]\npath = ~/work/more\n")
	q := ProtectRequest{
		Own: r.at("own"), Home: r.at("home"), Git: UserGit(r.at("home"), noEnv),
		Writable: []string{r.at("home/dots"), r.at("home/work")}, Found: []string{r.at("home/work/nested/.git")},
	}
	r.has(q, "own/.githooks keep dir", "home/work/nested/.githooks keep dir", "home/work/.gitconfig-work keep", "home/work/more keep", "home/dots/gitconfig keep")
	q.Writable = []string{r.at("home")}
	r.has(q, "home/work/.gitconfig-work keep", "home/dots/gitconfig keep", "home/.gitconfig keep")
	lines := r.lines(r.rules(ProtectRequest{Own: r.at("home/dots"), Home: q.Home, Git: q.Git}).Denies, ruleConfig)
	r.want(lines) // without a repository the user's configuration is not read
}

// TestUserHooksInSandbox verifies that with a real git.
func TestUserHooksInSandbox(t *testing.T) {
	if _, err := exec.LookPath("bwrap"); err != nil {
		testenv.Lack(t, "local", err)
	}
	r := protectNewRig(t)
	r.repo("own")
	r.write("home/.gitconfig", "[core]\nhooksPath = .githooks\n")
	r.give()
	w := r.raise(r.placeholders())
	w.plants(".githooks")
	r.must(w.held.Release())
	r.must(os.Rename(r.at("own/.git/config"), r.at("config")))
	r.write("own/.git/config", "[include]\npath = "+r.at("home/.gitconfig")+"\n")
	r.commit()
}
