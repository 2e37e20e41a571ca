// This file prepares shell texts for an interpreter that has no processes.
//
// The interpreter of mvdan.cc/sh runs subshells, pipelines and background
// commands as goroutines of its own, about which its handlers learn nothing, and
// it gives the machine's process ids for $$ and PPID. Here each of these is
// replaced by a call of a command with the prefix [Prefix], which a handler
// carries out, and by variables with that prefix. What would ask the machine for
// its users is made harmless.

package fake

import (
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"
)

// Prefix begins the names of commands and variables that texts are given here.
// The commands take places of [Scripts]: "subshell N", "output N" for what a
// substitution runs, "background N" and "pipeline N…".
const shelltextPrefix = "_fake_"

// Variables that stand for $$, $!, $0 and $PPID.
const (
	shelltextPID    = shelltextPrefix + "pid"
	shelltextLast   = shelltextPrefix + "last"
	shelltextName   = shelltextPrefix + "name"
	shelltextParent = shelltextPrefix + "parent"
)

// Own reports whether a name is one of those given here.
func ownShelltext(name string) bool { return strings.HasPrefix(name, shelltextPrefix) }

// Scripts holds the parts of texts that are run in processes of their own. It
// is safe for concurrent use.
type shelltextScripts struct {
	mu    sync.Mutex
	parts []*syntax.Stmt
	known map[string][]*syntax.Stmt // lines that were parsed, by their text
}

// New returns empty Scripts.
func newShelltext() *shelltextScripts { return &shelltextScripts{known: map[string][]*syntax.Stmt{}} }

// Part returns the part at a place, as a command has it in its arguments, or nil.
func (t *shelltextScripts) Part(place string) *syntax.Stmt {
	n, err := strconv.Atoi(place)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil || n < 0 || n >= len(t.parts) {
		return nil
	}
	return t.parts[n]
}

// keep prepares a part and returns its place.
func (t *shelltextScripts) keep(s *syntax.Stmt) string {
	t.prepare(s)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.parts = append(t.parts, s)
	return strconv.Itoa(len(t.parts) - 1)
}

// Lines parses a text and yields the statements of one line after the other,
// prepared. A line that makes no sense is the last, as an error; nothing of it
// is yielded. Texts that come again share their statements.
func (t *shelltextScripts) Lines(text string) iter.Seq2[[]*syntax.Stmt, error] {
	return func(yield func([]*syntax.Stmt, error) bool) {
		t.mu.Lock()
		known, ok := t.known[text]
		t.mu.Unlock()
		if ok {
			yield(known, nil)
			return
		}
		var all, line []*syntax.Stmt
		ended, over := uint(0), false // the line on which the last statement ended
		hand := func() bool {         // hands the line on; only now all its here-documents are there
			ready, err := line, t.ready(line)
			all, line = append(all, ready...), nil
			if err != nil {
				yield(nil, err)
				return false
			}
			return len(ready) == 0 || yield(ready, nil)
		}
		for s, err := range syntax.NewParser().StmtsSeq(strings.NewReader(text)) {
			switch {
			case over: // the parser may not be left early: it yields once more after a mistake
			case len(line) > 0 && begins(s, err) > ended && !hand():
				over = true
			case err != nil:
				yield(nil, err)
				over = true
			default:
				ended, line = s.End().Line(), append(line, s)
			}
		}
		if over || !hand() {
			return
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		t.known[text] = all
	}
}

// ready prepares the statements of a line, or refuses one.
func (t *shelltextScripts) ready(line []*syntax.Stmt) error {
	for _, s := range line {
		if err := refuse(s); err != nil {
			return err
		}
	}
	for _, s := range line {
		t.prepare(s)
	}
	return nil
}

// refuse returns an error for what would need pipes with names on the machine.
func refuse(s *syntax.Stmt) (err error) {
	syntax.Walk(s, func(n syntax.Node) bool {
		switch n.(type) {
		case *syntax.ProcSubst, *syntax.CoprocClause:
			err = fmt.Errorf("%s: the fake has no process substitution and no coprocesses", n.Pos())
		}
		return err == nil
	})
	return err
}

// begins is the line on which a statement or a mistake begins.
func begins(s *syntax.Stmt, err error) uint {
	var parse syntax.ParseError
	switch {
	case errors.As(err, &parse):
		return parse.Pos.Line()
	case err != nil:
		return 0 // a mistake of another kind is with the line before it
	}
	return s.Pos().Line()
}
