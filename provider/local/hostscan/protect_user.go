package hostscan

import (
	"errors"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// UserGit returns the git configuration files that apply to all repositories of
// the user with this home: the defaults, and those that the variables of env
// name. The user's shell may have other variables.
func UserGit(home string, env func(string) string) []string {
	out := []string{"/etc/gitconfig"}
	if home != "" {
		out = append(out, path.Join(home, ".gitconfig"), path.Join(home, ".config/git/config"))
	}
	for _, v := range []struct{ name, rest string }{{"XDG_CONFIG_HOME", "git/config"}, {"GIT_CONFIG_GLOBAL", ""}, {"GIT_CONFIG_SYSTEM", ""}} {
		p := env(v.name)
		if !strings.HasPrefix(p, "/") {
			continue
		}
		if p = path.Join(p, v.rest); !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// user records the paths that the user's configuration names, if there is a
// repository that it applies to.
func (l *protectLook) user() {
	found := slices.ContainsFunc(l.f.Repos, Repo.exists)
	if !found && (l.f.Home == "" || !l.writable(l.f.Home)) {
		return
	}
	var files []source
	for _, p := range l.f.Git {
		// Git ignores files that its user cannot read.
		if errors.Is(unix.Access(p, unix.R_OK), unix.EACCES) && !l.writable(p) {
			continue
		}
		n, from, ok := l.named(p, "/", false)
		if !ok || l.kind(n.Path) == 0 && len(n.Links) == 0 {
			continue
		}
		l.f.Named = append(l.f.Named, n)
		if n.Path != "" {
			files = append(files, from)
		}
	}
	a := l.read(files, "/")
	l.f.Named = append(l.f.Named, a.files...)
	for i := range l.f.Repos {
		if r := &l.f.Repos[i]; r.exists() && len(a.runs) > 0 {
			r.Named = append(r.Named, l.scripts(a.runs, []string{r.Place})...)
		}
	}
	for _, h := range a.hooks {
		for i := range l.f.Repos {
			if r := &l.f.Repos[i]; r.exists() {
				tops := []string{r.Place}
				if r.Dir != "" && r.Dir != r.Place {
					tops = append(tops, r.Dir)
				}
				r.Named = append(r.Named, l.hooks(h, tops)...)
			}
		}
	}
}

// exists reports whether git works in r, or would work without some damage.
func (r Repo) exists() bool { return r.Dir != "" || r.Trouble != "" || len(r.Folders) > 0 }
