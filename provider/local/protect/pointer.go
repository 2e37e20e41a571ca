package protect

import (
	"path"
	"strings"

	"github.com/bulkhead-dev/sandbox/hostpath"
	"github.com/bulkhead-dev/sandbox/provider/local/nolink"
	"golang.org/x/sys/unix"
)

// maxPointer bounds the small files that hold one path.
const maxPointer = 4096 + 16

// parsePointer returns the path in a ".git" file, as it is written there.
func parsePointer(data []byte) (p string, ok bool) {
	rest, ok := strings.CutPrefix(string(data), "gitdir: ")
	return parsePath(rest, ok)
}

// parsePath returns the path that a file holds as its only line.
func parsePath(text string, ok bool) (string, bool) {
	text = strings.TrimRight(text, "\r\n")
	return text, ok && text != "" && !strings.ContainsAny(text, "\x00\r\n")
}

// readPath reads a file that holds one path, relative to base unless it is
// absolute, and returns where that leads.
func readPath(file, base string) (string, bool) {
	data, err := nolink.File(file, maxPointer)
	if err != nil {
		return "", false
	}
	p, ok := parsePath(string(data), true)
	return canonical(p, base, ok)
}

func canonical(p, base string, ok bool) (string, bool) {
	if !ok {
		return "", false
	}
	if !strings.HasPrefix(p, "/") {
		p = base + "/" + p
	}
	c, err := hostpath.Canonical(p)
	return c, err == nil
}

// pointer follows the ".git" file of r. A worktree is believed only when the
// main repository knows it: the file may have been made by anybody who could
// ever write the folder, while what it leads to is opened for writing.
func (l *look) pointer(r *Repo) {
	data, err := nolink.File(r.Place+"/.git", maxPointer)
	if err != nil {
		r.Trouble = "it cannot be read"
		return
	}
	text, ok := parsePointer(data)
	dir, ok := canonical(text, r.Place, ok)
	if !ok || !isGit(dir) {
		r.Trouble = "it does not lead to a git folder"
		return
	}
	main, ok := readPath(dir+"/commondir", dir)
	if !ok || main == dir { // the stub of a wall that is up says "."
		// A submodule, or a repository with its git folder elsewhere.
		if !l.writable(dir) {
			r.Trouble = "it leads to a git folder outside of what can be written, and is no worktree"
			return
		}
		r.Dir = dir
		l.folder(r, dir, 0)
		return
	}
	back, ok := readPath(dir+"/gitdir", dir)
	switch {
	case path.Dir(dir) != main+"/worktrees" || !isGit(main):
		r.Trouble = "it leads to a worktree that does not lie in its main repository"
	case !ok || back != r.Place+"/.git":
		r.Trouble = "the main repository has another place on record for this worktree"
	case !sameOwner(main, r.Place+"/.git") || !sameOwner(main, dir):
		r.Trouble = "the main repository belongs to somebody else"
	default:
		r.Dir, r.Main, r.Believed = dir, main, true
		l.folder(r, main, 0)
		r.Open = append(r.Open, dir)
		for _, name := range []string{"objects", "refs", "logs"} {
			if lstat(main+"/"+name) == unix.S_IFDIR && sameOwner(main, main+"/"+name) {
				r.Open = append(r.Open, main+"/"+name)
			}
		}
		return
	}
	if l.writable(dir) || l.writable(main) { // closed all the same
		l.folder(r, main, 0)
	}
}

// remnant reports whether dir has something in it that git would run or obey
// if it took dir for a git folder. Code inside may damage one, so that git
// does not take it, and mend it when it has changed what was open meanwhile.
func remnant(dir string) bool {
	return lstat(dir) == unix.S_IFDIR && (lstat(dir+"/HEAD") != 0 || lstat(dir+"/config") != 0 || lstat(dir+"/hooks") != 0)
}

// isGit reports whether git takes dir for a git folder.
func isGit(dir string) bool {
	switch lstat(dir + "/HEAD") {
	case unix.S_IFLNK:
	case unix.S_IFREG:
		data, err := nolink.File(dir+"/HEAD", maxPointer)
		if err != nil || !validHead(string(data)) {
			return false
		}
	default:
		return false
	}
	if lstat(dir+"/commondir") == unix.S_IFREG {
		return true
	}
	var st unix.Stat_t
	for _, name := range []string{"/objects", "/refs"} {
		if unix.Stat(dir+name, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return false
		}
	}
	return true
}

// validHead reports whether text is what git writes into HEAD: a reference,
// or the name of a commit.
func validHead(text string) bool {
	if ref, ok := strings.CutPrefix(text, "ref:"); ok {
		return strings.HasPrefix(strings.TrimLeft(ref, " \t"), "refs/")
	}
	id := strings.TrimRight(text, " \t\r\n")
	return len(id) >= 40 && strings.Trim(id, "0123456789abcdefABCDEF") == ""
}

// lstat returns the kind of file at p, an S_IF constant, links not followed,
// and 0 where nothing can be seen.
func lstat(p string) uint32 {
	var st unix.Stat_t
	if unix.Lstat(p, &st) != nil {
		return 0
	}
	return uint32(st.Mode) & unix.S_IFMT
}

func sameOwner(a, b string) bool {
	var s, t unix.Stat_t
	return unix.Lstat(a, &s) == nil && unix.Lstat(b, &t) == nil && s.Uid == t.Uid
}
