package command

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// redirects walks redirections.
func (w *walker) redirects(redirs []*syntax.Redirect, s *scope) []lineRedirect {
	if len(redirs) == 0 {
		return nil
	}
	if len(w.out.Redirects)+len(redirs) > maxEffects {
		w.tooMuch(redirs[0])
	}
	out := make([]lineRedirect, 0, len(redirs))
	for _, r := range redirs {
		w.visit(r.Word, s)
		if raw := w.raw(r.Word); len(raw) > 1 && raw[0] == '-' && (r.Op == syntax.DplIn || r.Op == syntax.DplOut) {
			panic(lineRefusal{refuse(w.span(r), "bash reads "+r.Op.String()+"- as closing, and what is behind it as a word", "put blanks between them")})
		}
		d := lineRedirect{Op: r.Op.String(), Dir: s.dir, Span: w.span(r)}
		d.Target = w.target(r, s)
		if r.Op == syntax.DplIn || r.Op == syntax.DplOut {
			w.twice(r, d.Target)
		}
		if r.N != nil {
			d.FD = r.N.Value
			w.descriptor(r)
		}
		d.Read, d.Write = directions(r.Op, d.Target)
		w.out.Features = append(w.out.Features, lineFeature{Kind: w.redirection(r, s), Span: d.Span})
		out = append(out, d)
	}
	w.out.Redirects = append(w.out.Redirects, out...)
	return out
}

// twice notes a target of >& that bash expands twice, as it does unless the
// first time makes a number.
func (w *walker) twice(r *syntax.Redirect, target lineWord) {
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
	w.sets(name, lineWord{number: true}, w.span(r))
}

// target returns the word behind the operator.
func (w *walker) target(r *syntax.Redirect, s *scope) lineWord {
	if r.Op == syntax.Hdoc || r.Op == syntax.DashHdoc {
		return lineWord{Value: r.Word.Lit(), Static: true, Raw: w.raw(r.Word), Span: w.span(r.Word), single: true}
	}
	if r.Op == syntax.WordHdoc {
		return w.value(r.Word, s)
	}
	if many, ok := braced(r.Word); len(many) > 1 || !ok {
		return lineWord{Raw: w.raw(r.Word), Span: w.span(r.Word)}
	}
	return w.word(r.Word, s)
}

// redirection returns the kind of r, and walks the body of a here-document.
func (w *walker) redirection(r *syntax.Redirect, s *scope) lineKind {
	switch r.Op {
	case syntax.WordHdoc:
		w.bashOnly(r)
		return hereString
	case syntax.RdrAll, syntax.AppAll:
		w.bashOnly(r)
	case syntax.Hdoc, syntax.DashHdoc:
		for _, part := range r.Word.Parts {
			if !delimiter(part) {
				panic(lineRefusal{refuse(w.span(r.Word), "the end of the here-document is not plain", "use a plain word such as 'EOF'")})
			}
		}
		if quotedDelimiter(r.Word) {
			return heredocQuoted
		}
		if r.Op == syntax.DashHdoc && strings.Contains(w.text[min(int(r.OpPos.Offset()), len(w.text)):], "\\\n") {
			panic(lineRefusal{refuse(w.span(r), "where a here-document of <<- with a backslash at the end of a line ends is read in two ways", "use <<, or quote its end")})
		}
		if r.Hdoc != nil {
			if endsElsewhere(w.body(r.Hdoc), r.Word.Lit(), r.Op == syntax.DashHdoc) {
				panic(lineRefusal{refuse(w.span(r.Word), "a backslash in front of a new line makes the here-document end elsewhere for bash", "quote the word behind <<, or leave the backslash out")})
			}
			w.parts(r.Hdoc.Parts, s, inDouble)
		}
		return lineHeredoc
	}
	return lineRedirection
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
func directions(op syntax.RedirOperator, target lineWord) (read, write bool) {
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
