package command

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// A mode says where a word stands that is visited.
type mode int

const (
	inPattern mode = 1 << iota // extended globs are always read as such
	inDouble                   // in double quotes or a here-document
)

// visit walks what the shell runs in order to know what x stands for.
func (w *walker) visit(x *syntax.Word, s *scope) { w.visitIn(x, s, 0) }

func (w *walker) visitIn(x *syntax.Word, s *scope, m mode) {
	if x == nil {
		return
	}
	if len(x.Parts) == 1 {
		if lit, ok := x.Parts[0].(*syntax.Lit); ok {
			w.visitLit(lit, m)
			return
		}
	}
	w.parts(x.Parts, s, m)
}

func (w *walker) visitLit(lit *syntax.Lit, m mode) {
	if m&inPattern != 0 && (strings.Contains(lit.Value, "<(") || strings.Contains(lit.Value, ">(")) {
		panic(lineRefusal{refuse(w.span(lit), "a process substitution in ${…} is not read", "put it elsewhere")})
	}
	if m&inDouble != 0 {
		return
	}
	if i := strings.IndexAny(lit.Value, "*?[{"); i >= 0 {
		w.marks(lit, i)
	}
}

// marks notes globs and braces in a literal; i is the first place of one.
func (w *walker) marks(lit *syntax.Lit, i int) {
	glob, brace := false, false
	for j := strings.IndexByte(lit.Value, '\\'); i < len(lit.Value); i++ {
		if j >= 0 && j <= i {
			// With backslashes, look from the first of them on.
			i, j = j, -1
		}
		switch lit.Value[i] {
		case '\\':
			i++
		case '*', '?', '[':
			glob = true
		case '{':
			brace = true
		}
	}
	if glob {
		w.feature(globPattern, lit)
	}
	if brace && strings.ContainsAny(lit.Value, ",.") {
		w.feature(braceExpansion, lit)
	}
}

func (w *walker) parts(parts []syntax.WordPart, s *scope, m mode) {
	for _, part := range parts {
		switch p := part.(type) {
		case *syntax.Lit:
			w.visitLit(p, m)
		case *syntax.SglQuoted:
			if m&inDouble != 0 {
				panic(lineRefusal{refuse(w.span(p), "single quotes in ${…} in double quotes are read in two ways", "use a variable")})
			}
			if p.Dollar {
				w.feature(ansiQuote, p)
				w.bashOnly(p)
			}
		case *syntax.DblQuoted:
			if p.Dollar {
				w.doubt(p, `a text in $"…" is translated, and what the translation holds is run`)
			}
			w.parts(p.Parts, s, m|inDouble)
		case *syntax.ParamExp:
			w.parameter(p, s, m)
		case *syntax.CmdSubst:
			w.substitution(p, s)
		case *syntax.ArithmExp:
			w.arithmetic(p, s)
		case *syntax.ProcSubst:
			w.feature(processSubst, p)
			w.sign(p.Op.String(), int(p.Pos().Offset()), 2)
			w.bashOnly(p)
			w.deeper(p)
			w.list(p.Stmts, s.within(processSubst))
			w.depth--
		case *syntax.ExtGlob:
			w.extGlob(p, m)
		default:
			w.doubt(part, "this construct is not understood")
		}
	}
}

func (w *walker) substitution(p *syntax.CmdSubst, s *scope) {
	w.feature(lineSubstitution, p)
	if p.Backquotes {
		w.sign("`", int(p.Pos().Offset()), 1)
	} else {
		w.sign("$(", int(p.Pos().Offset()), 2)
	}
	w.deeper(p)
	if p.TempFile || p.ReplyVar {
		w.doubt(p, "bash knows this construct only since 5.3")
	}
	if p.Backquotes {
		w.backquotes(p)
	}
	w.list(p.Stmts, s.within(lineSubstitution))
	w.depth--
}

