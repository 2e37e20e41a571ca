package hostscan

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"golang.org/x/sys/unix"
)

// RulePlanted is the rule by which [Hold] renames files that code inside has
// made.
const RulePlanted = "protection: git repository made in the sandbox"

// A Planted is a file that code inside has made, or broken, with which git on
// the host would run a program that the sandbox chose.
type Planted struct {
	Path string // on the host
	Why  string // a sentence for the user
	// Held is the new path of a renamed file, beside Path. It is empty if Hold
	// renamed nothing.
	Held string
}

// Hold checks the repositories in old, which were protected while code ran
// inside, and those created meanwhile. found are the places of [Finds] that a
// scan finds now.
//
// Hold keeps a new repository and reports it. It renames the files in it that
// would make git on the host run a program or take configuration from
// elsewhere: hooks, settings (it writes the harmless rest of the configuration
// anew), and a file or link in the place of a git folder that leads to a wrong
// folder. A folder that was no bare repository and has become one beside its
// ".git" loses its HEAD. Hold reports a repository that git no longer accepts.
// A worktree that was made inside has paths on record that do not exist on the
// host; Hold rewrites them, so that git works there on both sides.
//
// The caller must not start a sandbox in these folders before Hold has
// returned, because code inside could undo the changes. Hold follows no link,
// and renames in folders that it holds open. Code inside that still runs can
// therefore only make Hold fail with an error; it cannot redirect it.
func Hold(old Facts, found []string) ([]Planted, error) {
	q := old.ProtectRequest
	q.Found = found
	l := protectLook{f: &Facts{ProtectRequest: q}, roots: q.roots(), kinds: map[string]uint32{}, parsed: map[string][]setting{}, walked: map[string]bool{}}
	places := l.candidates()
	if len(places) > maxRepos {
		return nil, protectFailed(sandbox.CodeCapabilityBlocked, places[maxRepos],
			fmt.Sprintf("more than %d git repositories lie in the folders that can be written, too many to look through", maxRepos),
			"remove those that were made in the sandbox")
	}
	h := holder{protectLook: &l, places: map[string]Repo{}, folders: map[string]protectFolder{}}
	for _, r := range old.Repos {
		h.places[r.Place] = r
		for _, f := range r.Folders {
			h.folders[f.Path] = f
		}
	}
	for _, p := range places {
		h.relocate(path.Join(p, ".git"))
	}
	for _, p := range places {
		h.repo(l.repo(p))
	}
	slices.SortFunc(h.out, func(a, b Planted) int { return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Why, b.Why)) })
	return h.out, errors.Join(append(h.errs, l.err)...)
}

// A holder is the state of [Hold].
type holder struct {
	*protectLook
	places  map[string]Repo          // the protected ones, by Place
	folders map[string]protectFolder // their git folders, by path
	out     []Planted
	errs    []error
}

func (h *holder) report(p, held, why string, args ...any) {
	h.out = append(h.out, Planted{Path: p, Held: held, Why: fmt.Sprintf(why, args...)})
}

func (h *holder) repo(r Repo) {
	before, known := h.places[r.Place]
	if known && before.Dir != "" && !before.Bare && (r.Dir == "" || r.Bare) {
		h.report(before.Dir, "", "git no longer takes %s for a repository: its HEAD, objects or refs were removed, renamed or garbled in the sandbox", before.Dir)
	}
	git := path.Join(r.Place, ".git")
	there := h.kind(git)
	switch {
	case r.Bare && !(known && before.Bare) && (there != 0 || known && before.exists()):
		// If .git is not a repository, git uses the folder itself as one.
		h.take(r.Place, "HEAD", "made the folder %s a bare repository, which git on the host would have taken instead of its .git", r.Place)
		return
	case known && before.Dir != "" && r.Dir != "" && r.Dir != before.Dir:
		h.take(r.Place, ".git", "made git work with %s in place of %s", r.Dir, before.Dir)
		return
	}
	if (r.Kind != before.Kind || !known) && (there == unix.S_IFLNK || there == unix.S_IFREG) && h.writable(git) && r.Dir == "" {
		// It leads nowhere now, or outside, where Hold does not check anything.
		h.take(r.Place, ".git", "made a pointer to a git folder that is none, or that lies outside of what can be written")
		return
	}
	fresh := 0
	for _, f := range r.Folders {
		was, protected := h.folders[f.Path]
		if !protected {
			fresh++
		}
		h.folder(f, was, protected)
	}
	if fresh > 0 && !known || known && !before.exists() && r.exists() {
		at := git
		if r.Bare {
			at = r.Place
		}
		h.report(at, "", "a git repository was made in the sandbox; from the next command on its hooks and configuration are closed")
	}
}

