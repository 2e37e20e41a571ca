package fake

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Call returns the statement that calls a command of ours.
func callShelltext(name string, places ...string) *syntax.Stmt {
	return &syntax.Stmt{Cmd: call(name, places...)}
}

func call(name string, places ...string) *syntax.CallExpr {
	c := &syntax.CallExpr{Args: []*syntax.Word{word(&syntax.Lit{Value: shelltextPrefix + name})}}
	for _, p := range places {
		c.Args = append(c.Args, word(&syntax.Lit{Value: p}))
	}
	return c
}

func word(part syntax.WordPart) *syntax.Word { return &syntax.Word{Parts: []syntax.WordPart{part}} }

// Assign returns the statement that gives a variable a value.
func assignShelltext(name, value string) *syntax.Stmt {
	return &syntax.Stmt{Cmd: &syntax.CallExpr{Assigns: []*syntax.Assign{{
		Name: &syntax.Lit{Value: name}, Value: word(&syntax.SglQuoted{Value: value}),
	}}}}
}

// Lacks returns the statement that fails when an option of set is on.
func lacksShelltext(option string) *syntax.Stmt {
	return &syntax.Stmt{Negated: true, Cmd: &syntax.TestClause{
		X: &syntax.UnaryTest{Op: syntax.TsOptSet, X: word(&syntax.Lit{Value: option})},
	}}
}

// prepare replaces in n, and below, what the interpreter would do itself.
func (t *shelltextScripts) prepare(n syntax.Node) { syntax.Walk(n, t.visit) }

func (t *shelltextScripts) visit(n syntax.Node) bool {
	switch n := n.(type) {
	case *syntax.Stmt:
		return t.statement(n)
	case *syntax.CmdSubst:
		if len(n.Stmts) > 0 && !readsFile(n.Stmts) {
			place := t.keep(block(n.Stmts))
			n.Stmts, n.Last = []*syntax.Stmt{callShelltext("output", place)}, nil
			return false
		}
	case *syntax.ParamExp:
		rename(n)
	case *syntax.Redirect: // a here-document is text, not a word
		if n.Hdoc != nil {
			for _, part := range n.Hdoc.Parts {
				t.prepare(part)
			}
			t.prepare(n.Word)
			return false
		}
	case *syntax.Word:
		if len(n.Parts) > 0 {
			plain(n)
		}
	case *syntax.UnaryTest: // there is one user, and no file has another access time
		switch n.Op {
		case syntax.TsUsrOwn, syntax.TsGrpOwn, syntax.TsModif:
			n.Op = syntax.TsExists
		}
	}
	return true
}

func block(stmts []*syntax.Stmt) *syntax.Stmt {
	return &syntax.Stmt{Cmd: &syntax.Block{Stmts: stmts}}
}

// readsFile reports whether a substitution is $(<FILE), which needs no process.
func readsFile(stmts []*syntax.Stmt) bool {
	s := stmts[0]
	return len(stmts) == 1 && s.Cmd == nil && !s.Background && len(s.Redirs) == 1
}

// statement replaces the kinds of statements that need processes. It reports
// whether what is left of s is to be looked at.
func (t *shelltextScripts) statement(s *syntax.Stmt) bool {
	if s.Background {
		part := *s
		part.Background = false
		*s = syntax.Stmt{Position: s.Position, Cmd: call("background", t.keep(&part))}
		return false
	}
	switch c := s.Cmd.(type) {
	case *syntax.Subshell:
		s.Cmd = call("subshell", t.keep(block(c.Stmts)))
	case *syntax.BinaryCmd:
		if shelltextPipe(c) {
			var places []string
			for _, element := range elements(c) {
				places = append(places, t.keep(element))
			}
			s.Cmd = call("pipeline", places...)
		}
	}
	return true
}

func shelltextPipe(c *syntax.BinaryCmd) bool { return c.Op == syntax.Pipe || c.Op == syntax.PipeAll }

// elements are the commands of a pipeline.
func elements(c *syntax.BinaryCmd) []*syntax.Stmt {
	if c.Op == syntax.PipeAll {
		c.X = block([]*syntax.Stmt{c.X})
		c.X.Redirs = []*syntax.Redirect{{
			N: &syntax.Lit{Value: "2"}, Op: syntax.DplOut, Word: word(&syntax.Lit{Value: "1"}),
		}}
	}
	if x, ok := c.X.Cmd.(*syntax.BinaryCmd); ok && shelltextPipe(x) && len(c.X.Redirs) == 0 {
		return append(elements(x), c.Y)
	}
	return []*syntax.Stmt{c.X, c.Y}
}

// rename replaces parameters whose values the interpreter takes from itself or
// from the machine.
func rename(n *syntax.ParamExp) {
	names := map[string]string{"$": shelltextPID, "!": shelltextLast, "0": shelltextName, "PPID": shelltextParent}
	if n.Param != nil && names[n.Param.Value] != "" {
		n.Param = &syntax.Lit{Value: names[n.Param.Value]}
		n.Short = false
	}
}

// plain keeps ~NAME as it is; the interpreter would ask the machine for that
// user's home.
func plain(w *syntax.Word) {
	lit, ok := w.Parts[0].(*syntax.Lit)
	if ok && len(lit.Value) > 1 && lit.Value[0] == '~' && lit.Value[1] != '/' {
		rest := &syntax.Lit{ValuePos: lit.ValuePos, ValueEnd: lit.ValueEnd, Value: lit.Value[1:]}
		w.Parts = append([]syntax.WordPart{&syntax.SglQuoted{Value: "~"}, rest}, w.Parts[1:]...)
	}
}

// Simple reports whether a text is nothing but words without expansions.
func simpleShelltext(text string) bool { return !strings.ContainsAny(text, "$`<>(){}&|;~\n") }
