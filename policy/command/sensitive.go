package command

import (
	"fmt"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/path"
)

// files answers what the sensitive-file check asks about files.
type files struct {
	policy   *path.Policy
	rootless bool // the policy knows no roots: what it says about them does not count
}

// newFiles returns p, or a policy that knows the table of sensitive files
// only.
func newFiles(p *path.Policy, home string) (files, error) {
	if p != nil {
		return files{policy: p}, nil
	}
	p, err := path.New(path.Options{Home: home})
	return files{policy: p, rootless: true}, err
}

// maxQuestions bounds how often the path policy is asked about one line; a
// line with more files than that is asked about as a whole. A question about a
// glob or about a whole folder takes as long as globQuestions or treeQuestions
// others.
const (
	maxQuestions  = 12_000
	globQuestions = 10
	treeQuestions = 60
)

// maxPath is the length from which on a text is no path: Linux opens none of
// as many bytes.
const maxPath = 4096

// A fileQuestions is one run of the sensitive-file check.
type fileQuestions struct {
	*subject
	asked int
	tree  bool // the command in turn takes along what lies below its files
}

// checkSensitiveFile asks the path policy about every redirection and every
// word that may name a file.
func checkSensitiveFile(s *subject) {
	q := &fileQuestions{subject: s}
	for i := range s.Redirects {
		q.redirect(&s.Redirects[i])
	}
	for i := range s.calls {
		k := &s.calls[i]
		var role fileRole // of a program that is not listed
		if r := s.tables.roles[k.program]; r != nil {
			role = *r
		} else if r := s.tables.roles[k.family]; r != nil && k.family != "" {
			role = *r
		}
		if k.program == "dd" {
			q.dd(k)
			continue
		}
		if !role.none {
			q.command(k, role)
		}
		if k.program == "sed" || k.program == "gsed" {
			q.sed(k)
		}
		if k.program == "git" {
			for _, w := range gitWrites(k) {
				q.word(sandbox.OpWrite, w, q.dirs(k.lineCommand))
			}
		}
	}
	q.indirect()
	if q.asked > maxQuestions {
		s.report(finding{
			check: "sensitive-file", rule: "too-many-files", severity: policy.High, mark: never,
			message: fmt.Sprintf("the line names more than %d files, which are not all looked at", maxQuestions),
			hint:    "name fewer files in one line", span: policy.Span{End: len(s.Text)},
		})
	}
}

// redirect asks about the target of a redirection.
func (q *fileQuestions) redirect(r *lineRedirect) {
	if strings.HasPrefix(r.Op, "<<") || strings.HasSuffix(r.Op, "&") && (r.Target.Value == "-" || isNumber(strings.TrimSuffix(r.Target.Value, "-"))) {
		return
	}
	if strings.HasPrefix(r.Target.Value, "/dev/tcp/") || strings.HasPrefix(r.Target.Value, "/dev/udp/") {
		return // judged as a connection
	}
	if r.Write {
		q.word(sandbox.OpWrite, r.Target, []string{r.Dir})
	}
	if r.Read {
		q.word(sandbox.OpRead, r.Target, []string{r.Dir})
	}
}

// command asks about the words of one command.
func (q *fileQuestions) command(k *call, role fileRole) {
	dirs := q.dirs(k.lineCommand)
	q.tree = role.tree == "always"
	if role.tree != "" && !q.tree {
		_, q.tree = k.given(role.tree)
	}
	q.tree = q.tree || serves(k)
	text, write := role.text, role.write
	if role.unless != "" {
		if _, ok := k.given(role.unless); ok {
			text = 0
		}
	}
	if role.when != "" {
		if _, ok := k.given(role.when); !ok {
			write = writesNone
		}
	}
	for _, o := range k.options {
		if o.given && role.into != "" && hasWord(role.into, o.name) {
			q.word(sandbox.OpWrite, o.value, dirs)
			write = writesNone
		}
	}
	if role.starts {
		q.starts(k, dirs)
		return
	}
	for i, w := range k.operands {
		switch {
		case i < text || role.message && w.Static && strings.ContainsAny(w.Value, " \n\t"):
		case write == writesAll || write == writesLast && i == len(k.operands)-1 && i > 0:
			q.word(sandbox.OpWrite, w, dirs)
		default:
			q.word(sandbox.OpRead, w, dirs)
			q.parts(w, dirs)
		}
	}
	for _, o := range k.options {
		if o.given && !hasWord(role.into, o.name) && !(role.message && strings.ContainsAny(o.value.Value, " \n\t")) && (text == 0 || role.text == 0 || !hasWord("-e --regexp --expression", o.name)) {
			q.word(sandbox.OpRead, o.value, dirs)
			q.parts(o.value, dirs)
		}
	}
}

// sed asks about the files that the script of sed names.
func (q *fileQuestions) sed(k *call) {
	r, dirs := sedScript(k), q.dirs(k.lineCommand)
	for _, name := range r.reads {
		q.word(sandbox.OpRead, lineWord{Value: name, Static: true, Span: k.Span}, dirs)
	}
	for _, name := range r.writes {
		q.word(sandbox.OpWrite, lineWord{Value: name, Static: true, Span: k.Span}, dirs)
	}
}

