package command

import (
	"fmt"
	"slices"

	"mvdan.cc/sh/v3/syntax"

	"github.com/bulkhead-dev/sandbox/policy"
)

// Parse reads text as bash would when the shell stands at at. A text that
// cannot be judged is refused: the reason always asks for [policy.Deny], and
// the line is then nil.
//
// Parse is pure and safe for concurrent use. It reads no file, so that a
// directory of cd is what the text says, symbolic links not followed. Its
// time and memory are bounded whatever the text: see the constants.
func parseLine(text string, at lineStart) (line *line, refused *policy.Reason) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case lineRefusal:
			line, refused = nil, p.reason
		default:
			line, refused = nil, refuse(policy.Span{}, fmt.Sprintf("reading it failed: %v", p), "write it in a simpler way")
		}
	}()
	if r := readable(text); r != nil {
		return nil, r
	}
	f, err := tree(text, maxCommands)
	if err != nil {
		return nil, unreadable(err, text)
	}
	return walkAll(text, f, at), nil
}

// A refusal leaves the walk from any depth; [Parse] catches it.
type lineRefusal struct{ reason *policy.Reason }

// walkAll walks the tree, and once more for every assumption about variables
// that the walk then found to be broken.
func walkAll(text string, f *syntax.File, at lineStart) *line {
	blocked := map[claim]bool{}
	for try := 0; ; try++ {
		j := &job{out: &line{Text: text, File: f}, blocked: blocked, trusting: try == 0 || try == 1 && len(text) <= maxTwice}
		w := &walker{job: j, text: text, home: at.Home}
		w.list(f.Stmts, &scope{dir: at.Dir})
		broken := j.broken()
		if len(broken) == 0 {
			j.finish()
			return j.out
		}
		for _, c := range broken {
			blocked[c] = true
		}
	}
}

// A job is one walk over a line and the texts nested in it.
type job struct {
	ledger
	out      *line
	blocked  map[claim]bool // what an earlier walk relied on in vain
	trusting bool           // claims may be made at all
	texts    int            // bytes of nested texts
	shells   int            // nested texts
	words    int            // of all commands
}

// rely claims that the variable name is never set to anything else (for
// number: to anything but a number) than what the walk knows, and reports
// whether that may be taken for granted.
func (j *job) rely(name string, number bool) bool {
	c := claim{name: name, number: number}
	if !j.trusting || j.blocked[c] || dynamic(name) {
		return false
	}
	if j.claims == nil {
		j.claims = map[claim]bool{}
	}
	j.claims[c] = true
	return true
}

// finish marks calls of what the line itself defines, and sorts.
func (j *job) finish() {
	for _, c := range j.out.Commands {
		for _, name := range append(slices.Clip(c.Wrappers), c.Words[0].Value) {
			if j.functions[name] {
				j.unknown(c.Span, fmt.Sprintf("%s is a function that the line defines", name))
				break
			}
		}
	}
	slices.SortStableFunc(j.out.Commands, func(a, b lineCommand) int { return a.Span.Start - b.Span.Start })
	slices.SortStableFunc(j.out.Operators, func(a, b lineOperator) int { return a.Span.Start - b.Span.Start })
	slices.SortStableFunc(j.out.Unknowns, func(a, b lineUnknown) int { return a.Span.Start - b.Span.Start })
	j.out.Unknowns = slices.CompactFunc(j.out.Unknowns, func(a, b lineUnknown) bool { return a == b })
}

// unknown notes a place where the text does not tell what would run.
func (j *job) unknown(span policy.Span, why string) {
	if n := len(j.out.Unknowns); n < maxCommands {
		j.out.Unknowns = append(j.out.Unknowns, lineUnknown{Why: why, Span: span})
	}
}

// defined notes a function.
func (j *job) defined(name string) {
	if j.functions == nil {
		j.functions = map[string]bool{}
	}
	j.functions[name] = true
}

