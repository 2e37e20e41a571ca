package command

import (
	"net/url"
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/path"
)

// placeOf is [resolvePath], but leaves ".." in a path that may lead through a
// link of the kernel, whose parent is not the folder that the name says. The
// path policy reads such a path itself.
func placeOf(dir, name string) string {
	abs := name
	if !strings.HasPrefix(name, "/") {
		abs = dir + "/" + name
	}
	if strings.HasPrefix(abs, "/") && strings.Contains(abs, "..") && len(abs) < maxPath && (strings.Contains(abs, "/proc/") || strings.Contains(abs, "/dev/fd/")) {
		return abs
	}
	return resolvePath(dir, name)
}

// unreported asks about a word that the text determines only in part: about the
// names behind a variable, as if they lay in any folder, in the root or in a
// home folder; and about a name of which only the beginning is known.
func (q *fileQuestions) unreported(op sandbox.Operation, w lineWord, dirs []string) {
	if i := strings.LastIndexByte(w.Prefix, '/'); len(w.Prefix) > i+2 && w.Prefix[i+1] == '.' && w.Prefix[i+2] != '.' {
		for _, dir := range dirs {
			abs := resolvePath(dir, w.Prefix)
			if !strings.HasPrefix(abs, "/") {
				abs = "/unknown/" + abs
			}
			q.may(op, escapeGlob(abs)+"*", w, policy.Ask)
		}
	}
	for _, p := range w.Pieces {
		whole := strings.HasPrefix(p.Text, "/")
		name := strings.TrimLeft(p.Text, "/")
		if name = strings.TrimPrefix(name, "./"); strings.Trim(name, "./") == "" {
			continue
		}
		pattern := name
		if !w.Glob {
			pattern = escapeGlob(name)
		}
		if p.Open && !strings.HasSuffix(name, "/") {
			pattern += "*"
		}
		most := policy.Deny
		if !whole || p.Open {
			most = policy.Ask // the variable may go on with the name
		}
		q.may(op, "/unknown/"+pattern, w, most)
		if whole {
			q.may(op, "/"+pattern, w, policy.Ask)
			if q.home != "" {
				q.may(op, q.home+"/"+pattern, w, policy.Ask)
			}
		}
	}
}

