package line

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/bulkhead-dev/sandbox/policy"
)

// An invocation is one simple command while its wrappers are taken off.
type invocation struct {
	Command
	stdin *Redirect // where it reads from, when a redirection says so
	body  *string   // the text that it reads, when that is known
	shell bool      // the shell itself looks the name up, so that it may be a builtin
}

// call walks a simple command. Before it stood the keywords or wrappers given.
func (w *walker) call(c *syntax.CallExpr, stmt *syntax.Stmt, redirs []Redirect, wrappers []string, s *scope) {
	scope := ScopeCommand
	if len(c.Args) == 0 {
		scope = ScopeShell
	}
	inv := invocation{shell: true}
	if w.words += len(c.Args); w.words > maxArgs || len(w.out.Assigns)+len(c.Assigns) > maxEffects {
		w.tooMuch(c)
	}
	for _, a := range c.Assigns {
		inv.Assigns = append(inv.Assigns, w.assign(a, scope, s))
	}
	if len(c.Args) == 0 {
		return
	}
	if raw := strings.ReplaceAll(w.raw(c.Args[0]), "\\\n", ""); reserved(raw) && len(c.Assigns) == 0 {
		panic(refusal{refuse(w.span(c.Args[0]), "bash takes "+raw+" for a keyword here", "quote it")})
	}
	if lit, ok := c.Args[0].Parts[0].(*syntax.Lit); ok && assigning(lit.Value) {
		panic(refusal{refuse(w.span(c.Args[0]), "bash takes "+w.raw(c.Args[0])+" for an assignment here", "quote it, or use env")})
	}
	inv.Words = make([]Word, 0, len(c.Args))
	for _, a := range c.Args {
		w.visit(a, s)
		inv.Words = w.appendWords(inv.Words, a, s)
	}
	inv.Wrappers = wrappers
	inv.Span = w.span(c)
	inv.Redirects = redirs
	if len(s.around) > 0 {
		inv.Redirects = append(slices.Clip(s.around), redirs...)
	}
	inv.stdin, inv.body = w.input(stmt, redirs)
	w.run(&inv, s)
}

// tooMuch refuses a line for n, of which there is more than is judged.
func (w *walker) tooMuch(n syntax.Node) {
	panic(refusal{refuse(w.span(n), "the line has more words, assignments or redirections than are read", "write it to a file first, then run it")})
}

// reserved reports whether bash never takes s, unquoted, for a program.
func reserved(s string) bool {
	switch s {
	case "if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done", "case", "esac", "in", "function", "select", "time", "coproc", "{", "}", "!", "[[":
		return true
	}
	return false
}

// assigning reports whether an unquoted word that begins with s is an
// assignment to bash.
func assigning(s string) bool {
	name, _, ok := strings.Cut(s, "=")
	name, _, sub := strings.Cut(strings.TrimSuffix(name, "+"), "[")
	return (ok || sub) && identifier(name)
}

// appendWords appends what x becomes.
func (w *walker) appendWords(words []Word, x *syntax.Word, s *scope) []Word {
	many, ok := braced(x)
	if len(many) > 1 || !ok {
		w.bashOnly(x)
	}
	if w.words += len(many) - 1; w.words > maxArgs {
		panic(refusal{refuse(w.span(x), "braces make more words than are judged", "write it in several lines, or put the words into a file")})
	}
	for _, one := range many {
		v := w.word(one, s)
		if one != x {
			v.Raw, v.Span = w.raw(x), w.span(x)
		}
		if !ok {
			v = Word{Raw: v.Raw, Span: v.Span}
		}
		words = append(words, v)
	}
	return words
}

