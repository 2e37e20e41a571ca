package command

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

func (w *walker) conditional(c *syntax.IfClause, s *scope) {
	var ends []*scope
	at := s
	for ; c != nil; c = c.Else {
		for i := range c.Last {
			w.feature(lineComment, &c.Last[i])
		}
		if len(c.Cond) == 0 && !c.ThenPos.IsValid() { // else
			w.list(c.Then, at)
			break
		}
		w.list(c.Cond, at)
		then := *at
		then.succeeded()
		at.broke()
		w.list(c.Then, &then)
		ends = append(ends, &then)
	}
	for _, e := range ends {
		at.join(e, false)
	}
}

func (w *walker) choice(c *syntax.CaseClause, s *scope) {
	w.visit(c.Word, s)
	inner := s.within(lineConditional)
	end := *inner
	for _, item := range c.Items {
		for _, p := range item.Patterns {
			w.visit(p, inner)
		}
		if item.OpPos.IsValid() {
			w.sign(";", int(item.OpPos.Offset()), len(item.Op.String()))
		}
		if item.Op != syntax.Break {
			w.bashOnly(item)
		}
		one := *inner
		if item != c.Items[0] {
			// By ;& it may be entered from the one before.
			one.join(&end, false)
		}
		w.list(item.Stmts, &one)
		end.join(&one, false)
	}
	s.inner(&end)
}

// loop walks a loop whose condition and body run any number of times.
func (w *walker) loop(s *scope, cond, do []*syntax.Stmt, start func(*scope), n syntax.Node) {
	s.settle()
	inner := s.within(lineLoop)
	key := claim{name: "loop", loop: 1 + w.level*maxBytes + w.local(n).Start}
	if w.blocked[key] || !w.trusting {
		inner.adrift()
	}
	if start != nil {
		start(inner)
	}
	before, cds := *inner, w.cds
	w.list(cond, inner)
	w.list(do, inner)
	if w.cds != cds {
		if !w.blocked[key] && w.trusting {
			w.roaming = append(w.roaming, key)
		}
		inner.adrift()
	}
	inner.gone = false
	inner.join(&before, false)
	s.inner(inner)
}

func (w *walker) forLoop(c *syntax.ForClause, s *scope) {
	if head, do := w.local(c.Loop).End, int(c.DoPos.Offset()); head < do && do <= len(w.text) {
		if i := strings.IndexByte(w.text[head:do], ';'); i >= 0 {
			w.sign(";", head+i, 1)
		}
	}
	if c.Braces {
		w.doubt(c, "a loop in braces is not in the manual")
	}
	switch l := c.Loop.(type) {
	case *syntax.CStyleLoop:
		w.bashOnly(c)
		w.bare(l)
		w.loop(s, nil, c.Do, func(s *scope) {
			for _, x := range []syntax.ArithmExpr{l.Init, l.Cond, l.Post} {
				if x != nil {
					w.arithm(x, s)
				}
			}
		}, c)
	case *syntax.WordIter:
		value := lineWord{number: len(l.Items) > 0}
		for _, item := range l.Items {
			w.visit(item, s)
			words, ok := braced(item)
			for _, x := range words {
				v := w.word(x, s)
				value.number = value.number && ok && (v.number || v.Static && decimal(v.Value))
				if len(w.out.Values) < maxArgs {
					w.out.Values = append(w.out.Values, v)
				}
			}
		}
		w.setsOtherwise(l.Name.Value, value, w.span(l))
		if c.Select {
			w.bashOnly(c)
			w.assigned("REPLY", lineWord{})
			value.number = false
		}
		w.loop(s, nil, c.Do, func(s *scope) { s.bind(l.Name.Value, value) }, c)
	}
}

func (w *walker) function(c *syntax.FuncDecl, s *scope) {
	w.feature(lineFunction, c)
	if c.Name == nil || c.RsrvWord && w.posix {
		w.doubt(c, "such a function is not understood")
	}
	if c.Name != nil {
		w.defined(c.Name.Value)
		if c.Name.Value == "command_not_found_handle" {
			w.doubt(c, "the function runs for every name that is no program")
		}
	}
	if !isCompound(c.Body) || c.Body.Negated || c.Body.Background {
		panic(lineRefusal{refuse(w.span(c), "bash wants a function to have a body in braces or the like", "put { } around it")})
	}
	inner := s.within(lineFunction)
	inner.adrift()
	inner.bound = nil
	cds := w.cds
	w.stmt(c.Body, inner)
	w.cds = cds
}

func (w *walker) timed(c *syntax.TimeClause, s *scope) {
	if c.Stmt == nil {
		panic(lineRefusal{refuse(w.span(c), "time has nothing to time", "leave it out")})
	}
	call, ok := c.Stmt.Cmd.(*syntax.CallExpr)
	if !ok {
		w.bashOnly(c)
		w.stmt(c.Stmt, s)
		return
	}
	if len(call.Assigns) == 0 && len(call.Args) > 0 && w.raw(call.Args[0]) == "--" {
		panic(lineRefusal{refuse(w.span(c), "time -- is read in two ways", "leave out the --")})
	}
	w.call(call, c.Stmt, w.redirects(c.Stmt.Redirs, s), []string{"time"}, s)
}

func (w *walker) coprocess(c *syntax.CoprocClause, s *scope) {
	w.feature(lineCoprocess, c)
	w.bashOnly(c)
	if c.Name != nil {
		if !isCompound(c.Stmt) {
			panic(lineRefusal{refuse(w.span(c), "bash takes "+w.raw(c.Name)+" for the program of the coprocess, not its name", "put { } around the command")})
		}
		w.visit(c.Name, s)
		name := w.word(c.Name, s)
		if !name.Static || !identifier(name.Value) {
			w.doubt(c, "the name of the coprocess is not plain")
		}
		w.setsOtherwise(name.Value, lineWord{}, w.span(c))
	}
	inner := s.within(lineCoprocess)
	w.stmt(c.Stmt, inner)
}

// isCompound reports whether stmt is a construct that bash takes for the body
// of a function or behind the name of a coprocess.
func isCompound(stmt *syntax.Stmt) bool {
	switch stmt.Cmd.(type) {
	case *syntax.Subshell, *syntax.Block, *syntax.IfClause, *syntax.WhileClause, *syntax.ForClause,
		*syntax.CaseClause, *syntax.ArithmCmd, *syntax.TestClause:
		return true
	}
	return false
}
