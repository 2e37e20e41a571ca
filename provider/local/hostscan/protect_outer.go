package hostscan

import (
	"path"

	"github.com/bulkhead-dev/sandbox/provider/local/plan"
	"golang.org/x/sys/unix"
)

// outside records the paths in writable folders that the git folder at dir
// names, where dir itself is not writable. worktree is the part of it that
// belongs to a worktree.
func (l *protectLook) outside(r *Repo, dir, worktree string) {
	f := protectFolder{Path: dir}
	if worktree != "" {
		f.Worktrees = append(f.Worktrees, worktree)
	}
	l.config(&f, []string{r.Place})
	r.Named = f.Named
}

// outer gathers the repositories that roots lie in and that are not writable
// themselves: their configuration may name paths in a root.
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
