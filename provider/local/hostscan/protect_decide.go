package hostscan

import (
	"cmp"
	"path"
	"slices"

	"github.com/bulkhead-dev/sandbox/provider/local/plan"
)

// repo closes the files of one repository that git executes and applies, and
// the paths that would turn a folder without a repository into one.
func (d *decision) repo(r Repo) {
	pointer := path.Join(r.Place, ".git")
	switch {
	case r.Dir == "" && r.Own:
		d.deny(plan.Deny{Path: pointer, Keep: true, Dir: r.Kind != plan.File, Rule: ruleNoRepo})
		d.deny(plan.Deny{Path: path.Join(r.Place, "HEAD"), Keep: true, Dir: true, Rule: ruleNoBare})
		if r.Trouble != "" {
			d.note(pointer + " is not followed: " + r.Trouble + "; git does not work in the sandbox")
		}
	case r.Bare && r.Own: // git would prefer a .git in it
		d.deny(plan.Deny{Path: pointer, Keep: true, Dir: true, Rule: ruleNoRepo})
	case r.Dir == "" && r.Kind == plan.File: // it may have led to a git folder before
		d.deny(plan.Deny{Path: pointer, Keep: true, Rule: rulePointer})
	case r.Dir == "" || r.Bare:
	case r.Kind == plan.File:
		d.deny(plan.Deny{Path: pointer, Keep: true, Rule: rulePointer})
	case r.Kind == plan.Link && r.Own:
		d.deny(plan.Deny{Path: pointer, Keep: true, Rule: rulePointer})
		d.note(pointer + " is a link; nothing can be committed in the sandbox")
	}
	if r.exists() && !r.Bare && (r.Kind == plan.Dir || r.Kind == plan.Link) {
		d.neverBare(r)
	}
	if r.Head { // without HEAD, the next scan would not find the repository
		d.deny(plan.Deny{Path: path.Join(r.Place, "HEAD"), Keep: true, Rule: ruleBare})
	}
	d.named(r.Named)
	for _, f := range r.Folders {
		d.named(f.Named)
		if r.Dir != "" || r.Kind != plan.Dir || !r.Own { // otherwise the whole folder is closed
			d.folder(f)
		}
	}
	if r.Own && r.Main != "" && r.Believed {
		d.worktree(r)
	}
	if r.Own && r.exists() && !r.Bare && recorded(r) && d.f.Inside != "" && d.f.Inside != r.Place {
		d.out.Views = append(d.out.Views, plan.View{Source: r.Place, Target: r.Place, Write: true, Optional: true, Why: whyRecorded})
	}
}

// neverBare prevents the folder of a repository from becoming a bare one. Code
// inside can invalidate .git at any moment, since HEAD must be writable; git
// then accepts the parent folder of .git as a repository if that has HEAD, and
// objects and refs or a "commondir" that leads to them. HEAD itself cannot be
// closed: git could not distinguish a commit of that name from the file.
func (d *decision) neverBare(r Repo) {
	git := cmp.Or(r.Dir, path.Join(r.Place, ".git"))
	whole := slices.ContainsFunc(r.Folders, func(f protectFolder) bool { return f.Odd && f.Path == git })
	if whole || !d.writable(r.Place) || !d.writable(git) {
		return // none can be created, or .git stays as it is
	}
	if r.Guard == "HEAD" {
		d.note(path.Join(r.Place, "HEAD") + " is kept from being made, because the folder has objects and refs of its own; git commands that name HEAD need -- behind it")
	}
	for _, name := range []string{r.Guard, "commondir"} {
		d.deny(plan.Deny{Path: path.Join(r.Place, name), Keep: true, Socket: true, Rule: ruleNoBare})
	}
}

// folder closes hooks and configuration of one git folder. It closes
// "commondir" too, which would make git take both from another folder.
func (d *decision) folder(f protectFolder) {
	if f.Odd {
		d.deny(plan.Deny{Path: f.Path, Rule: ruleLinks})
		d.note(f.Path + " has links in it where none belong, too many submodules, or is one of too many bare repositories; nothing can be committed there in the sandbox")
		return
	}
	d.deny(plan.Deny{Path: path.Join(f.Path, "hooks"), Keep: true, Dir: true, Rule: ruleHooks})
	d.deny(plan.Deny{Path: path.Join(f.Path, "config"), Keep: true, Rule: ruleConfig})
	d.deny(plan.Deny{Path: path.Join(f.Path, "commondir"), Keep: true, Rule: ruleConfig})
	// The file applies as soon as the extension is on, which a git command on
	// the host may turn on by itself.
	d.deny(plan.Deny{Path: path.Join(f.Path, "config.worktree"), Keep: true, Rule: ruleConfig})
	for _, p := range f.Pointers {
		d.out.Views = append(d.out.Views, plan.View{Source: p, Target: p, Optional: true, Why: whyRecorded})
	}
	for _, w := range f.Worktrees {
		if slices.Contains(f.Elsewhere, w) {
			for _, name := range []string{"HEAD", "index"} {
				d.deny(plan.Deny{Path: path.Join(w, name), Rule: ruleWorktree})
			}
		}
		for _, name := range []string{"commondir", "gitdir"} {
			d.deny(plan.Deny{Path: path.Join(w, name), Rule: rulePointer})
		}
		d.deny(plan.Deny{Path: path.Join(w, "config.worktree"), Keep: true, Rule: ruleConfig})
	}
}

// named closes the paths that configuration names, and keeps the links on the
// path to them.
func (d *decision) named(list []protectNamed) {
	for _, n := range list {
		switch {
		case n.Path == "" || !d.writable(n.Path):
		case !d.holds(n.Path):
			d.deny(plan.Deny{Path: n.Path, Keep: true, Dir: n.Dir, Rule: ruleConfig})
		case n.Dir:
			d.note("git runs hooks from " + n.Path + ", which is to be written; set core.hooksPath to a folder of their own")
		}
		for _, link := range n.Links {
			if _, again := d.denies[link]; !again {
				d.kept(link)
			}
			d.deny(plan.Deny{Path: link, Keep: true, Link: true, Rule: ruleConfig})
		}
	}
}

// kept notes for the user what it means that a link must stay.
func (d *decision) kept(link string) {
	d.note(link + " is a link that has to stay, so no file can be made, renamed or removed in " + path.Dir(link))
}

// recorded reports whether git has paths in the folder of r on record for
// worktrees: r is a worktree, or worktrees lie in it.
func recorded(r Repo) bool {
	return r.Believed && r.Main != "" || slices.ContainsFunc(r.Folders, func(f protectFolder) bool { return len(f.Worktrees) > len(f.Elsewhere) })
}

// worktree opens the folders that commits in a worktree write. A folder that is
// writable anyway needs no view.
func (d *decision) worktree(r Repo) {
	if d.writable(r.Main) {
		return
	}
	d.out.Views = append(d.out.Views, plan.View{Source: r.Main, Target: r.Main, Optional: true, Why: whyWorktree})
	for _, p := range r.Open {
		d.out.Views = append(d.out.Views, plan.View{Source: p, Target: p, Write: true, Optional: true, Why: whyWorktree})
	}
	if !slices.Contains(r.Open, path.Join(r.Main, "objects")) || !slices.Contains(r.Open, path.Join(r.Main, "refs")) {
		d.note(r.Main + " lacks objects or refs that can be written; nothing can be committed in the sandbox")
	}
}
