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

// Bounds of the look. Beyond the first, no sandbox is made; beyond the others,
// a git folder is closed as a whole.
const (
	maxRepos          = 512
	maxBare           = 64  // bare repositories below the writable folders
	protectMaxFolders = 256 // names of submodules or of worktrees in one folder
	maxAll            = 512 // git folders of one repository and its submodules
	protectMaxDepth   = 6   // of submodules in submodules, and of slashes in their names
	maxConfig         = 1 << 20
	maxTotal          = 64 << 20 // bytes of configuration of all repositories
)

// Look gathers the facts. It starts no program, follows only links that it
// checks, and treats anything unexpected as something to close.
//
// For a path that is not absolute it returns an error with
// [sandbox.CodeValidation]; for more than 512 repositories, or configuration
// that is too long, one with [sandbox.CodeCapabilityBlocked]. For a file that
// exists and cannot be read, the code is that one or [sandbox.CodeUnavailable].
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

// A protectLook is the state of [Look].
type protectLook struct {
	f      *Facts
	roots  []string
	open   []string // further folders that a worktree makes writable
	kinds  map[string]uint32
	parsed map[string][]setting // by configuration file
	total  int                  // bytes of these files
	walked map[string]bool      // git folders whose submodules have been searched
	err    error                // the first error that ends the look
}

func (l *protectLook) writable(p string) bool {
	in := func(r string) bool { return hostpath.Within(p, r) }
	return slices.ContainsFunc(l.roots, in) || slices.ContainsFunc(l.open, in)
}

// detour returns the first link on the path to p, or "".
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

// candidates returns the folders that are or could become repositories: the
// roots, the results of a scan, and the folders whose git folder a root lies
// in.
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

// Finds returns the names that indicate repositories: in the folder of a
// repository, and in a bare one. A scan searches for them, and the caller puts
// their places into [ProtectRequest.Found].
func Finds() []string { return []string{".git", "HEAD"} }

// inGit reports whether dir is or lies in a git folder with the usual name. The
// look searches its content from there.
func inGit(dir string) bool {
	return slices.ContainsFunc(strings.Split(dir, "/"), func(name string) bool { return strings.EqualFold(name, ".git") })
}

// repo gathers the facts of one folder.
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

// guard returns the name to keep out of the folder at place, so that it is not
// a bare repository: a name that the folder does not use, or HEAD if it uses
// both others. If the name is a socket, a stub already keeps it out.
func (l *protectLook) guard(place string) string {
	for _, name := range []string{"refs", "objects"} {
		if k := l.kind(path.Join(place, name)); k == 0 || k == unix.S_IFSOCK {
			return name
		}
	}
	return "HEAD"
}

// close marks r to be closed as a whole.
func (r *Repo) close() {
	for _, f := range r.Folders {
		r.Named = append(r.Named, f.Named...)
	}
	r.Head, r.Folders = false, []protectFolder{{Path: r.Place, Odd: true}}
}

// folder gathers the facts of a git folder and those of its submodules.
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
	if depth == 0 { // otherwise its files lie elsewhere
		tops = append(tops, r.Place)
	}
	if path.Base(dir) == ".git" && path.Dir(dir) != r.Place {
		tops = append(tops, path.Dir(dir)) // of the main repository, for a worktree
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
	for _, w := range f.Worktrees { // worktrees have submodules of their own
		if l.writable(w) && l.once(w) && (l.kind(w+"/modules") == unix.S_IFLNK || !l.modules(r, w+"/modules", depth)) {
			r.Folders = append(r.Folders, protectFolder{Path: w, Odd: true})
		}
	}
}

// leadsTo reports whether file is a ".git" file that leads to the git folder w.
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

// once reports whether the submodules of the git folder at dir have not been
// searched yet: worktrees share one folder.
func (l *protectLook) once(dir string) bool {
	first := !l.walked[dir]
	l.walked[dir] = true
	return first
}

// modules gathers the git folders of submodules in dir. It returns false if
// there are too many, or if they lie behind links.
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

// module gathers one folder among those of submodules. It also searches below:
// a submodule's name can contain a slash, and code inside can make the folder
// before the slash look like a git folder.
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

// parts returns the names of the folders that git itself creates in a git
// folder.
func parts() []string {
	return []string{"objects", "refs", "logs", "hooks", "info", "branches", "modules", "worktrees", "lfs", "rr-cache", "rebase-merge", "rebase-apply", "sequencer"}
}

// listProtect returns the names in the folder at p, none if it is missing. It
// returns false if there are too many, or if the folder cannot be listed.
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
