package hostscan

import (
	"path"

	"github.com/bulkhead-dev/sandbox/provider/local/plan"
	"golang.org/x/sys/unix"
)

// outside notes what the git folder at dir names in folders that can be
// written, where it cannot be written itself. Worktree is what lies in it of a
// worktree.
func (l *protectLook) outside(r *Repo, dir, worktree string) {
	f := protectFolder{Path: dir}
	if worktree != "" {
		f.Worktrees = append(f.Worktrees, worktree)
	}
	l.config(&f, []string{r.Place})
	r.Named = f.Named
}

// outer looks at the repositories that roots lie in and that cannot be written
// themselves: what they name may lie in a root.
func (l *protectLook) outer() {
	seen := map[string]bool{}
	for _, root := range l.roots {
		for p := path.Dir(root); p != "/" && !seen[p]; p = path.Dir(p) {
			seen[p] = true
			git := path.Join(p, ".git")
			kind := l.kind(git)
			if kind == 0 || l.writable(p) {
				continue // there is none, or it is among the others
			}
			r := Repo{Place: p, Kind: plan.Dir, Dir: git}
			switch {
			case kind != unix.S_IFDIR:
				r = l.repo(p)
				r.close()
				r.Folders = nil
			case l.isGit(git):
				l.outside(&r, git, "")
			default:
				continue
			}
			l.f.Repos = append(l.f.Repos, r)
		}
	}
}
