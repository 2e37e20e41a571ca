// The protect files determine what a sandbox closes for writing although no
// setting says so: files with which code inside could have a program run on the
// host later, started by a person or by a program that trusts the folder.
//
// In every folder that the sandbox may write, they close: settings files of
// this project; hooks and configuration of git repositories, which git executes
// and applies; start-up files of shells and desktops in the home folder; and,
// in the agent's own folder and the home, skills and settings of agents and
// editors. protect_table.go holds the tables. Skills and settings that exist in
// the other folders are closed too.
//
// A missing path is kept missing where a program on the host would trust it at
// once. So the agent's own folder stays without a repository: a repository made
// by code inside runs programs as soon as git, or a prompt that calls git,
// reads the folder. A person creates the repository instead. For the same
// reason neither this folder nor the folder of any other repository can become
// a bare repository.
//
// A scratch workspace is not protected, and callers must not name it in a
// ProtectRequest: all of its content was made inside, and no person works there
// on the host. Code inside can create repositories in folders below the agent's
// own. [Hold] searches for them after each command, reports them, and removes
// what would make git on the host run a program; from the next command on they
// are protected. Until the command has ended they remain as code inside made
// them: git on the host should run in such a folder meanwhile with the
// environment of [GitEnv]. This applies to the folder above too: code inside
// can add such a repository to the index, and then "git status" reads it.
//
// An interrupted git operation stays open: code inside can add a line to the
// list of a rebase or another stopped sequence, and "git rebase --continue"
// runs it on the host. Closing the list would prevent agents from rebasing, and
// an agent's rebase cannot be distinguished from a person's. Programs of the
// work tree that the configuration names by path are closed, and so is the
// folder of scripts that husky's hooks run. Files that those programs and hooks
// run in turn stay open.
//
// [Look] gathers the facts, [Decide] is pure.

package hostscan

import (
	"maps"
	"slices"

	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
)

// A ProtectRequest lists the folders to protect. All paths are absolute and
// canonical.
type ProtectRequest struct {
	Own      string   // the agent's own folder if it is the writable workspace, or empty
	Inside   string   // the path of Own in the sandbox
	Writable []string // sources of the other writable views, without scratch workspaces
	Found    []string // places of [Finds] that a scan found below them
	Home     string   // of the user; may be empty
	Settings []string // settings files of this project, missing ones included
	Git      []string // the user's own git configuration files, see [UserGit]
}

// Rules are the paths to close and the views to add.
type Rules struct {
	Denies []plan.Deny // all for writing only, sorted by path
	// Views show the parts of a main repository that a commit in one of its
	// worktrees writes, and the rest of it read-only, at the same paths as on
	// the host. They also show the agent's own folder at its host path if git
	// has that path on record for a worktree; otherwise "git worktree prune"
	// and "git gc" inside would treat the worktree as removed. For the same
	// reason they show the file ".git" of worktrees elsewhere.
	Views []plan.View
	Notes []string // facts for the user: what does not work, and why
}

// Facts are the results of [Look], as plain data.
type Facts struct {
	ProtectRequest
	Repos []Repo
	// Links maps each protected path in the own folder and the home that passes
	// through a link to that link.
	Links map[string]string
	// Targets maps these links to the paths that they lead to.
	Targets map[string]string
	Named   []protectNamed // by the user's own git configuration
}

// A Repo is a git repository, or a folder that could become one.
type Repo struct {
	Place string    // the folder that git would work in
	Own   bool      // Place is the agent's own folder
	Kind  plan.Kind // kind of Place/.git
	Dir   string    // the git folder; empty if git accepts none
	Bare  bool      // Dir is Place itself
	Head  bool      // git recognizes it by its HEAD, a regular file
	Guard string    // a name in Place without which Place is not a bare repository
	// Main is, for a worktree, the git folder of the main repository. Believed
	// reports whether the main repository knows the worktree, and Open lists
	// the folders in it that commits write.
	Main     string
	Believed bool
	Open     []string
	Trouble  string // why a pointer to a git folder leads nowhere
	Folders  []protectFolder
	Named    []protectNamed // by configuration that is not writable anyway
}