// A walker walks one text.
type walker struct {
	*job
	text   string
	holder *policy.Span // of the word that holds a nested text; nil in the line itself
	home   string       // what ~ stands for; empty is unknown
	posix  bool         // a shell other than bash reads the text
	level  int          // texts around this one
	depth  int          // constructs around this point

	chained bool // the length of the list around this point is known to be bounded
}

// deeper is called at the beginning of every construct that can hold others.
func (w *walker) deeper(n syntax.Node) {
	if w.depth++; w.depth > maxDepth {
		panic(lineRefusal{refuse(w.span(n), errDeep.Error(), "write it in several steps")})
	}
}

// span returns where n stands in the line.
func (w *walker) span(n syntax.Node) policy.Span {
	if w.holder != nil {
		return *w.holder
	}
	return w.local(n)
}

// local returns where n stands in the text being walked.
func (w *walker) local(n syntax.Node) policy.Span {
	start := min(int(n.Pos().Offset()), len(w.text))
	return policy.Span{Start: start, End: min(max(int(n.End().Offset()), start), len(w.text))}
}

// raw returns n as written.
func (w *walker) raw(n syntax.Node) string { return w.local(n).Of(w.text) }

// feature notes a construct.
func (w *walker) feature(k lineKind, n syntax.Node) {
	if len(w.out.Features) >= maxFeatures {
		w.tooMuch(n)
	}
	w.out.Features = append(w.out.Features, lineFeature{Kind: k, Span: w.span(n)})
}

// sign notes one of the signs of [Operator] with the n bytes at start.
func (w *walker) sign(text string, start, n int) {
	start = min(start, len(w.text))
	span := policy.Span{Start: start, End: min(start+n, len(w.text))}
	if w.holder != nil {
		span = *w.holder
	}
	for i := range w.out.Operators {
		if o := &w.out.Operators[i]; o.Text == text {
			if o.Count++; span.Start < o.Span.Start {
				o.Span = span
			}
			return
		}
	}
	w.out.Operators = append(w.out.Operators, lineOperator{Text: text, Count: 1, Span: span})
}

// separators notes every ; behind or between statements, and a new line between
// two, which the shell reads as one.
func (w *walker) separators(stmts []*syntax.Stmt) {
	for i, stmt := range stmts {
		at := int(stmt.Semicolon.Offset())
		switch {
		case stmt.Semicolon.IsValid() && at < len(w.text) && w.text[at] == ';':
			w.sign(";", at, 1)
		case !stmt.Semicolon.IsValid() && i+1 < len(stmts):
			next := w.local(stmts[i+1])
			w.sign(";", next.Start, next.End-next.Start)
		}
	}
}

// bashOnly notes a construct that other shells read otherwise.
func (w *walker) bashOnly(n syntax.Node) {
	if w.posix {
		w.job.unknown(w.span(n), "sh may read this otherwise than bash does")
	}
}

// doubt notes that the text does not tell what n runs.
func (w *walker) doubt(n syntax.Node, why string) { w.job.unknown(w.span(n), why) }

// nested walks text that another shell, or the same one, is given as a whole.
// The word that holds it is at holder.
func (w *walker) nested(text string, holder policy.Span, s *scope, change func(*walker)) {
	span := holder
	if w.holder != nil {
		span = *w.holder
	}
	if w.texts += len(text); w.texts > maxNested || w.level >= maxTexts || w.shells >= maxShells {
		panic(lineRefusal{refuse(span, "the line has too many texts for shells, or nests them too deeply", "write it in several steps")})
	}
	w.shells++
	if r := readable(text); r != nil {
		r.Span = span
		panic(lineRefusal{r})
	}
	f, err := tree(text, maxCommands)
	if err != nil {
		r := unreadable(err, text)
		r.Span = span
		panic(lineRefusal{r})
	}
	inner := &walker{job: w.job, text: text, holder: &span, home: w.home, posix: w.posix, level: w.level + 1, depth: w.depth}
	if change != nil {
		change(inner)
	}
	inner.list(f.Stmts, s)
}
