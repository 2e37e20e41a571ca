package hostscan

import (
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// harmless lists, by section, the names of repository settings that make git
// neither run a program nor read from elsewhere. Git writes them itself when it
// creates, clones or fetches into a repository. Any other name is treated as
// one that may run a program, because git gains new ones.
var harmless = map[string][]string{
	"core": {
		"repositoryformatversion", "filemode", "bare", "logallrefupdates", "ignorecase", "precomposeunicode", "symlinks", "autocrlf", "eol",
		"safecrlf", "abbrev", "quotepath", "sharedrepository", "compression", "loosecompression", "bigfilethreshold", "untrackedcache",
		"sparsecheckout", "sparsecheckoutcone", "commitgraph", "multipackindex", "longpaths", "protecthfs", "protectntfs", "fscache",
		"preloadindex", "checkstat", "trustctime", "hidedotfiles", "commentchar", "whitespace", "warnambiguousrefs", "splitindex", "createobject",
	},
	"remote": {
		"url", "pushurl", "fetch", "push", "mirror", "tagopt", "prune", "prunetags", "promisor", "partialclonefilter", "skipdefaultupdate",
		"skipfetchall", "gh-resolved", "followremotehead",
	},
	"branch":     {"remote", "merge", "rebase", "description", "pushremote", "autosetupmerge", "autosetuprebase", "sort", "vscode-merge-base", "gh-merge-base"},
	"submodule":  {"url", "active", "branch", "path", "ignore", "fetchrecursesubmodules", "fetchjobs", "recurse", "alternatelocation", "alternateerrorstrategy", "update"},
	"extensions": {"objectformat", "compatobjectformat", "refstorage", "partialclone", "preciousobjects", "noop", "noop-v1", "worktreeconfig", "relativeworktrees"},
	"user":       {"name", "email", "signingkey", "useconfigonly"},
	"author":     {"name", "email"}, "committer": {"name", "email"},
	"init": {"defaultbranch", "defaultobjectformat", "defaultrefformat"},
	"pull": {"rebase", "ff"}, "push": {"default", "autosetupremote", "followtags", "recursesubmodules"},
	"fetch":  {"prune", "prunetags", "recursesubmodules", "parallel", "writecommitgraph", "fsckobjects"},
	"commit": {"gpgsign", "verbose", "cleanup"}, "tag": {"gpgsign", "sort", "forcesignannotated"},
	"merge": {"conflictstyle", "ff", "renames", "renamelimit", "directoryrenames", "log"}, "rebase": {"autostash", "autosquash", "updaterefs"},
	"rerere": {"enabled", "autoupdate"}, "diff": {"renames", "renamelimit", "algorithm", "mnemonicprefix", "noprefix", "submodule", "ignoresubmodules", "context"},
	"color": {"ui", "branch", "diff", "status"}, "column": {"ui"},
	"gc":   {"auto", "autodetach", "pruneexpire", "autopacklimit", "worktreepruneexpire"},
	"pack": {"threads", "window", "depth", "windowmemory", "packsizelimit", "usesparse", "writereverseindex"},
	"http": {"postbuffer", "lowspeedlimit", "lowspeedtime", "version", "maxrequests"}, "protocol": {"version"},
	"index": {"version", "threads", "sparse", "skiphash"}, "feature": {"manyfiles", "experimental"}, "status": {"showuntrackedfiles", "short", "branch", "submodulesummary", "renames", "renamelimit"},
	"maintenance": {"auto", "strategy"}, "receive": {"denycurrentbranch", "denynonfastforwards", "denydeletes"},
	"lfs": {"repositoryformatversion", "access", "locksverify"}, "advice": nil, "i18n": {"commitencoding", "logoutputencoding"}, "checkout": {"defaultremote", "guess", "workers"},
}

// runs reports whether s may make git run a program, or take configuration,
// hooks or files from elsewhere.
func (s setting) runs() bool {
	section, name, _ := strings.Cut(s.key, ".")
	names, known := harmless[section]
	switch {
	case !known, name == "", names != nil && !slices.Contains(names, name), strings.ContainsAny(s.sub, "\n\x00"):
		return true
	case section == "remote" && strings.HasSuffix(name, "url"), section == "submodule" && name == "url":
		// The name before "::" selects a git program that handles the remote.
		return strings.Contains(s.value, "::") || strings.HasPrefix(strings.TrimSpace(s.value), "-")
	case section == "submodule" && name == "update":
		return !slices.Contains([]string{"checkout", "rebase", "merge", "none"}, s.value)
	}
	return false
}

// programs are the last parts of setting names whose value git passes to a
// shell or executes, or through which it reads files of the work tree.
var programs = []string{
	"fsmonitor", "sshcommand", "askpass", "editor", "pager", "gitproxy", "alternaterefscommand", "clean", "smudge", "process", "command", "cmd", "driver",
	"textconv", "external", "program", "helper", "path", "difffilter", "defaultkeycommand", "packobjectshook", "uploadpack", "receivepack", "tunnel", "templatedir",
}

// words returns the words of the program in s that could be paths in the work
// tree, as written there.
func (s setting) words() []string {
	section, name, _ := strings.Cut(s.key, ".")
	if section == "include" || section == "includeif" || s.value == "" {
		return nil
	}
	alias := section == "alias" && strings.HasPrefix(s.value, "!")
	update := section == "submodule" && name == "update" && strings.HasPrefix(s.value, "!")
	if !alias && !update && section != "pager" && section != "alias" && !slices.Contains(programs, name) || section == "alias" && !alias {
		return nil
	}
	if section == "submodule" && name == "path" || section == "remote" && name == "path" {
		return nil
	}
	split := func(r rune) bool { return strings.ContainsRune(" \t\r\n'\"`;|&()<>{}$!=,", r) }
	var out []string
	for _, w := range strings.FieldsFunc(s.value, split) {
		w = strings.ReplaceAll(w, `\`, "")
		if w != "" && w != "." && w != ".." && !strings.HasPrefix(w, "-") && !strings.HasPrefix(w, "%") && len(w) < maxPointer && !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}

// encode writes settings in the form that git reads.
func encode(list []setting) string {
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`)
	var b strings.Builder
	last := ""
	for _, s := range list {
		section, name, _ := strings.Cut(s.key, ".")
		head := "[" + section + "]\n"
		if s.sub != "" {
			head = "[" + section + ` "` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s.sub) + "\"]\n"
		}
		if head != last {
			b.WriteString(head)
			last = head
		}
		b.WriteString("\t" + name)
		if !s.bare {
			b.WriteString(` = "` + quote.Replace(s.value) + `"`)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// plainly reports whether all readers of configuration parse text in the same
// way: it has one setting or section a line, and values without quotes, escapes
// and comments.
func plainly(text string) bool {
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.Trim(line, " \t")
		switch {
		case line == "":
		case line[0] == '[':
			if head, sub, quoted := strings.Cut(line, ` "`); quoted {
				if !isWord(head[1:]) || !strings.HasSuffix(sub, `"]`) || strings.ContainsAny(strings.TrimSuffix(sub, `"]`), "\"\\]\r\x00") {
					return false
				}
			} else if !strings.HasSuffix(line, "]") || !isWord(strings.TrimSuffix(line[1:], "]")) {
				return false
			}
		default:
			name, value, _ := strings.Cut(line, "=")
			if !isWord(strings.TrimRight(name, " \t")) || strings.ContainsAny(value, "\"\\#;\r\x00") {
				return false
			}
		}
	}
	return true
}

func isWord(s string) bool {
	return s != "" && strings.Trim(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// mayBePath reports whether the word w of a program's command line refers to a
// file of the work tree at top: it has the form of such a path, lies in an
// existing folder, or is an existing file.
func (l *protectLook) mayBePath(w, top string) bool {
	at := w
	if !strings.HasPrefix(w, "/") {
		at = path.Join(top, w)
	}
	switch {
	case strings.HasPrefix(w, "/"), strings.HasPrefix(w, "~/"), strings.HasPrefix(w, "./"), strings.HasPrefix(w, "../"):
		return true
	case strings.Contains(w, "/"):
		return l.kind(path.Dir(at)) == unix.S_IFDIR || l.kind(path.Dir(at)) == unix.S_IFLNK
	}
	k := l.kind(at)
	return k == unix.S_IFREG || k == unix.S_IFLNK
}

// scripts returns the files of the work tree that settings make git run, or
// pass to a program that git runs.
func (l *protectLook) scripts(list []setting, tops []string) (out []protectNamed) {
	for _, s := range list {
		for _, w := range s.words() {
			for _, top := range tops {
				if !l.mayBePath(w, top) {
					continue
				}
				n, _, ok := l.named(w, top, false)
				if ok && n.Path != "" && n.Path != top && l.writable(n.Path) && !slices.ContainsFunc(out, n.same) {
					out = append(out, n)
				}
			}
		}
	}
	return out
}