// A protectFolder is a git folder with hooks and configuration: that of the
// repository or of one of its submodules.
type protectFolder struct {
	Path string
	// Odd says that a path to be closed in it is a link, or that it holds too
	// much, so that the whole folder must be closed.
	Odd            bool
	WorktreeConfig bool     // config.worktree applies
	Worktrees      []string // folders of its worktrees
	// Elsewhere are those of Worktrees that belong to folders outside the
	// writable ones, and Pointers the files ".git" of these folders. If git
	// inside did not see these files, it would treat the worktrees as removed.
	Elsewhere, Pointers []string
	Named               []protectNamed // what its configuration makes git run or read
}

// A protectNamed is a path that the configuration of a repository names.
type protectNamed struct {
	Path  string   // canonical; empty if it leads nowhere
	Links []string // on the path to it, if code inside could replace them
	Dir   bool     // a folder of hooks; otherwise a file with more configuration
}

// Names of rules.
const (
	ruleSettings = "protection: settings file"
	ruleHooks    = "protection: git hooks"
	ruleConfig   = "protection: git config"
	ruleLinks    = "protection: git folder with links in it"
	rulePointer  = "protection: git folder pointer"
	ruleNoRepo   = "protection: no new git repository"
	ruleNoBare   = "protection: no new bare git repository"
	ruleBare     = "protection: bare git repository"
	ruleStartup  = "protection: start-up files"
	ruleAgent    = "protection: agent skills and settings"
	ruleEditor   = "protection: editor settings that run code"
	ruleWorktree = "protection: git worktree of another folder"
	whyWorktree  = "main repository of the git worktree"
	whyRecorded  = "path that git has on record for worktrees"
)

// Decide computes rules from facts. It is pure.
func Decide(f Facts) Rules {
	d := decision{f: f, roots: f.roots(), denies: map[string]plan.Deny{}}
	for _, r := range f.Repos {
		if r.Own && r.Believed {
			d.open = append(d.open, r.Open...)
		}
	}
	for _, s := range f.Settings {
		d.deny(plan.Deny{Path: s, Keep: true, Rule: ruleSettings})
	}
	for _, p := range f.places() {
		d.place(p)
	}
	d.named(f.Named)
	for _, r := range f.Repos {
		d.repo(r)
	}
	for _, p := range slices.Sorted(maps.Keys(d.denies)) {
		d.out.Denies = append(d.out.Denies, d.denies[p])
	}
	return d.out
}

// roots returns every writable folder.
func (q ProtectRequest) roots() []string {
	out := slices.Clone(q.Writable)
	if q.Own != "" {
		out = append(out, q.Own)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// A decision is the state of [Decide].
type decision struct {
	f      Facts
	roots  []string
	open   []string // further writable folders
	denies map[string]plan.Deny
	out    Rules
}

func (d *decision) deny(n plan.Deny) {
	old, ok := d.denies[n.Path]
	if !ok {
		old = n
	}
	old.Keep = old.Keep || n.Keep
	old.Dir = old.Dir || n.Dir
	old.Link = old.Link && n.Link
	old.Socket = old.Socket && n.Socket
	d.denies[n.Path] = old
}

func (d *decision) note(s string) { d.out.Notes = append(d.out.Notes, s) }

// writable reports whether p lies in a writable folder.
func (d *decision) writable(p string) bool {
	in := func(r string) bool { return hostpath.Within(p, r) }
	return slices.ContainsFunc(d.roots, in) || slices.ContainsFunc(d.open, in)
}

// holds reports whether p is or holds a writable folder, so that closing p
// would close that folder too.
func (d *decision) holds(p string) bool {
	return slices.ContainsFunc(d.roots, func(r string) bool { return hostpath.Within(r, p) })
}

// place closes one line of the tables. If the path passes through a link, place
// closes the target of the link, or keeps the link itself if the line says so.
func (d *decision) place(p protectPlace) {
	link, detour := d.f.Links[p.path]
	switch to := d.f.Targets[link]; {
	case !detour:
		d.deny(plan.Deny{Path: p.path, Keep: p.keep, Dir: p.dir, Rule: p.rule})
	case p.keep && p.rule != ruleEditor: // a link to editor settings does not freeze its folder
		d.deny(plan.Deny{Path: link, Keep: true, Rule: p.rule})
		d.kept(link)
	case to != "" && d.writable(to) && !d.holds(to):
		d.deny(plan.Deny{Path: to, Rule: p.rule})
	}
}