// dd asks about the operands of dd, which have names.
func (q *fileQuestions) dd(k *call) {
	for _, w := range k.operands {
		name, v, ok := strings.Cut(w.Value, "=")
		if !ok {
			continue
		}
		w.Value, w.Prefix = v, strings.TrimPrefix(w.Prefix, name+"=")
		switch name {
		case "of":
			q.word(sandbox.OpWrite, w, q.dirs(k.lineCommand))
		case "if":
			q.word(sandbox.OpRead, w, q.dirs(k.lineCommand))
		}
	}
}

// parts asks about files that are named within a word: name=FILE, @FILE,
// FILE:there, a,FILE.
func (q *fileQuestions) parts(w lineWord, dirs []string) {
	v := w.Value
	if !w.Static || len(v) >= maxPath || !strings.ContainsAny(v, "=@:,") {
		return
	}
	if i := strings.Index(strings.ToLower(v), "file:/"); i >= 0 {
		q.fileURL(v[i+len("file:"):], w, dirs)
		return
	}
	if strings.Contains(v, "://") || strings.ContainsAny(v, " \n\t") {
		return
	}
	for part := range strings.FieldsFuncSeq(v, func(r rune) bool { return strings.ContainsRune("=@:,", r) }) {
		if len(part) > 3 && part != v {
			w.Value = part
			q.sensitive(w, dirs)
		}
	}
}

// word asks about the file that a word names.
func (q *fileQuestions) word(op sandbox.Operation, w lineWord, dirs []string) {
	v := w.Value
	if !w.Static {
		q.unreported(op, w, dirs)
	}
	switch {
	case w.Static:
	case strings.HasPrefix(w.Prefix, "/proc/") && strings.HasSuffix(w.Raw, "/environ"): // of whatever process
		v = "/proc/self/environ"
	case strings.HasPrefix(w.Raw, "~"): // the home folder of an unknown user
		i := strings.IndexByte(w.Raw, '/')
		if i < 0 {
			return
		}
		v = "/home/user" + w.Raw[i:]
	default: // the folder, when the text tells that much
		i := strings.LastIndexByte(w.Prefix, '/')
		if i <= 0 {
			return
		}
		v = w.Prefix[:i]
	}
	if v == "" || v == "-" || strings.Contains(v, "://") {
		return
	}
	for _, dir := range dirs {
		abs := placeOf(dir, v)
		if !strings.HasPrefix(abs, "/") {
			abs = "/unknown/" + strings.TrimPrefix(abs, "../")
		}
		q.ask(op, abs, w)
	}
}

// ask asks one question and reports the answer.
func (q *fileQuestions) ask(op sandbox.Operation, abs string, w lineWord) {
	switch q.asked++; {
	case w.Static && w.Glob:
		q.asked += globQuestions
	case q.tree && w.Static:
		q.asked += treeQuestions
	}
	if q.asked > maxQuestions {
		return
	}
	switch {
	case w.Static && w.Glob:
		q.answer(q.paths.policy.JudgeGlob(op, abs), w)
	case len(abs) >= maxPath: // a program's text, or nothing that can be opened
	case q.tree && w.Static:
		q.answer(q.paths.policy.JudgeTree(op, abs), w)
	default:
		q.answer(q.paths.policy.Judge(op, abs), w)
	}
}

// sensitive asks about a part of a word, of which it is not sure that it is a
// file: only the table of sensitive files counts.
func (q *fileQuestions) sensitive(w lineWord, dirs []string) {
	for _, dir := range dirs {
		judge := q.paths.policy.Judge
		if q.asked++; q.tree {
			q.asked += treeQuestions
			judge = q.paths.policy.JudgeTree
		}
		if q.asked > maxQuestions {
			return
		}
		abs := placeOf(dir, w.Value)
		if !strings.HasPrefix(abs, "/") {
			abs = "/unknown/" + abs
		}
		d := judge(sandbox.OpRead, abs)
		if d.Category != path.CategoryRoots && d.Category != path.CategoryName {
			q.answer(d, w)
		}
	}
}

// answer reports what the path policy said.
func (q *fileQuestions) answer(d path.Decision, w lineWord) {
	if d.Severity == 0 || q.paths.rootless && (d.Category == path.CategoryRoots || d.Category == path.CategoryTemporary) {
		return
	}
	f := finding{
		check: "sensitive-file", rule: d.Rule, severity: d.Severity,
		message: d.Message, hint: d.Hint, span: w.Span,
	}
	if d.Category == path.CategoryTemporary {
		f.check = "temporary" // which records keep apart
	}
	if f.hint == "" {
		f.hint = "do without the file, or ask for it"
	}
	switch d.Verdict {
	case policy.Allow:
		f.severity = policy.Low // worth telling, no more
	case policy.Ask:
		f.mark = never
	case policy.Deny:
		f.mark = deny
	}
	q.report(f)
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