// input returns the redirection that the command behind stmt reads, and the
// text of a here-document or here-string if it is known.
func (w *walker) input(stmt *syntax.Stmt, redirs []Redirect) (*Redirect, *string) {
	var last *Redirect
	var body *string
	for i, r := range stmt.Redirs {
		if !redirs[i].Read || r.N != nil && r.N.Value != "0" {
			continue
		}
		last, body = &redirs[i], nil
		switch {
		case r.Op == syntax.WordHdoc && redirs[i].Target.Static:
			text := redirs[i].Target.Value + "\n"
			body = &text
		case r.Hdoc != nil && len(r.Hdoc.Parts) == 1:
			if lit, ok := r.Hdoc.Parts[0].(*syntax.Lit); ok && (!strings.Contains(lit.Value, `\`) || quotedDelimiter(r.Word)) {
				body = &lit.Value
			}
		}
	}
	return last, body
}

// emit records a command whose wrappers are off.
func (w *walker) emit(inv *invocation, s *scope) {
	if len(w.out.Commands) >= MaxCommands {
		panic(refusal{unreadable(errMany, w.text)})
	}
	c := inv.Command
	c.Via = append(slices.Clip(s.via), c.Via...)
	if c.Dir == "" {
		c.Dir = s.dir
	} else if c.Dir == nowhere {
		c.Dir = ""
	}
	c.Unsure = c.Unsure || s.unsure
	if w.holder != nil {
		c.Span = *w.holder
	}
	w.out.Commands = append(w.out.Commands, c)
}

// nowhere is the directory of a command that is known not to be the shell's,
// but not which it is.
const nowhere = "\x00"

// assign walks one assignment and records it.
func (w *walker) assign(a *syntax.Assign, scope Scope, s *scope) Assign {
	out := Assign{Scope: scope, Span: w.span(a)}
	if a.Name != nil {
		out.Name = a.Name.Value
	}
	if a.Index != nil {
		w.bashOnly(a)
		w.subscript(a.Index, s)
	}
	switch {
	case a.Array != nil:
		w.bashOnly(a)
		for _, e := range a.Array.Elems {
			w.optionalSubscript(e.Index, s)
			w.visit(e.Value, s)
		}
		out.Value = Word{Raw: w.raw(a.Array), Span: w.span(a.Array)}
	case a.Value != nil:
		w.visit(a.Value, s)
		out.Value = w.value(a.Value, s)
	default:
		out.Value = Word{Static: true, single: true, Span: out.Span}
	}
	value := out.Value
	if a.Append {
		w.bashOnly(a)
		out.Value.Static = false
		out.Value.Prefix = ""
		value = Word{}
	}
	if a.Index != nil {
		value = Word{}
	}
	w.sets(out.Name, value, out.Span)
	if scope != ScopeCommand && out.Name != "" {
		s.bind(out.Name, value)
	}
	w.out.Assigns = append(w.out.Assigns, out)
	return out
}

// sets notes that a variable gets a value.
func (w *walker) sets(name string, value Word, span policy.Span) {
	w.assigned(name, value)
	w.meaning(name, value, span)
}

func (w *walker) optionalSubscript(x syntax.ArithmExpr, s *scope) {
	if x != nil {
		w.subscript(x, s)
	}
}

// subscript walks a[…] where something is assigned.
func (w *walker) subscript(x syntax.ArithmExpr, s *scope) { w.arithm(x, s) }

// redirects walks redirections.
func (w *walker) redirects(redirs []*syntax.Redirect, s *scope) []Redirect {
	if len(redirs) == 0 {
		return nil
	}
	if len(w.out.Redirects)+len(redirs) > maxEffects {
		w.tooMuch(redirs[0])
	}
	out := make([]Redirect, 0, len(redirs))
	for _, r := range redirs {
		w.visit(r.Word, s)
		if raw := w.raw(r.Word); len(raw) > 1 && raw[0] == '-' && (r.Op == syntax.DplIn || r.Op == syntax.DplOut) {
			panic(refusal{refuse(w.span(r), "bash reads "+r.Op.String()+"- as closing, and what is behind it as a word", "put blanks between them")})
		}
		d := Redirect{Op: r.Op.String(), Dir: s.dir, Span: w.span(r)}
		d.Target = w.target(r, s)
		if r.Op == syntax.DplIn || r.Op == syntax.DplOut {
			w.twice(r, d.Target)
		}
		if r.N != nil {
			d.FD = r.N.Value
			w.descriptor(r)
		}
		d.Read, d.Write = directions(r.Op, d.Target)
		w.out.Features = append(w.out.Features, Feature{Kind: w.redirection(r, s), Span: d.Span})
		out = append(out, d)
	}
	w.out.Redirects = append(w.out.Redirects, out...)
	return out
}

// twice notes a target of >& that bash expands twice, as it does unless the
// first time makes a number.
func (w *walker) twice(r *syntax.Redirect, target Word) {
	if !target.number && !(target.Static && !strings.ContainsAny(target.Value, "$`\\<>()\"'~{")) {
		w.doubt(r, "what "+w.raw(r.Word)+" stands for is expanded again behind "+r.Op.String())
	}
}

// descriptor notes {name}>, which sets a variable.
func (w *walker) descriptor(r *syntax.Redirect) {
	name, ok := strings.CutPrefix(r.N.Value, "{")
	if !ok {
		return
	}
	w.bashOnly(r)
	name = strings.TrimSuffix(name, "}")
	if !identifier(name) {
		w.doubt(r, "the subscript in "+r.N.Value+" is evaluated, which can run commands")
	}
	w.sets(name, Word{number: true}, w.span(r))
}

// target returns the word behind the operator.
func (w *walker) target(r *syntax.Redirect, s *scope) Word {
	if r.Op == syntax.Hdoc || r.Op == syntax.DashHdoc {
		return Word{Value: r.Word.Lit(), Static: true, Raw: w.raw(r.Word), Span: w.span(r.Word), single: true}
	}
	if r.Op == syntax.WordHdoc {
		return w.value(r.Word, s)
	}
	if many, ok := braced(r.Word); len(many) > 1 || !ok {
		return Word{Raw: w.raw(r.Word), Span: w.span(r.Word)}
	}
	return w.word(r.Word, s)
}

// redirection returns the kind of r, and walks the body of a here-document.
func (w *walker) redirection(r *syntax.Redirect, s *scope) Kind {
	switch r.Op {
	case syntax.WordHdoc:
		w.bashOnly(r)
		return HereString
	case syntax.RdrAll, syntax.AppAll:
		w.bashOnly(r)
	case syntax.Hdoc, syntax.DashHdoc:
		for _, part := range r.Word.Parts {
			if !delimiter(part) {
				panic(refusal{refuse(w.span(r.Word), "the end of the here-document is not plain", "use a plain word such as 'EOF'")})
			}
		}
		if quotedDelimiter(r.Word) {
			return HeredocQuoted
		}
		if r.Hdoc != nil {
			if endsElsewhere(w.body(r.Hdoc), r.Word.Lit(), r.Op == syntax.DashHdoc) {
				panic(refusal{refuse(w.span(r.Word), "a backslash in front of a new line makes the here-document end elsewhere for bash", "quote the word behind <<, or leave the backslash out")})
			}
			w.parts(r.Hdoc.Parts, s, inDouble)
		}
		return Heredoc
	}
	return Redirection
}

// delimiter reports whether part of the word behind << is what it seems to be.
func delimiter(part syntax.WordPart) bool {
	switch p := part.(type) {
	case *syntax.Lit:
		return !strings.Contains(p.Value, "\n")
	case *syntax.SglQuoted:
		return !p.Dollar && !strings.Contains(p.Value, "\n")
	case *syntax.DblQuoted:
		for _, inner := range p.Parts {
			if lit, ok := inner.(*syntax.Lit); !ok || strings.ContainsAny(lit.Value, "\\\n") {
				return false
			}
		}
		return !p.Dollar
	}
	return false
}

// quotedDelimiter reports whether the body of a here-document is data.
func quotedDelimiter(x *syntax.Word) bool {
	for _, part := range x.Parts {
		if lit, ok := part.(*syntax.Lit); !ok || strings.Contains(lit.Value, `\`) {
			return true
		}
	}
	return false
}

// directions tells what opening the target does.
func directions(op syntax.RedirOperator, target Word) (read, write bool) {
	switch op {
	case syntax.RdrIn, syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
		return true, false
	case syntax.RdrInOut:
		return true, true
	case syntax.DplIn, syntax.DplOut:
		if v := strings.TrimSuffix(target.Value, "-"); target.Static && (v == "" || decimal(v)) {
			return op == syntax.DplIn, false
		}
		return op == syntax.DplIn, op == syntax.DplOut
	}
	return false, true
}