// backquotes refuses backquotes that hold escapes which the parser and bash
// take off at different times.
func (w *walker) backquotes(p *syntax.CmdSubst) {
	raw := w.raw(p)
	for i := 1; i+1 < len(raw); i++ {
		if raw[i] == '\\' && strings.IndexByte("\\`\n\"", raw[i+1]) >= 0 {
			panic(lineRefusal{refuse(w.span(p), "escapes within backquotes are read in two ways", "use $(…)")})
		}
	}
}

func (w *walker) arithmetic(p *syntax.ArithmExp, s *scope) {
	w.feature(lineArithmetic, p)
	w.bare(p)
	if p.Bracket || p.Unsigned {
		w.bashOnly(p)
	}
	w.arithm(p.X, s)
}

// extGlob allows @(…) and its like only where bash reads them whatever its
// settings are, and only where nothing is run in them: the parser does not
// look inside.
func (w *walker) extGlob(p *syntax.ExtGlob, m mode) {
	w.feature(globPattern, p)
	if m&inPattern == 0 {
		panic(lineRefusal{refuse(w.span(p), "an extended glob is read in two ways, by the shell's settings", "quote it, or name the files")})
	}
	if strings.ContainsAny(p.Pattern.Value, "$`<>\"'\\()") {
		panic(lineRefusal{refuse(w.span(p), "an extended glob holds more than plain text", "use a variable")})
	}
}

// parameter walks ${…}.
func (w *walker) parameter(p *syntax.ParamExp, s *scope, m mode) {
	w.feature(lineExpansion, p)
	if !p.Short {
		w.sign("${", int(p.Pos().Offset()), 2)
	}
	if simple(p) || p.Length && p.Index == nil && p.Param != nil {
		return
	}
	w.deeper(p)
	defer func() { w.depth-- }()
	list := false
	if word, ok := p.Index.(*syntax.Word); ok {
		list = word.Lit() == "@" || word.Lit() == "*"
	}
	switch {
	case p.Width, p.IsSet, p.Flags != nil, p.NestedParam != nil, p.Param == nil, len(p.Modifiers) > 0:
		w.doubt(p, "this construct is not understood")
	case p.Excl && p.Names == 0 && !list:
		w.doubt(p, "${!x} names a variable by another's content, which is evaluated")
	}
	if p.Excl || p.Index != nil || p.Slice != nil || p.Repl != nil {
		w.bashOnly(p)
	}
	if p.Index != nil && !list {
		w.arithm(p.Index, s)
	}
	if p.Slice != nil {
		w.optional(p.Slice.Offset, s)
		w.optional(p.Slice.Length, s)
	}
	if p.Repl != nil {
		w.visitIn(p.Repl.Orig, s, m|inPattern)
		w.visitIn(p.Repl.With, s, m|inPattern)
		w.mayBe(p.Repl.With, s)
	}
	if p.Exp != nil {
		w.operation(p, s, m)
	}
}

func (w *walker) operation(p *syntax.ParamExp, s *scope, m mode) {
	switch p.Exp.Op {
	case syntax.OtherParamOps:
		w.bashOnly(p)
		if op := p.Exp.Word.Lit(); len(op) != 1 || !strings.Contains("QEAKaukULk", op) {
			w.doubt(p, "${x@P} evaluates the content of the variable")
		} else if op == "E" {
			return
		}
	case syntax.AssignUnset, syntax.AssignUnsetOrNull:
		if p.Param != nil {
			w.setsOtherwise(p.Param.Value, lineWord{}, w.span(p))
		}
	case syntax.UpperFirst, syntax.UpperAll, syntax.LowerFirst, syntax.LowerAll:
		w.bashOnly(p)
	}
	w.visitIn(p.Exp.Word, s, m|inPattern)
	w.mayBe(p.Exp.Word, s)
}

// mayBe notes a value that a variable, or an expansion of one, may have.
func (w *walker) mayBe(x *syntax.Word, s *scope) {
	if x != nil && len(w.out.Values) < maxArgs {
		w.out.Values = append(w.out.Values, w.value(x, s))
	}
}

func (w *walker) optional(x syntax.ArithmExpr, s *scope) {
	if x != nil {
		w.arithm(x, s)
	}
}
