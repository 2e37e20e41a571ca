package hostscan

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
	"golang.org/x/sys/unix"
)

// Bounds of what is looked at. Beyond the first the wall is refused, beyond
// the others a git folder is closed as a whole.
const (
	maxRepos          = 512
	maxBare           = 64  // bare repositories below the folders that can be written
	protectMaxFolders = 256 // names of submodules or of worktrees in one folder
	maxAll            = 512 // git folders of one repository and its submodules
	protectMaxDepth   = 6   // of submodules in submodules, and of slashes in their names
	maxConfig         = 1 << 20
	maxTotal          = 64 << 20 // of configuration, of all repositories
)

// Look gathers the facts. It starts no program, follows no link that it does
// not check, and takes anything odd for what has to be closed.
//
// A path that is not absolute is [sandbox.CodeValidation]; more than 512
// repositories, and configuration that is too long, are
// [sandbox.CodeCapabilityBlocked]. What is there and cannot be read is that, or
// [sandbox.CodeUnavailable].
func Look(q ProtectRequest) (Facts, error) {
	f := Facts{ProtectRequest: q, Links: map[string]string{}, Targets: map[string]string{}}
	for _, p := range slices.Concat([]string{q.Own, q.Home}, q.Writable, q.Found, q.Settings, q.Git) {
		if p != "" && (!strings.HasPrefix(p, "/") || path.Clean(p) != p) {
			return Facts{}, protectFailed(sandbox.CodeValidation, p, fmt.Sprintf("the path %q is not absolute and clean", p), "")
		}
	}
	l := protectLook{f: &f, roots: q.roots(), kinds: map[string]uint32{}, parsed: map[string][]setting{}, walked: map[string]bool{}}
	for _, p := range q.places() {
		if link := l.detour(p.path); link != "" {
			f.Links[p.path] = link
			if c, ok := l.canonical(link, "/"); ok {
				f.Targets[link] = c
			}
		}
	}
	places := l.candidates()
	if len(places) > maxRepos {
		return Facts{}, protectFailed(sandbox.CodeCapabilityBlocked, places[maxRepos],
			fmt.Sprintf("more than %d git repositories lie in the folders that can be written, too many to protect", maxRepos),
			"allow narrower folders in filesystem.allowWrite")
	}
	bare := 0
	for _, p := range places {
		r := l.repo(p)
		if r.Head {
			bare++
		}
		if r.Head && bare > maxBare {
			r.close()
		}
		f.Repos = append(f.Repos, r)
	}
	l.outer()
	l.user()
	if l.err != nil {
		return Facts{}, l.err
	}
	return f, nil
}

// A look is Look at work.
type protectLook struct {
	f      *Facts
	roots  []string
	open   []string // what a worktree has opened besides
	kinds  map[string]uint32
	parsed map[string][]setting // files of configuration
	total  int                  // their bytes
	walked map[string]bool      // git folders whose submodules have been looked for
	err    error                // the first that ends the look
}

func (l *protectLook) writable(p string) bool {
	in := func(r string) bool { return protectWithin(p, r) }
	return slices.ContainsFunc(l.roots, in) || slices.ContainsFunc(l.open, in)
}

// detour returns the first link on the way to p, or "".
func (l *protectLook) detour(p string) string {
	for i := 1; i <= len(p); i++ {
		if i < len(p) && p[i] != '/' {
			continue
		}
		kind, ok := l.kinds[p[:i]]
		if !ok {
			kind = l.kind(p[:i])
			l.kinds[p[:i]] = kind
		}
		switch kind {
		case unix.S_IFLNK:
			return p[:i]
		case unix.S_IFDIR:
		default:
			return ""
		}
	}
	return ""
}

