package config

import (
	"path"
	"strings"

	policypath "github.com/bulkhead-dev/sandbox/policy/path"
)

// path takes a rule for files.
//
// Rules write "//x" for an absolute path, "~/x" for one in the home, "/x" for
// one in the folder of the settings file, and "./x" or "x" for one in the
// working folder, which in a sandbox is the workspace. What follows is a
// pattern of the kind that gitignore has: a name without a slash matches in
// every folder. A deny accepts a pattern; an allow accepts a path only,
// because a sandbox cannot open what matches a pattern.
func (im *permrulesImporter) path(content string, has, write bool) {
	if !has || content == "*" || content == "**" {
		im.everyFile()
		return
	}
	place, rest, why := im.place(content)
	if why == "" && place == inWork && im.kind != denying {
		im.inWorkspace()
		return
	}
	text := ""
	if why == "" {
		text, why = permrulesSpelled(place, rest, im.dir, im.kind == denying)
	}
	if why != "" {
		im.cannot(why, "write //PATH, ~/PATH, /PATH for the settings file's folder, or PATH in the working folder")
		return
	}
	im.take(text, write)
}

// take puts a path in the list that it belongs to.
func (im *permrulesImporter) take(text string, write bool) {
	allow, deny := &im.out.AllowRead, &im.out.DenyRead
	if write {
		allow, deny = &im.out.AllowWrite, &im.out.DenyWrite
	}
	switch {
	case im.kind == denying && text == "/":
		im.cannot("denies every file, with which nothing could run", "name the folders that are meant")
	case im.kind == denying:
		im.add(deny, text)
	case im.kind == allowing && strings.ContainsAny(text, patternSigns):
		im.cannot("allows what matches a pattern, and a sandbox can open files and folders only", "name the folder")
	case im.kind == allowing:
		im.add(allow, text)
	case im.allowed(im.out.AllowRead, text, relatedPaths) && !write, im.allowed(im.out.AllowWrite, text, relatedPaths):
		im.cannot("asks about files some of which another rule allows", "take them out of that rule")
	default:
		im.notice(whyAsk)
	}
}

// everyFile takes a rule for every file.
func (im *permrulesImporter) everyFile() {
	im.cannot("means every file", "name folders, or write (//) where the whole machine is meant")
}

// inWorkspace takes an allow or ask for files of the working folder.
func (im *permrulesImporter) inWorkspace() {
	if im.kind == allowing {
		im.notice("nothing is set for it: the working folder is the workspace, which may be used as workspaceAccess says")
		return
	}
	im.cannot("asks about files of the workspace, which may be used without asking", "move it to deny")
}

// patternSigns are what makes a rule of the settings a pattern.
const patternSigns = "*?[{"

// A where says where a path of a rule starts.
type where int

const (
	atRoot where = iota
	inHome
	inSettings
	inWork
)

// place cuts a path into where it starts and the rest, without a slash at
// either end.
func (im *permrulesImporter) place(content string) (place where, rest, why string) {
	rest = strings.TrimSpace(content)
	switch {
	case strings.HasPrefix(rest, "!"):
		return 0, "", "takes files out of other rules, for which there is no setting"
	case strings.HasPrefix(rest, "//"):
		place = atRoot
	case rest == "~", strings.HasPrefix(rest, "~/"):
		place, rest = inHome, rest[1:]
	case strings.HasPrefix(rest, "~"):
		return 0, "", "names another user's home"
	case strings.HasPrefix(rest, "/"):
		place = inSettings
		if !path.IsAbs(im.dir) {
			return 0, "", "lies in the folder of the settings file, which is not known"
		}
	default:
		place = inWork
	}
	for _, name := range strings.Split(rest, "/") {
		if name == ".." {
			return 0, "", `has ".." in it`
		}
	}
	return place, rest, ""
}

// spelled writes a path as the settings do.
func permrulesSpelled(place where, rest, dir string, deny bool) (text, why string) {
	bare := place == inWork && !strings.Contains(strings.TrimSuffix(rest, "/"), "/")
	rest = strings.TrimPrefix(path.Clean("/"+rest), "/")
	for strings.HasSuffix(rest, "/**") {
		rest = strings.TrimSuffix(rest, "/**")
	}
	if rest == "**" {
		rest = ""
	}
	// A name that has braces, or a backslash and no pattern, means just that in
	// the rules; in the settings both are signs.
	switch {
	case strings.ContainsAny(rest, "*?["):
		rest = strings.NewReplacer("{", `\{`, "}", `\}`).Replace(rest)
	case strings.Contains(rest, `\`):
		return "", "has a backslash and no pattern in it, which is read in different ways"
	case strings.Contains(rest, "{"), bare && deny, place == inSettings && strings.ContainsAny(dir, patternSigns):
		rest = escaped(rest) // it is going to be a pattern, or part of one
	}
	if strings.ContainsAny(rest, patternSigns) {
		if _, why := policypath.Parse(rest); why != "" {
			return "", why
		}
	}
	switch place {
	case atRoot:
		text = "/" + rest
	case inHome:
		text = path.Join("~", rest)
	case inSettings:
		if strings.ContainsAny(rest, patternSigns) || strings.ContainsAny(dir, patternSigns) {
			dir = escaped(dir)
		}
		text = path.Join(dir, rest)
	default:
		switch {
		case rest == "":
			return "", "means the whole working folder"
		case bare && deny:
			rest = "**/" + rest
		case strings.HasPrefix(rest, "~"):
			return "", "has a name that starts with ~ in the working folder"
		}
		text = rest
	}
	return strings.ReplaceAll(text, "$", "$$"), ""
}

// escaped writes a path as a pattern that means just that.
func escaped(name string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`, "{", `\{`, "}", `\}`).Replace(name)
}

// relatedPaths reports whether some file may be meant by both rules.
func relatedPaths(a, b string) bool {
	for _, p := range []string{a, b} {
		if strings.ContainsAny(p, patternSigns) {
			return true
		}
	}
	return a == b || a == "/" || b == "/" || strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/") || strings.HasPrefix(a, "~") != strings.HasPrefix(b, "~")
}
