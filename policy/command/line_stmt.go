package command

import (
	"slices"

	"mvdan.cc/sh/v3/syntax"

	"github.com/bulkhead-dev/sandbox/policy"
)

// list walks statements that run one after another.
func (w *walker) list(stmts []*syntax.Stmt, s *scope) {
	w.separators(stmts)
	for i, stmt := range stmts {
		s.settle()
		if i > 0 {
			w.out.Features = append(w.out.Features, lineFeature{Kind: lineSequence, Span: w.span(stmt)})
		}
		for j := range stmt.Comments {
			w.feature(lineComment, &stmt.Comments[j])
		}
		w.stmt(stmt, s)
	}
}

// stmt walks one statement: a command with what is before and behind it.
func (w *walker) stmt(stmt *syntax.Stmt, s *scope) {
	inner := s
	if stmt.Background || stmt.Coprocess || stmt.Disown {
		w.feature(lineBackground, stmt)
		inner = s.within(lineBackground)
	}
	if stmt.Coprocess || stmt.Disown {
		w.doubt(stmt, "bash does not know this operator")
	}
	redirs := w.redirects(stmt.Redirs, inner)
	w.command(stmt, redirs, inner)
	if stmt.Negated {
		inner.settle()
		if sub, ok := stmt.Cmd.(*syntax.Subshell); ok && sub.Pos().Offset() == stmt.Pos().Offset()+1 {
			panic(lineRefusal{refuse(w.span(stmt), "!( is read in two ways, by the shell's settings", "put a blank behind !")})
		}
	}
}

func (w *walker) command(stmt *syntax.Stmt, redirs []lineRedirect, s *scope) {
	if call, ok := stmt.Cmd.(*syntax.CallExpr); ok {
		w.call(call, stmt, redirs, nil, s)
		return
	}
	if decl, ok := stmt.Cmd.(*syntax.DeclClause); ok {
		w.declaration(decl, redirs, s)
		return
	}
	if stmt.Cmd == nil {
		return
	}
	w.deeper(stmt)
	defer func() { w.depth-- }()
	if b, ok := stmt.Cmd.(*syntax.BinaryCmd); ok && len(redirs) == 0 {
		w.depth-- // lists are long, not deep
		w.binary(b, s)
		w.depth++
		return
	}
	around := s.around
	s.around = append(slices.Clip(around), redirs...)
	w.compound(stmt.Cmd, s)
	s.around = around
}

func (w *walker) compound(cmd syntax.Command, s *scope) {
	switch c := cmd.(type) {
	case *syntax.BinaryCmd:
		w.binary(c, s)
	case *syntax.Subshell:
		w.feature(lineSubshell, c)
		w.list(c.Stmts, s.within(lineSubshell))
	case *syntax.Block:
		w.feature(lineBlock, c)
		inner := s.within(lineBlock)
		w.list(c.Stmts, inner)
		s.inner(inner)
	case *syntax.IfClause:
		w.feature(lineConditional, c)
		inner := s.within(lineConditional)
		w.conditional(c, inner)
		s.inner(inner)
	case *syntax.CaseClause:
		w.feature(lineConditional, c)
		w.choice(c, s)
	case *syntax.WhileClause:
		w.feature(lineLoop, c)
		w.loop(s, c.Cond, c.Do, nil, c)
	case *syntax.ForClause:
		w.feature(lineLoop, c)
		w.forLoop(c, s)
	case *syntax.FuncDecl:
		w.function(c, s)
	case *syntax.ArithmCmd:
		w.feature(lineArithmetic, c)
		w.bare(c)
		w.bashOnly(c)
		w.arithm(c.X, s)
	case *syntax.TestClause:
		w.feature(lineTest, c)
		w.bashOnly(c)
		w.test(c.X, s)
	case *syntax.LetClause:
		w.feature(lineArithmetic, c)
		w.bashOnly(c)
		for _, x := range c.Exprs {
			w.arithm(x, s)
		}
	case *syntax.TimeClause:
		w.timed(c, s)
	case *syntax.CoprocClause:
		w.coprocess(c, s)
	default:
		w.doubt(cmd, "this construct is not understood")
	}
}

// binary walks lists and pipelines.
func (w *walker) binary(b *syntax.BinaryCmd, s *scope) {
	if !w.chained {
		// Before going down to the first of too many commands, count them.
		w.chained = true
		defer func() { w.chained = false }()
		n, at := 0, b
		for ok := true; ok; at, ok = at.X.Cmd.(*syntax.BinaryCmd) {
			if n++; n > maxCommands {
				panic(lineRefusal{unreadable(errMany, w.text)})
			}
		}
	}
	switch b.Op {
	case syntax.AndStmt, syntax.OrStmt:
		kind := lineAnd
		if b.Op == syntax.OrStmt {
			kind = lineOr
		}
		w.out.Features = append(w.out.Features, lineFeature{Kind: kind, Span: w.operator(b)})
		w.sign(b.Op.String(), int(b.OpPos.Offset()), 2)
		w.stmt(b.X, s)
		w.second(b.Y, kind, s)
	default:
		if b.Op == syntax.PipeAll {
			w.bashOnly(b)
		}
		w.out.Features = append(w.out.Features, lineFeature{Kind: linePipe, Span: w.operator(b)})
		w.sign("|", int(b.OpPos.Offset()), len(b.Op.String()))
		if timed(b.Y) {
			panic(lineRefusal{refuse(w.operator(b), "behind a pipe time is a program to bash, and no keyword", "put it before the pipeline")})
		}
		// Only a stage of its own shell can change where the shell stands,
		// which the last one has with lastpipe.
		w.stmt(b.X, s.within(linePipe))
		last := s.within(linePipe)
		w.stmt(b.Y, last)
		s.join(last, true)
	}
}

// timed reports whether stmt begins with the keyword time.
func timed(stmt *syntax.Stmt) bool {
	for {
		switch c := stmt.Cmd.(type) {
		case *syntax.TimeClause:
			return true
		case *syntax.BinaryCmd:
			stmt = c.X
		default:
			return false
		}
	}
}

// second walks what runs, or does not, behind && or ||.
func (w *walker) second(y *syntax.Stmt, kind lineKind, s *scope) {
	fail := s.failing()
	if kind == lineAnd {
		s.succeeded()
		w.stmt(y, s)
		late := s.failing()
		late.join(fail, true)
		if s.failed = late; late.same(s) {
			s.failed = nil
		}
		return
	}
	worked := *s
	worked.failed = nil
	s.broke()
	w.stmt(y, s)
	late := s.failing()
	late.settle()
	s.failed = nil
	worked.join(s, true)
	*s = worked
	if s.failed = late; late.same(s) {
		s.failed = nil
	}
}

func (w *walker) operator(b *syntax.BinaryCmd) policy.Span {
	if w.holder != nil {
		return *w.holder
	}
	start := min(int(b.OpPos.Offset()), len(w.text))
	return policy.Span{Start: start, End: min(start+len(b.Op.String()), len(w.text))}
}
