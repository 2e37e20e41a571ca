package path

import (
	"strings"
)

// maxPath is the longest path that Linux takes.
const maxPath = 4096

// A place is a path made canonical.
type place struct {
	text       string   // for people; as the path would be spelled
	segs       []string // its names, folded where the file system folds them; none is the root
	descriptor bool     // an open descriptor, which is no file's name
}

// canonical resolves what can be resolved by name alone. Why says what is
// wrong with a path whose place the name does not tell.
//
// Trailing dots and spaces belong to a name, as they do on Linux and macOS.
func canonical(name string, fold bool) (at place, why string) {
	switch {
	case len(name) == 0 || name[0] != '/':
		return at, "is not an absolute path"
	case len(name) > maxPath:
		return at, "is too long for a path"
	case strings.IndexByte(name, 0) >= 0:
		return at, "has a NUL byte in it"
	}
	segs := make([]string, 0, 16)
	for rest := name; rest != ""; {
		var seg string
		seg, rest, _ = strings.Cut(rest, "/")
		switch {
		case seg == "" || seg == ".":
			continue
		case seg == ".." && len(segs) == 0:
			continue
		case seg == ".." && (at.descriptor || kernelLink(segs)):
			return at, "goes up from an open descriptor, which may be anywhere"
		case seg == "..":
			segs = segs[:len(segs)-1]
			continue
		case at.descriptor:
			return at, "leads through an open descriptor, which may be anywhere"
		}
		if segs, at.descriptor, why = resolve(alias(append(segs, foldName(seg, fold)), fold)); why != "" {
			return at, why
		}
	}
	at.segs, at.text = segs, name
	if fold || length(segs) != len(name) || strings.Contains(name, "/proc/net") {
		at.text = "/" + strings.Join(segs, "/")
	}
	return at, ""
}

// length is how long the path of segs is. All that makes a path canonical but
// folding and /proc/net makes it shorter.
func length(segs []string) int {
	n := len(segs)
	for _, s := range segs {
		n += len(s)
	}
	return n
}

// foldName maps names to one that the file system takes for one.
func foldName(name string, fold bool) string {
	if !fold {
		return name
	}
	switch bare := ignorable.Replace(name); bare {
	case "", ".", "..":
		return Fold(name) // what is left is no name, and not what the kernel takes it for
	default:
		return Fold(bare)
	}
}

// ignorable are the signs that HFS+ leaves out when it compares names.
var ignorable = strings.NewReplacer(
	"\u200c", "", "\u200d", "", "\u200e", "", "\u200f", "", "\u202a", "", "\u202b", "", "\u202c", "",
	"\u202d", "", "\u202e", "", "\u206a", "", "\u206b", "", "\u206c", "", "\u206d", "", "\u206e", "",
	"\u206f", "", "\ufeff", "")

// kernelLink reports whether segs name the folder of descriptors in /dev,
// which is a link, so that its parent is not the one that its name says.
func kernelLink(segs []string) bool { return len(segs) == 2 && segs[0] == "dev" && segs[1] == "fd" }

// resolve follows the last of segs where it is a link of the kernel's.
func resolve(segs []string) (out []string, descriptor bool, why string) {
	n := len(segs)
	switch {
	case n == 0:
		return segs, false, ""
	case segs[0] == "dev" && n == 2 && standard(segs[1]), segs[0] == "dev" && n == 3 && segs[1] == "fd":
		return segs, true, ""
	case segs[0] == "proc" && n == 2 && (segs[1] == "net" || segs[1] == "mounts"):
		return append(segs[:1], "self", segs[1]), false, ""
	case segs[0] != "proc" || n < 3 || !process(segs[1]):
		return segs, false, ""
	}
	link := segs[2:]
	if link[0] == "task" && len(link) > 2 {
		link = link[2:]
	}
	own := segs[1] == "self" || segs[1] == "thread-self"
	switch {
	case link[0] == "root" && own:
		return segs[:0], false, ""
	case link[0] == "root":
		return segs, false, "leads through the root of another process, which may be another root"
	case link[0] == "cwd":
		return segs, false, "leads through the working folder of a process, which may be anywhere"
	case link[0] == "fd" && own:
		return segs, len(link) == 2, ""
	case link[0] == "fd", link[0] == "map_files":
		return segs, false, "leads to the open files of a process, which may be any"
	}
	return segs, false, ""
}

// process reports whether name is that of a process in /proc.
func process(name string) bool {
	return name == "self" || name == "thread-self" || name != "" && strings.Trim(name, "0123456789") == ""
}

func standard(name string) bool { return name == "stdin" || name == "stdout" || name == "stderr" }

// alias gives a folder that goes by two names the shorter one, as soon as it
// is reached: what follows may lead up from it.
func alias(segs []string, fold bool) []string {
	is := func(i int, name string) bool {
		return i < len(segs) && (segs[i] == name || fold && segs[i] == Fold(name))
	}
	switch n := len(segs); {
	case n == 3 && is(0, "System") && is(1, "Volumes") && is(2, "Data"):
		return segs[:0]
	case n == 2 && is(0, "private") && (is(1, "etc") || is(1, "tmp") || is(1, "var")), n == 2 && is(0, "var") && is(1, "run"):
		return append(segs[:0], segs[1])
	}
	return segs
}

// device reports whether segs name a device that everybody may use.
func device(segs []string) bool {
	if len(segs) == 3 {
		return segs[0] == "dev" && segs[1] == "pts"
	}
	if len(segs) != 2 || segs[0] != "dev" {
		return false
	}
	switch segs[1] {
	case "null", "zero", "full", "random", "urandom", "tty", "ptmx":
		return true
	}
	return false
}
