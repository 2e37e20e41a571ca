package command

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/bulkhead-dev/sandbox/policy"
)

// An invocation is one simple command while its wrappers are taken off.
type invocation struct {
	lineCommand
	stdin *lineRedirect // where it reads from, when a redirection says so
	body  *string       // the text that it reads, when that is known
	shell bool          // the shell itself looks the name up, so that it may be a builtin
}

// call walks a simple command. Before it stood the keywords or wrappers given.
func (w *walker) call(c *syntax.CallExpr, stmt *syntax.Stmt, redirs []lineRedirect, wrappers []string, s *scope) {
	scope := scopeCommand
	if len(c.Args) == 0 {
		scope = scopeShell
	}
	inv := invocation{shell: true}
	if n := len(c.Assigns); n > 0 && len(c.Args) > 0 && c.Assigns[n-1].Pos().After(c.Args[0].Pos()) {
		panic(lineRefusal{refuse(w.span(c), "bash takes what looks like an assignment behind the program for an argument", "quote it")})
	}
	if w.words += len(c.Args); w.words > maxArgs || len(w.out.Assigns)+len(c.Assigns) > maxEffects {
		w.tooMuch(c)
	}
	for _, a := range c.Assigns {
		inv.Assigns = append(inv.Assigns, w.assign(a, scope, s))
	}
	if len(c.Args) == 0 {
		return
	}
	// A line that goes on behind a backslash makes no difference to bash.
	if raw := strings.ReplaceAll(w.raw(c.Args[0]), "\\\n", ""); reserved(raw) && len(c.Assigns) == 0 {
		panic(lineRefusal{refuse(w.span(c.Args[0]), "bash takes "+raw+" for a keyword here", "quote it")})
	}
	if lit, ok := c.Args[0].Parts[0].(*syntax.Lit); ok && assigning(lit.Value) {
		panic(lineRefusal{refuse(w.span(c.Args[0]), "bash takes "+w.raw(c.Args[0])+" for an assignment here", "quote it, or use env")})
	}
	inv.Words = make([]lineWord, 0, len(c.Args))
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
	panic(lineRefusal{refuse(w.span(n), "the line has more words, expansions, assignments or redirections than are read", "write it to a file first, then run it")})
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
func (w *walker) appendWords(words []lineWord, x *syntax.Word, s *scope) []lineWord {
	many, ok := braced(x)
	if len(many) > 1 || !ok {
		w.bashOnly(x)
	}
	if w.words += len(many) - 1; w.words > maxArgs {
		panic(lineRefusal{refuse(w.span(x), "braces make more words than are judged", "write it in several lines, or put the words into a file")})
	}
	for _, one := range many {
		v := w.word(one, s)
		if one != x {
			v.Raw, v.Span = w.raw(x), w.span(x)
		}
		if !ok {
			v = lineWord{Raw: v.Raw, Span: v.Span}
		}
		words = append(words, v)
	}
	return words
}

// input returns the redirection that the command behind stmt reads, and the
// text of a here-document or here-string if it is known.
func (w *walker) input(stmt *syntax.Stmt, redirs []lineRedirect) (*lineRedirect, *string) {
	var last *lineRedirect
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
	if len(w.out.Commands) >= maxCommands {
		panic(lineRefusal{unreadable(errMany, w.text)})
	}
	c := inv.lineCommand
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
func (w *walker) assign(a *syntax.Assign, scope lineScope, s *scope) lineAssign {
	out := lineAssign{Scope: scope, Span: w.span(a)}
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
		if end := w.local(a.Array).End; end < len(w.text) && strings.IndexByte(" \t\n;&|<>()`\\", w.text[end]) < 0 {
			panic(lineRefusal{refuse(w.span(a), "bash wants a blank behind the list of an array", "put one there")})
		}
		for _, e := range a.Array.Elems {
			w.optionalSubscript(e.Index, s)
			w.visit(e.Value, s)
			w.mayBe(e.Value, s)
		}
		out.Value = lineWord{Raw: w.raw(a.Array), Span: w.span(a.Array)}
	case a.Value != nil:
		w.visit(a.Value, s)
		out.Value = w.value(a.Value, s)
	default:
		out.Value = lineWord{Static: true, single: true, Span: out.Span}
	}
	value := out.Value
	if a.Append {
		w.bashOnly(a)
		out.Value.Static = false
		out.Value.Prefix = ""
		value = lineWord{}
	}
	if a.Index != nil {
		value = lineWord{}
	}
	w.sets(out.Name, value, out.Span)
	if scope != scopeCommand && out.Name != "" {
		s.bind(out.Name, value)
	}
	w.out.Assigns = append(w.out.Assigns, out)
	return out
}

// sets notes that a variable gets a value.
func (w *walker) sets(name string, value lineWord, span policy.Span) {
	w.assigned(name, value)
	w.meaning(name, value, span)
}

// setsOtherwise is sets for what is no assignment.
func (w *walker) setsOtherwise(name string, value lineWord, span policy.Span) {
	w.sets(name, value, span)
	if len(w.out.Sets) >= maxFeatures {
		panic(lineRefusal{refuse(span, "the line sets too many variables", "write it in several lines")})
	}
	w.out.Sets = append(w.out.Sets, lineSet{Name: name, Span: span})
}

func (w *walker) optionalSubscript(x syntax.ArithmExpr, s *scope) {
	if x != nil {
		w.subscript(x, s)
	}
}

// subscript walks a[…] where something is assigned.
func (w *walker) subscript(x syntax.ArithmExpr, s *scope) { w.arithm(x, s) }