// may asks about a place that a word perhaps means; the answer is most at the
// strictest. Only rules and the table of sensitive files count.
func (q *fileQuestions) may(op sandbox.Operation, pattern string, w lineWord, most policy.Verdict) {
	if len(pattern) >= maxPath {
		return
	}
	var d path.Decision
	if q.asked++; strings.ContainsAny(pattern, `*?[\`) {
		q.asked += globQuestions
	}
	switch {
	case q.asked > maxQuestions:
		return
	case strings.ContainsAny(pattern, `*?[\`):
		d = q.paths.policy.JudgeGlob(op, pattern)
	default:
		d = q.paths.policy.Judge(op, pattern)
	}
	switch d.Category {
	case path.CategoryRoots, path.CategoryTemporary, path.CategoryName, "":
		return
	}
	if d.Verdict == policy.Deny && most == policy.Ask {
		d.Verdict, d.Severity = policy.Ask, policy.High
	}
	q.answer(d, w)
}

// escapeGlob writes a path as a pattern that means just that.
func escapeGlob(name string) string {
	if !strings.ContainsAny(name, `*?[\`) {
		return name
	}
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(name)
}

// fileURL asks about the file that a URL names; rest stands behind "file:".
func (q *fileQuestions) fileURL(rest string, w lineWord, dirs []string) {
	if after, ok := strings.CutPrefix(rest, "//"); ok {
		i := strings.IndexByte(after, '/')
		if i < 0 {
			return
		}
		rest = after[i:] // behind the host
	}
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		rest = rest[:i]
	}
	if plain, err := url.PathUnescape(rest); err == nil {
		rest = plain
	}
	w.Value, w.Glob = "/"+strings.TrimLeft(rest, "/"), strings.ContainsAny(rest, "[")
	if i := strings.IndexByte(rest, '{'); i >= 0 { // which curl takes for a list
		w.Value, w.Glob = escapeGlob("/"+strings.TrimLeft(rest[:i], "/"))+"*", true
	}
	q.word(sandbox.OpRead, w, dirs)
}

// indirect asks about what reaches a program by way of a variable or of its
// standard input: items of loops and arrays, values, words that echo writes
// into a pipe, names that find looks for. It does so where a word comes from a
// variable, or where a program is given names that the text does not tell.
func (q *fileQuestions) indirect() {
	variable := slices.ContainsFunc(q.Redirects, func(r lineRedirect) bool { return !r.Target.Static && !strings.HasPrefix(r.Op, "<<") })
	open := false
	for i := range q.calls {
		k := &q.calls[i]
		open = open || k.Open || k.program == "read" || k.program == "mapfile" || k.program == "readarray"
		if r := q.tables.roles[k.program]; (r == nil || !r.none) && !variable {
			variable = slices.ContainsFunc(k.Words[1:], func(w lineWord) bool { return !w.Static && strings.Contains(w.Raw, "$") })
		}
	}
	variable = variable || open
	q.tree = false
	if variable {
		for _, w := range q.Values {
			q.value(w, q.in.Dir)
		}
		for i := range q.Assigns {
			q.value(q.Assigns[i].Value, q.in.Dir)
		}
	}
	for i := range q.calls {
		k := &q.calls[i]
		piped := open && slices.Contains(k.Via, linePipe) || variable && slices.Contains(k.Via, lineSubstitution) || slices.Contains(k.Via, processSubst)
		switch {
		case k.program == "find" || k.program == "gfind" || k.program == "fd":
			if q.findsNames(k, open) {
				q.names(k)
			}
		case variable && k.program == "set", variable && k.program == "printf" && k.letter('v'), piped && (k.program == "echo" || k.program == "printf"):
			for _, w := range k.Words[1:] {
				q.value(w, k.Dir)
			}
		}
	}
	if !variable {
		return
	}
	for i := range q.Redirects {
		if r := &q.Redirects[i]; r.Op == "<<<" {
			q.value(r.Target, r.Dir)
		}
	}
}

// value asks about the words of a text that may become the name of a file.
func (q *fileQuestions) value(w lineWord, dir string) {
	if !w.Static {
		q.unreported(sandbox.OpRead, w, []string{dir})
		return
	}
	for _, name := range strings.Fields(w.Value[:min(len(w.Value), maxPath)]) {
		if strings.ContainsAny(name, "./") {
			w.Value = name
			q.sensitive(w, []string{dir})
		}
	}
}

// findsNames reports whether find gives what it finds to a program, removes it
// or writes it.
func (q *fileQuestions) findsNames(k *call, open bool) bool {
	return open || slices.ContainsFunc(k.Words, func(w lineWord) bool {
		return hasWord("-exec -execdir -ok -okdir -delete -fprintf -x -X --exec --exec-batch", w.Value)
	})
}

// names asks about the names that find looks for.
func (q *fileQuestions) names(k *call) {
	for i, w := range k.Words {
		if i == 0 || !w.Static || !hasWord("-name -iname -path -ipath -wholename -iwholename -samefile -regex -iregex", k.Words[i-1].Value) && k.program != "fd" {
			continue
		}
		name := strings.TrimLeft(w.Value, "*./^")
		if name == "" {
			continue
		}
		if strings.HasPrefix(k.Words[i-1].Value, "-i") {
			name = strings.ToLower(name)
		}
		if strings.HasSuffix(k.Words[i-1].Value, "regex") {
			name = strings.NewReplacer(`\.`, ".", ".*", "*", "$", "").Replace(name)
		}
		for _, lead := range []string{"", "."} {
			if lead == "" || strings.Contains(w.Value, ".") || strings.HasPrefix(w.Value, "*") || k.program == "fd" {
				q.may(sandbox.OpRead, "/unknown/"+lead+name, w, policy.Ask)
			}
		}
	}
}