// folder checks one git folder.
func (h *holder) folder(f, was protectFolder, protected bool) {
	if !h.writable(f.Path) {
		return
	}
	for _, w := range f.Worktrees {
		if !protected || !slices.Contains(was.Worktrees, w) {
			h.worktree(f.Path, w)
		}
	}
	if protected {
		return
	}
	if f.Odd {
		h.take(path.Dir(f.Path), path.Base(f.Path), "made a git folder with links where none belong, or with too much in it to look through")
		return
	}
	h.settings(f.Path, "config")
	h.settings(f.Path, "config.worktree")
	if h.kind(f.Path+"/commondir") != 0 {
		if text, err := h.file(f.Path+"/commondir", maxPointer); err != nil || strings.TrimSpace(string(text)) != "." {
			h.take(f.Path, "commondir", "had git take hooks and configuration from elsewhere")
		}
	}
	h.hooks(f.Path)
}

// hooks renames the folder of hooks, unless it holds only git's samples.
func (h *holder) hooks(dir string) {
	if h.kind(dir+"/hooks") == 0 {
		return
	}
	names, ok := listProtect(dir + "/hooks")
	plain := ok && h.kind(dir+"/hooks") == unix.S_IFDIR
	for _, n := range names {
		plain = plain && strings.HasSuffix(n, ".sample") && h.kind(dir+"/hooks/"+n) == unix.S_IFREG
	}
	if !plain {
		h.take(dir, "hooks", "made git hooks in a new repository")
	}
}

// worktree checks the files of one new worktree.
func (h *holder) worktree(dir, w string) {
	h.settings(w, "config.worktree")
	to, ok := h.readPath(w+"/commondir", w)
	if h.kind(w+"/commondir") != 0 && (!ok || to != dir) {
		h.take(w, "commondir", "had git take hooks and configuration of a worktree from elsewhere")
	}
	if h.kind(w+"/config") != 0 || h.kind(w+"/hooks") != 0 {
		h.settings(w, "config")
		h.hooks(w)
	}
}

// settings removes the settings in dir/name with which git would run a program,
// and keeps the others.
func (h *holder) settings(dir, name string) {
	file := path.Join(dir, name)
	if h.kind(file) == 0 {
		return
	}
	data, err := h.file(file, maxConfig)
	if hostpath.Gone(err) && h.kind(file) != unix.S_IFLNK {
		return
	}
	var good []setting
	var bad []string
	for _, s := range parseConfig(string(data)) {
		key := s.key
		if s.sub != "" {
			section, last, _ := strings.Cut(s.key, ".")
			key = section + "." + s.sub + "." + last
		}
		if s.runs() {
			bad = append(bad, key)
		} else {
			good = append(good, s)
		}
	}
	switch {
	case err != nil:
		h.take(dir, name, "made configuration of git that cannot be read")
		return
	case len(bad) == 0 && plainly(string(data)):
		return
	}
	held := h.put(dir, name, []byte(encode(good)))
	if held == "" {
		return
	}
	if len(bad) == 0 { // written anew, so that git reads exactly the checked settings
		h.report(file, held, "configuration of a new repository was written anew, because it can be read in two ways")
		return
	}
	slices.Sort(bad)
	h.report(file, held, "configuration of a new repository would have git on the host run programs or take files from elsewhere: %s",
		strings.Join(slices.Compact(bad), ", "))
}

// take renames name in the folder dir, and reports it.
func (h *holder) take(dir, name, why string, args ...any) {
	if held := h.put(dir, name, nil); held != "" {
		h.report(path.Join(dir, name), held, "code in the sandbox "+why, args...)
	}
}

// tries is how often take renames a name that code inside puts back.
const tries = 8

// put renames name in the folder dir and, unless data is nil, creates a file
// with data in its place. It returns the new path of the old file.
func (h *holder) put(dir, name string, data []byte) (held string) {
	fd, err := hostpath.Folder(dir, unix.O_RDONLY)
	if err != nil {
		h.errs = append(h.errs, unheld(path.Join(dir, name), err))
		return ""
	}
	defer unix.Close(fd)
	for range tries {
		aside := name + ".held-by-sandbox-" + strings.ToLower(rand.Text()[:8])
		err = hostpath.Retry(func() error { return unix.Renameat(fd, name, fd, aside) })
		if err == nil {
			held = path.Join(dir, aside)
		} else if !errors.Is(err, unix.ENOENT) {
			break
		}
		err = nil
		if data == nil {
			break
		}
		if err = create(fd, name, data); !errors.Is(err, unix.EEXIST) {
			break
		}
	}
	if err != nil {
		h.errs = append(h.errs, unheld(path.Join(dir, name), err))
	}
	delete(h.parsed, path.Join(dir, name))
	return held
}

// create creates the file name in the folder fd, owned by the folder's owner.
func create(fd int, name string, data []byte) error {
	file := -1
	err := hostpath.Retry(func() (err error) {
		file, err = unix.Openat(fd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644)
		return err
	})
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(file), name)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if int(st.Uid) != os.Geteuid() {
		if err := f.Chown(int(st.Uid), int(st.Gid)); err != nil {
			return err
		}
	}
	_, err = f.Write(data)
	return err
}

func unheld(p string, err error) error {
	e := protectFailed(sandbox.CodeUnavailable, p, "what code in the sandbox made for git on the host to run cannot be taken away",
		"look at it before git is used there, and remove it").(*sandbox.Error)
	e.Err = err
	return e
}
