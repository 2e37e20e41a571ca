package hostscan

import (
	"path"
	"slices"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
	"golang.org/x/sys/unix"
)

// maxIncludes bounds the files that the configuration of one repository, or of
// the user, includes.
const maxIncludes = 64

// An asked is the set of paths that configuration files make git run or read.
type asked struct {
	files    []protectNamed // more configuration
	hooks    []string       // folders of hooks as written in the configuration
	tops     []string       // work tree folders, if the configuration names them
	worktree bool           // config.worktree applies
	runs     []setting
}

// config records what the configuration of f makes git run or read. Git
// resolves a relative path of hooks against the folder that it works in, of
// which only tops are known, or against the git folder if it works in none.
func (l *protectLook) config(f *protectFolder, tops []string) {
	files := []source{sourceOf(f.Path + "/config"), sourceOf(f.Path + "/config.worktree")}
	for _, w := range f.Worktrees {
		files = append(files, sourceOf(w+"/config.worktree"))
	}
	a := l.read(files, f.Path)
	f.WorktreeConfig = a.worktree
	f.Named = append(f.Named, a.files...)
	for _, h := range a.hooks {
		f.Named = append(f.Named, l.hooks(h, slices.Concat(tops, a.tops, []string{f.Path}))...)
	}
	f.Named = append(f.Named, l.scripts(a.runs, slices.Concat(tops, a.tops))...)
}

// hooks returns the folders that a hooks path refers to, below each of tops if
// the path is relative.
func (l *protectLook) hooks(p string, tops []string) (out []protectNamed) {
	for _, top := range tops {
		if n, _, ok := l.named(p, top, true); ok && !slices.ContainsFunc(out, n.same) {
			out = append(out, n)
		}
		if path.Base(p) != "_" {
			continue
		}
		// Husky's hooks lie in a folder "_" and run the script of the same name
		// in the folder above.
		if n, _, ok := l.named(path.Dir(p), top, true); ok && n.Path != top && !slices.ContainsFunc(out, n.same) {
			out = append(out, n)
		}
	}
	return out
}

// A source is a configuration file and the folder that paths in it are relative
// to: the folder of the name, not of a link's target.
type source struct{ file, dir string }

func sourceOf(file string) source { return source{file, path.Dir(file)} }

// read reads files and everything that they include. git is the folder that a
// work tree path is relative to. A file that exists but cannot be read could
// name anything, so it ends the look, and no sandbox is made.
func (l *protectLook) read(files []source, git string) asked {
	var a asked
	most := len(files) + maxIncludes
	for i := 0; i < len(files); i++ {
		if len(files) > most {
			l.fail(protectFailed(sandbox.CodeCapabilityBlocked, files[0].file, "git's configuration includes too many files to protect what they name", "join some of them"))
			return a
		}
		for _, s := range l.settings(files[i].file) {
			if len(s.words()) > 0 {
				a.runs = append(a.runs, s)
			}
			switch s.key {
			case "extensions.worktreeconfig":
				a.worktree = true
			case "core.hookspath":
				if s.value != "" {
					a.hooks = append(a.hooks, s.value)
				}
			case "core.worktree":
				if c, ok := l.canonical(s.value, git); ok && s.value != "" {
					a.tops = append(a.tops, c)
				}
			case "include.path", "includeif.path":
				n, from, ok := l.named(s.value, files[i].dir, false)
				if ok && !slices.ContainsFunc(a.files, n.same) {
					a.files = append(a.files, n)
				}
				if ok && n.Path != "" && !slices.Contains(files, from) {
					files = append(files, from)
				}
			}
		}
	}
	return a
}

// settings returns the settings in one file, none if it is missing.
func (l *protectLook) settings(file string) []setting {
	if s, ok := l.parsed[file]; ok {
		return s
	}
	data, err := l.file(file, maxConfig)
	if odd(err) && l.kind(file) != unix.S_IFDIR && l.kind(file) != unix.S_IFCHR { // /dev/null
		l.fail(protectFailed(sandbox.CodeCapabilityBlocked, file, "git's configuration is too long, or no file, so that what it names cannot be protected", "make it shorter"))
	}
	if l.total += len(data); l.total > maxTotal {
		l.fail(protectFailed(sandbox.CodeCapabilityBlocked, file, "git's configuration is too long in all repositories together to protect what it names",
			"allow narrower folders in filesystem.allowWrite"))
		return nil
	}
	l.parsed[file] = parseConfig(string(data))
	return l.parsed[file]
}

// named resolves the configured path p relative to base. It also returns the
// file there as a source.
func (l *protectLook) named(p, base string, dir bool) (protectNamed, source, bool) {
	p = strings.TrimPrefix(p, ":(optional)")
	if rest, ok := strings.CutPrefix(p, "~/"); ok && l.f.Home != "" {
		p = l.f.Home + "/" + rest
	} else if p == "" || strings.HasPrefix(p, "~") || strings.HasPrefix(p, "%(") {
		return protectNamed{}, source{}, false
	}
	if !strings.HasPrefix(p, "/") {
		p = base + "/" + p
	}
	n := protectNamed{Dir: dir}
	var ok bool
	n.Path, n.Links, ok = l.trace(p)
	from, _ := l.canonical(p[:strings.LastIndexByte(p, '/')+1], "/")
	return n, source{n.Path, from}, ok
}

func (n protectNamed) same(o protectNamed) bool {
	return n.Path == o.Path && slices.Equal(n.Links, o.Links)
}
