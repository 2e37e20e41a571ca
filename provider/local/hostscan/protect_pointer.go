package hostscan

import (
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"golang.org/x/sys/unix"
)

// maxPointer bounds in bytes the small files that hold one path.
const maxPointer = 4096 + 16

// parsePointer returns the path in a ".git" file, as written there.
func parsePointer(data []byte) (p string, ok bool) {
	rest, ok := strings.CutPrefix(string(data), "gitdir: ")
	return parsePath(rest, ok)
}

// parsePath returns the path in a file whose only line it is.
func parsePath(text string, ok bool) (string, bool) {
	text = strings.TrimRight(text, "\r\n")
	return text, ok && text != "" && !strings.ContainsAny(text, "\x00\r\n")
}

// readPath reads a file that holds one path, relative to base unless it is
// absolute, and returns the resolved path.
func (l *protectLook) readPath(file, base string) (string, bool) {
	data, err := l.file(file, maxPointer)
	if err != nil {
		return "", false
	}
	p, ok := parsePath(string(data), true)
	if !ok {
		return "", false
	}
	return l.canonical(p, base)
}

// pointer follows the ".git" file of r. It accepts a worktree only if the main
// repository knows it: any process that ever had write access to the folder may
// have made the file, while the folders that it leads to become writable.
func (l *protectLook) pointer(r *Repo) {
	data, err := l.file(r.Place+"/.git", maxPointer)
	if err != nil {
		r.Trouble = "it cannot be read"
		return
	}
	text, ok := parsePointer(data)
	dir := ""
	if ok {
		dir, ok = l.canonical(text, r.Place)
	}
	if !ok || l.kind(dir) != unix.S_IFDIR {
		r.Trouble = "it does not lead to a git folder"
		return
	}
	main, ok := l.readPath(dir+"/commondir", dir)
	if !ok || main == dir { // the stub of a running sandbox says "."
		// A submodule, or a repository whose git folder lies elsewhere.
		switch taken := l.isGit(dir); {
		case !taken && !l.remnant(dir):
			r.Trouble = "it does not lead to a git folder"
			return
		case !l.writable(dir):
			r.Trouble = "it leads to a git folder outside of what can be written, and is no worktree"
			l.outside(r, dir, "")
			return
		case taken:
			r.Dir = dir
		default:
			r.Trouble = "it leads to a git folder that is damaged"
		}
		l.folder(r, dir, 0)
		return
	}
	back, ok := l.readPath(dir+"/gitdir", dir)
	switch {
	case path.Dir(dir) != main+"/worktrees":
		r.Trouble = "it leads to a worktree that does not lie in its main repository"
	case !ok || back != r.Place+"/.git":
		r.Trouble = "the main repository has another place on record for this worktree"
	case !sameOwner(main, r.Place+"/.git") || !sameOwner(main, dir):
		r.Trouble = "the main repository belongs to another user"
	case !l.isGit(dir) || !l.isGit(main):
		r.Trouble = "it leads to a worktree that is damaged" // possibly by code inside
	default:
		r.Dir, r.Main, r.Believed = dir, main, true
		r.Open = append(r.Open, dir)
		for _, name := range []string{"objects", "refs", "logs"} {
			if l.kind(main+"/"+name) == unix.S_IFDIR && sameOwner(main, main+"/"+name) {
				r.Open = append(r.Open, main+"/"+name)
			}
		}
		if r.Own && !l.writable(main) {
			l.open = append(l.open, r.Open...)
		}
		l.folder(r, main, 0)
		return
	}
	if l.writable(dir) || l.writable(main) { // closed in any case
		l.folder(r, main, 0)
	} else {
		l.outside(r, main, dir)
	}
}

// remnant reports whether dir holds files that git would execute or apply if it
// accepted dir as a git folder. Code inside may damage a git folder so that git
// does not accept it, change the files that are open meanwhile, and repair it.
func (l *protectLook) remnant(dir string) bool {
	return l.kind(dir) == unix.S_IFDIR && (l.kind(dir+"/HEAD") != 0 || l.kind(dir+"/config") != 0 || l.kind(dir+"/hooks") != 0)
}

// isGit reports whether git accepts dir as a git folder.
func (l *protectLook) isGit(dir string) bool {
	switch l.kind(dir + "/HEAD") {
	case unix.S_IFLNK:
	case unix.S_IFREG:
		data, err := hostpath.File(dir+"/HEAD", maxPointer)
		switch {
		case err == nil && !validHead(string(data)), hostpath.Gone(err):
			return false
		case err == nil, odd(err): // git reads the beginning of a long one
		case errors.Is(err, unix.EACCES): // its owner may make it readable
		default:
			l.fail(unread(dir+"/HEAD", err))
		}
	default:
		return false
	}
	if l.kind(dir+"/commondir") == unix.S_IFREG {
		if to, ok := l.readPath(dir+"/commondir", dir); !ok || to != dir { // otherwise it is the stub of a sandbox
			return true
		}
	}
	var st unix.Stat_t
	for _, name := range []string{"/objects", "/refs"} {
		if err := unix.Stat(dir+name, &st); err != nil && !errors.Is(err, unix.EACCES) || err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return false
		}
	}
	return true
}

// isBare reports whether the folder at dir, which may hold any files, is a bare
// repository, or a damaged one, which its configuration shows because code
// inside could not change it. Many folders have a file called "config", which
// may be long or not accessible.
func (l *protectLook) isBare(dir string) bool {
	if l.isGit(dir) {
		return true
	}
	file := dir + "/config"
	if l.kind(file) != unix.S_IFREG {
		return false
	}
	data, err := hostpath.File(file, maxConfig)
	if errors.Is(err, unix.EAGAIN) {
		l.fail(unread(file, err))
	}
	return slices.ContainsFunc(parseConfig(string(data)), func(s setting) bool {
		return s.key == "core.repositoryformatversion" || s.key == "core.bare"
	})
}

// validHead reports whether text is what git writes into HEAD: a reference, or
// the hash of a commit.
func validHead(text string) bool {
	if ref, ok := strings.CutPrefix(text, "ref:"); ok {
		return strings.HasPrefix(strings.TrimLeft(ref, " \t"), "refs/")
	}
	id := strings.TrimRight(text, " \t\r\n")
	return len(id) >= 40 && strings.Trim(id, "0123456789abcdefABCDEF") == ""
}

func sameOwner(a, b string) bool {
	var s, t unix.Stat_t
	return unix.Lstat(a, &s) == nil && unix.Lstat(b, &t) == nil && s.Uid == t.Uid
}
