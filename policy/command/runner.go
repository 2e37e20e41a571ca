package command

import (
	"path"
	"strings"
)

// runsModuleCode reports whether the arguments make Python run a module that
// takes code as its argument.
func runsModuleCode(k *call) bool {
	for _, o := range k.options {
		if o.name == "-m" && o.given && hasWord("timeit pdb trace code", o.value.Value) {
			return true
		}
	}
	return false
}

// makeReads reports whether make takes its rules from its standard input or
// another place that is no file of its own.
func makeReads(k *call) bool {
	for _, o := range k.options {
		if !o.given || !hasWord("-f --file --makefile", o.name) {
			continue
		}
		if v := o.value.Value; v == "-" || strings.HasPrefix(v, "/dev/") || strings.HasPrefix(v, "/proc/") {
			return true
		}
	}
	return false
}

// makeSets reports whether a variable that make is given holds characters
// with which a shell ends one command and begins another.
func makeSets(k *call) bool {
	for _, w := range k.all {
		if name, value, ok := strings.Cut(w.Value, "="); ok && !strings.HasPrefix(name, "-") && strings.ContainsAny(value, ";|&`#<>\n") {
			return true
		}
	}
	return false
}

// linksAway reports whether a symbolic link is made to a folder around the
// work, or to everything, so that names below it hide what they mean.
func linksAway(k *call) bool {
	if _, ok := k.given("-s --symbolic --symbolic-link"); !ok || len(k.operands) == 0 {
		return false
	}
	targets := k.operands
	if _, into := k.given("-t --target-directory"); !into && len(targets) > 1 {
		targets = targets[:len(targets)-1]
	}
	for _, w := range targets {
		if !w.Static {
			continue
		}
		v := path.Clean(w.Value)
		if v == "/" || v == ".." || strings.HasSuffix(v, "/..") || strings.HasPrefix(v, "/") && strings.Count(v, "/") == 1 ||
			path.Dir(v) == "/home" || path.Dir(v) == "/Users" {
			return true
		}
	}
	return false
}

// goLinks reports whether the arguments of go name the program that links.
func goLinks(k *call) bool {
	for _, w := range k.all {
		if strings.Contains(w.Value, "-extld=") || strings.Contains(w.Value, "-extld ") {
			return true
		}
	}
	return false
}

// sqlSystem reports whether the arguments make the mysql client start a
// program.
func sqlSystem(k *call) bool {
	for _, w := range k.all {
		for statement := range strings.SplitSeq(w.Value, ";") {
			if strings.HasPrefix(strings.TrimSpace(statement), "system ") {
				return true
			}
		}
	}
	return false
}

// awkRuns reports whether a program of awk acts, and may do so by a command.
func awkRuns(k *call) bool {
	if !awkActs(k) {
		return false
	}
	for _, w := range k.all {
		if strings.Contains(w.Value, "system") || strings.ContainsAny(w.Value, "|@") {
			return true
		}
	}
	return false
}

// gitExecutes reports whether git rebase is given a command.
func gitExecutes(k *call) bool {
	rest := grammar{short: "x"}.parse(k.operands[1:], k.Open)
	_, ok := rest.given("-x --exec")
	return ok
}

// gitWrites returns the files that the arguments of a git command make it
// write.
func gitWrites(k *call) []lineWord {
	if len(k.operands) == 0 {
		return nil
	}
	rest := k.operands[1:]
	g := grammar{long: "--output --output-directory"}
	switch k.operands[0].Value {
	case "archive", "format-patch":
		g.short = "o"
	case "bundle":
		if len(rest) > 1 && rest[0].Value == "create" {
			return rest[1:2]
		}
		return nil
	case "diff", "log", "show":
	default:
		return nil
	}
	var out []lineWord
	for _, o := range g.parse(rest, k.Open).options {
		if o.given && hasWord("-o --output --output-directory", o.name) {
			out = append(out, o.value)
		}
	}
	return out
}