// candidates returns the folders that are repositories or could be made one:
// the roots, what a scan found, and what roots lie in the git folder of.
func (l *protectLook) candidates() []string {
	out := slices.Clone(l.roots)
	for _, p := range l.f.Found {
		dir := path.Dir(p)
		if strings.EqualFold(path.Base(p), "HEAD") && (inGit(dir) || !l.isBare(dir)) {
			continue
		}
		out = append(out, dir)
	}
	for _, r := range l.roots {
		for p := r; p != "/"; p = path.Dir(p) {
			if path.Base(p) == ".git" {
				out = append(out, path.Dir(p))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Finds returns the names that tell of repositories, whose places a scan is to
// put into [Request.Found]: of a repository's folder, and in a bare one.
func Finds() []string { return []string{".git", "HEAD"} }

// inGit reports whether dir is or lies in a folder of git's that goes by its
// usual name. What is in it is looked for from there.
func inGit(dir string) bool {
	return slices.ContainsFunc(strings.Split(dir, "/"), func(name string) bool { return strings.EqualFold(name, ".git") })
}

// repo looks at one folder.
func (l *protectLook) repo(place string) Repo {
	r := Repo{Place: place, Own: place == l.f.Own && place != ""}
	git := path.Join(place, ".git")
	switch l.kind(git) {
	case unix.S_IFDIR:
		r.Kind = plan.Dir
		if l.isGit(git) {
			r.Dir = git
		}
		if r.Dir != "" || l.remnant(git) {
			l.folder(&r, git, 0)
		}
	case unix.S_IFREG:
		r.Kind = plan.File
		l.pointer(&r)
	case unix.S_IFLNK:
		r.Kind = plan.Link
		if to, ok := l.canonical(git, "/"); ok && (l.isGit(to) || l.remnant(to)) {
			if l.isGit(to) {
				r.Dir = to
			}
			if l.writable(to) {
				l.folder(&r, to, 0)
			} else {
				l.outside(&r, to, "")
			}
		}
	}
	if r.Dir == "" && l.isBare(place) {
		r.Dir, r.Bare = place, true
		r.Head = !slices.Contains(l.roots, place) && l.kind(place+"/HEAD") == unix.S_IFREG
		l.folder(&r, place, 0)
	}
	if r.exists() && !r.Bare {
		r.Guard = l.guard(place)
	}
	return r
}

// guard returns what to keep from the folder at place, so that it is no bare
// repository: a name that it has no use for, and HEAD where it has one for
// both others. A socket is what keeps the name already.
func (l *protectLook) guard(place string) string {
	for _, name := range []string{"refs", "objects"} {
		if k := l.kind(path.Join(place, name)); k == 0 || k == unix.S_IFSOCK {
			return name
		}
	}
	return "HEAD"
}

// close has r closed as a whole.
func (r *Repo) close() {
	for _, f := range r.Folders {
		r.Named = append(r.Named, f.Named...)
	}
	r.Head, r.Folders = false, []protectFolder{{Path: r.Place, Odd: true}}
}

// folder looks at a git folder and those of its submodules.
func (l *protectLook) folder(r *Repo, dir string, depth int) {
	f := protectFolder{Path: dir}
	for _, name := range []string{"hooks", "config", "commondir", "config.worktree", "worktrees", "modules"} {
		f.Odd = f.Odd || l.kind(dir+"/"+name) == unix.S_IFLNK
	}
	names, ok := listProtect(dir + "/worktrees")
	f.Odd = f.Odd || !ok
	for _, n := range names {
		w := dir + "/worktrees/" + n
		f.Worktrees = append(f.Worktrees, w)
		if place, ok := l.readPath(w+"/gitdir", w); w != r.Dir && l.kind(w) == unix.S_IFDIR && (!ok || !l.writable(path.Dir(place))) {
			f.Elsewhere = append(f.Elsewhere, w)
			if ok && l.leadsTo(place, w) {
				f.Pointers = append(f.Pointers, place)
			}
		}
	}
	var tops []string
	if depth == 0 { // else its files lie elsewhere
		tops = append(tops, r.Place)
	}
	if path.Base(dir) == ".git" && path.Dir(dir) != r.Place {
		tops = append(tops, path.Dir(dir)) // the main repository's, of a worktree
	}
	l.config(&f, tops)
	if to, ok := l.readPath(dir+"/commondir", dir); ok && to != dir && r.Main != to {
		f.Named = append(f.Named, protectNamed{Path: path.Join(to, "config")}, protectNamed{Path: path.Join(to, "hooks"), Dir: true})
	}
	at := len(r.Folders)
	r.Folders = append(r.Folders, f)
	if f.Odd {
		return
	}
	if l.once(dir) && !l.modules(r, dir+"/modules", depth) {
		r.Folders[at].Odd = true
	}
	for _, w := range f.Worktrees { // have submodules of their own
		if l.writable(w) && l.once(w) && (l.kind(w+"/modules") == unix.S_IFLNK || !l.modules(r, w+"/modules", depth)) {
			r.Folders = append(r.Folders, protectFolder{Path: w, Odd: true})
		}
	}
}

// leadsTo reports whether the file is a ".git" that leads to the git folder w.
func (l *protectLook) leadsTo(file, w string) bool {
	if path.Base(file) != ".git" || l.kind(file) != unix.S_IFREG {
		return false
	}
	data, err := l.file(file, maxPointer)
	if err != nil {
		return false
	}
	text, ok := parsePointer(data)
	if !ok {
		return false
	}
	to, ok := l.canonical(text, path.Dir(file))
	return ok && to == w
}

// once reports whether submodules of the git folder at dir have not been looked
// for yet: worktrees share one.
func (l *protectLook) once(dir string) bool {
	first := !l.walked[dir]
	l.walked[dir] = true
	return first
}

// modules looks for the git folders of submodules in dir. It reports false
// when they are too many, or lie behind links.
func (l *protectLook) modules(r *Repo, dir string, depth int) bool {
	names, ok := listProtect(dir)
	if !ok || len(names) > 0 && depth >= protectMaxDepth {
		return false
	}
	for _, n := range names {
		sub := dir + "/" + n
		switch l.kind(sub) {
		case unix.S_IFLNK:
			return false
		case unix.S_IFDIR:
		default:
			continue
		}
		if !l.module(r, sub, depth) {
			return false
		}
	}
	return true
}

// module looks at one folder among those of submodules. Whatever it is, there
// may be more below: a submodule's name can have a slash in it, and code
// inside can make the folder before the slash look like a git folder.
func (l *protectLook) module(r *Repo, sub string, depth int) bool {
	if len(r.Folders) >= maxAll {
		return false
	}
	if !l.isGit(sub) && !l.remnant(sub) {
		return l.modules(r, sub, depth+1)
	}
	l.folder(r, sub, depth+1)
	names, ok := listProtect(sub)
	if !ok {
		return false
	}
	for _, n := range names {
		below := sub + "/" + n
		switch {
		case l.kind(below) != unix.S_IFDIR:
		case l.kind(below+"/config") != 0, l.kind(below+"/hooks") != 0, !slices.Contains(parts(), n):
			if depth+1 >= protectMaxDepth || !l.module(r, below, depth+1) {
				return false
			}
		}
	}
	return true
}

// parts are the folders in a git folder that git makes itself.
func parts() []string {
	return []string{"objects", "refs", "logs", "hooks", "info", "branches", "modules", "worktrees", "lfs", "rr-cache", "rebase-merge", "rebase-apply", "sequencer"}
}

// list returns the names in the folder at p, none when it is missing. It
// reports false when there are too many, or they cannot be told.
func listProtect(p string) ([]string, bool) {
	fd, err := hostpath.Folder(p, unix.O_RDONLY)
	if err != nil {
		return nil, hostpath.Gone(err)
	}
	f := os.NewFile(uintptr(fd), p)
	defer f.Close()
	names, err := f.Readdirnames(protectMaxFolders + 1)
	if len(names) == 0 {
		return nil, true
	}
	slices.Sort(names)
	return names, err == nil && len(names) <= protectMaxFolders
}

func protectFailed(code sandbox.Code, resource, message, hint string) error {
	return &sandbox.Error{Code: code, Op: "look for what to protect", Resource: resource, Message: message, Hint: hint}
}
