package command

import (
	"fmt"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// arithm walks an arithmetic expression. The content of a variable in it is
// evaluated like the expression itself, array subscripts with substitutions
// included, so every variable must be known to hold a number.
func (w *walker) arithm(x syntax.ArithmExpr, s *scope) { w.calculate(x, s, true) }

// bare refuses single quotes in the arithmetic expression that is n: where
// they end is a matter of the shell's version.
func (w *walker) bare(n syntax.Node) {
	if strings.Contains(w.raw(n), "'") {
		panic(lineRefusal{refuse(w.span(n), "single quotes in arithmetic are read in two ways", "leave them out")})
	}
}

// calculate is arithm; sure says that x is evaluated in any case.
func (w *walker) calculate(x syntax.ArithmExpr, s *scope, sure bool) {
	if x == nil {
		return
	}
	w.deeper(x)
	defer func() { w.depth-- }()
	switch e := x.(type) {
	case *syntax.BinaryArithm:
		w.binaryArithm(e, s, sure)
	case *syntax.UnaryArithm:
		if e.Op == syntax.Inc || e.Op == syntax.Dec {
			if name := literal(e.X); name != "" {
				w.setsOtherwise(name, lineWord{number: true}, w.span(e))
			}
		}
		w.calculate(e.X, s, sure)
	case *syntax.ParenArithm:
		w.calculate(e.X, s, sure)
	case *syntax.Word:
		w.operand(e, s)
	default:
		w.doubt(x, "this construct is not understood")
	}
}

func (w *walker) binaryArithm(e *syntax.BinaryArithm, s *scope, sure bool) {
	op := e.Op.String()
	if !strings.HasSuffix(op, "=") || op == "==" || op == "!=" || op == "<=" || op == ">=" {
		w.chain(e, s, sure)
		return
	}
	w.calculate(e.Y, s, sure)
	name := literal(e.X)
	if name == "" || e.Op != syntax.Assgn {
		w.calculate(e.X, s, sure)
	}
	if name != "" {
		w.setsOtherwise(name, lineWord{number: true}, w.span(e))
		if sure && e.Op == syntax.Assgn {
			s.bind(name, lineWord{number: true})
		}
	}
}

// chain walks operators that only compute. Long sums are deep to the left,
// which counts as one construct.
func (w *walker) chain(e *syntax.BinaryArithm, s *scope, sure bool) {
	var ends []syntax.ArithmExpr
	x := syntax.ArithmExpr(e)
	for {
		b, ok := x.(*syntax.BinaryArithm)
		if !ok || b.Op != e.Op {
			break
		}
		if ends = append(ends, b.Y); len(ends) > maxChain {
			panic(lineRefusal{refuse(w.span(e), fmt.Sprintf("the calculation has more than %d operands", maxChain), "write it in several steps")})
		}
		x = b.X
	}
	w.calculate(x, s, sure)
	late := sure && e.Op != syntax.AndArit && e.Op != syntax.OrArit && e.Op != syntax.TernQuest && e.Op != syntax.TernColon
	for i := len(ends) - 1; i >= 0; i-- {
		w.calculate(ends[i], s, late)
	}
}

// literal returns the name that x is, or the empty string.
func literal(x syntax.ArithmExpr) string {
	if word, ok := x.(*syntax.Word); ok {
		if name := word.Lit(); identifier(name) {
			return name
		}
	}
	return ""
}

// operand walks a value in an expression.
func (w *walker) operand(x *syntax.Word, s *scope) {
	w.visitIn(x, s, 0)
	if !w.safe(x.Parts, s) {
		w.doubt(x, "the content of "+w.raw(x)+" is evaluated as arithmetic, which can run commands")
	}
}

// safe reports whether parts are numbers and nothing that is evaluated further.
func (w *walker) safe(parts []syntax.WordPart, s *scope) bool {
	for _, part := range parts {
		switch p := part.(type) {
		case *syntax.Lit:
			if !(numeral(p.Value) || len(parts) == 1 && identifier(p.Value) && w.number(p.Value, s)) {
				return false
			}
		case *syntax.ParamExp:
			if !w.numeric(p, s) {
				return false
			}
		case *syntax.ArithmExp:
		case *syntax.SglQuoted:
			if !numeral(p.Value) || p.Dollar {
				return false
			}
		case *syntax.DblQuoted:
			if p.Dollar || !w.safe(p.Parts, s) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// numeral reports whether s is a constant: 12, 0x1f, 16#ff.
func numeral(s string) bool {
	if s == "" || s[0] < '0' || s[0] > '9' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !(c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || c == '#' || c == '@' || c == '_') {
			return false
		}
	}
	return true
}

// test walks [[ ]].
func (w *walker) test(x syntax.TestExpr, s *scope) {
	if x == nil {
		return
	}
	w.deeper(x)
	defer func() { w.depth-- }()
	switch e := x.(type) {
	case *syntax.BinaryTest:
		w.comparison(e, s)
	case *syntax.UnaryTest:
		word, ok := e.X.(*syntax.Word)
		if !ok {
			w.test(e.X, s)
			return
		}
		w.visit(word, s)
		if (e.Op == syntax.TsVarSet || e.Op == syntax.TsRefVar) && !w.names(w.word(word, s)) {
			w.doubt(word, "the subscript of "+w.raw(word)+" is evaluated, which can run commands")
		}
	case *syntax.ParenTest:
		w.test(e.X, s)
	case *syntax.Word:
		w.visit(e, s)
	default:
		w.doubt(x, "this construct is not understood")
	}
}

func (w *walker) comparison(e *syntax.BinaryTest, s *scope) {
	x, ok1 := e.X.(*syntax.Word)
	y, ok2 := e.Y.(*syntax.Word)
	if !ok1 || !ok2 {
		w.test(e.X, s)
		w.test(e.Y, s)
		return
	}
	switch e.Op {
	case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
		for _, n := range []*syntax.Word{x, y} {
			w.visit(n, s)
			if v := w.word(n, s); !v.number && !(v.Static && decimal(v.Value)) && !w.safe(n.Parts, s) {
				w.doubt(n, "the content of "+w.raw(n)+" is evaluated as arithmetic, which can run commands")
			}
		}
	case syntax.TsMatch, syntax.TsMatchShort, syntax.TsNoMatch, syntax.TsReMatch:
		w.visit(x, s)
		w.visitIn(y, s, inPattern)
	default:
		w.visit(x, s)
		w.visit(y, s)
	}
}

// names reports whether v is the name of a variable, or of an element by number.
func (w *walker) names(v lineWord) bool {
	if !v.Static || v.Glob && !strings.Contains(v.Value, "[") {
		return false
	}
	name, rest, found := strings.Cut(v.Value, "[")
	if !found {
		return identifier(name) || decimal(name)
	}
	index, ok := strings.CutSuffix(rest, "]")
	return ok && identifier(name) && (decimal(index) || index == "@" || index == "*")
}
