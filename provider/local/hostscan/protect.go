// Protect: this part of the package names what a wall closes for writing although no setting
// says so: files by which code inside could have something run on the host
// later, in the hands of a person or of a program that trusts the folder.
//
// Closed are, in every folder that the wall may write: settings files of this
// project; hooks and configuration of git repositories, which git runs and
// obeys; start-up files of shells and desktops in the home folder; and in the
// agent's own folder and the home, skills and settings of agents and editors.
// The tables are in table.go. What there is of the latter in the other folders
// is closed too.
//
// What is missing is kept missing where something on the host would trust it
// at once. So the agent's own folder keeps its lack of a repository: one that
// code inside has made runs programs as soon as git, or a prompt that asks
// git, looks at the folder. A person makes the repository instead. For the
// same reason neither it nor the folder of any other repository can become a
// bare repository.
//
// A scratch workspace is not protected, and is not to be named in a Request:
// all of it was made inside, and no person works there on the host. Code
// inside can make repositories in folders below the agent's own. [Hold] looks
// for them after each command, reports them, and takes away what in them would
// have git on the host run a program; from the next command on they are
// protected. Until the command has ended they are as code inside made them:
// git that runs on the host in such a folder meanwhile should run as [GitEnv]
// has it. That is true of the folder above, too: code inside can put such a
// repository into the index, and then "git status" looks into it.
//
// What git has left off in the middle stays open: code inside can add a line to
// the list of a rebase or another sequence that stands still, and "git rebase
// --continue" runs it on the host. To close it would keep agents from rebases
// of their own, which cannot be told from a person's. Programs of the work tree that configuration names by their
// paths are closed, and so is the folder of scripts that hooks of husky run.
// Open as well is what those programs, and hooks, run in turn.
//
// [Look] gathers what there is, [Decide] is pure.

package hostscan

import (
	"maps"
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox/provider/local/plan"
)

// A Request says which folders are in danger. All paths are absolute and
// canonical.
type ProtectRequest struct {
	Own      string   // the agent's own folder where it is the writable workspace, or empty
	Inside   string   // where Own appears in the sandbox
	Writable []string // sources of the other writable views, scratch workspaces left out
	Found    []string // places of [Finds] that a scan found below them
	Home     string   // of the user; empty when there is none
	Settings []string // settings files of this project, missing ones too
	Git      []string // files of git's configuration that are the user's own, see [UserGit]
}

// Rules are what has to be closed and what has to be opened.
type Rules struct {
	Denies []plan.Deny // all for writing alone, sorted by path
	// Views open the parts of a main repository that a commit in one of its
	// worktrees writes, and the rest of it for reading, at the same paths as
	// on the host. They also show the agent's own folder at its path on the
	// host where git has that path on record for a worktree: else "git worktree
	// prune" and "git gc" inside would take the worktree for removed. Of
	// worktrees elsewhere they show the file ".git", for the same reason.
	Views []plan.View
	Notes []string // what a person should know: what does not work, and why
}

// Facts are what [Look] found, plain data.
type Facts struct {
	ProtectRequest
	Repos []Repo
	// Own folder and home: what on the way to a protected path is a link, by
	// that path. Paths without are not in it.
	Links map[string]string
	// Targets tells where those links lead.
	Targets map[string]string
	Named   []protectNamed // by the user's own configuration of git
}

// A Repo is a git repository, or a place where one could be made.
type Repo struct {
	Place string    // the folder that git would work in
	Own   bool      // it is the agent's own folder
	Kind  plan.Kind // of Place/.git
	Dir   string    // the git folder; empty when there is none that git would take
	Bare  bool      // Dir is Place itself
	Head  bool      // it is known for a repository by its HEAD alone, a file
	Guard string    // the name in Place without which that is no bare repository
	// Main is, for a worktree, the git folder of the main repository, Believed
	// whether that knows the worktree, and Open the folders of it that commits
	// write.
	Main     string
	Believed bool
	Open     []string
	Trouble  string // why a pointer to a git folder leads nowhere
	Folders  []protectFolder
	Named    []protectNamed // by configuration that cannot be written anyway
}

// A Folder is a git folder with hooks and configuration: the repository's,
// or one of its submodules'.
type protectFolder struct {
	Path string
	// Odd says that something to be closed in it is a link, or that there is
	// too much in it, so that all of it has to be closed.
	Odd            bool
	WorktreeConfig bool     // config.worktree counts
	Worktrees      []string // folders of its worktrees
	// Elsewhere are those of Worktrees that belong to folders which cannot be
	// written, and Pointers the files ".git" of these folders. Git inside would
	// take the worktrees for removed if it did not see these files.
	Elsewhere, Pointers []string
	Named               []protectNamed // what its configuration has git run or read
}

// A Named is a path that the configuration of a repository names.
type protectNamed struct {
	Path  string   // canonical; empty where it leads nowhere
	Links []string // on the way there, where they could be exchanged
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

// Decide turns facts into rules. It is pure.
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

// roots returns every folder that can be written.
func (q ProtectRequest) roots() []string {
	out := slices.Clone(q.Writable)
	if q.Own != "" {
		out = append(out, q.Own)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// A decision is Decide at work.
type decision struct {
	f      Facts
	roots  []string
	open   []string // what is opened besides
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

// writable reports whether p lies in a folder that can be written.
func (d *decision) writable(p string) bool {
	in := func(r string) bool { return protectWithin(p, r) }
	return slices.ContainsFunc(d.roots, in) || slices.ContainsFunc(d.open, in)
}

// holds reports whether p is or holds a folder that can be written, so that
// closing it would close that too.
func (d *decision) holds(p string) bool {
	return slices.ContainsFunc(d.roots, func(r string) bool { return protectWithin(r, p) })
}

// place closes one line of the tables. Where a link lies on the way, what it
// leads to is closed with it, and the link itself kept if the line says so.
func (d *decision) place(p protectPlace) {
	link, detour := d.f.Links[p.path]
	switch to := d.f.Targets[link]; {
	case !detour:
		d.deny(plan.Deny{Path: p.path, Keep: p.keep, Dir: p.dir, Rule: p.rule})
	case p.keep && p.rule != ruleEditor: // for an editor's link nobody's folder is frozen
		d.deny(plan.Deny{Path: link, Keep: true, Rule: p.rule})
		d.kept(link)
	case to != "" && d.writable(to) && !d.holds(to):
		d.deny(plan.Deny{Path: to, Rule: p.rule})
	}
}

// within reports whether p is dir or lies below it.
func protectWithin(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}
