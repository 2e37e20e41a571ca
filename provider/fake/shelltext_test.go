package fake

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"mvdan.cc/sh/v3/syntax"
)

// lines parses a text and counts the statements of each line.
func lines(t *shelltextScripts, text string) (counts []int, err error) {
	for line, err := range t.Lines(text) {
		if err != nil {
			return counts, err
		}
		counts = append(counts, len(line))
	}
	return counts, nil
}

// TestLines holds that statements come line by line, and nothing of a line that
// makes no sense.
func TestLines(t *testing.T) {
	for _, tt := range []struct {
		text   string
		counts []int
		wrong  bool
	}{
		{"", nil, false},
		{"\n# nothing\n", nil, false},
		{"a; b\nc", []int{2, 1}, false},
		{"a &\nb & c", []int{1, 2}, false},
		{"if a\nthen b\nfi; c\nd", []int{2, 1}, false},
		{"cat <<E; a\nbody\nE\nb", []int{2, 1}, false},
		{"a; (", nil, true},
		{"a\nb; 'c", []int{1}, true},
		{"a\n\nb &&", []int{1}, true},
		{"a; cat <(b)", nil, true},
		{"a\ncoproc b", []int{1}, true},
		{"a\nf() { echo \"$(cat <(b))\"; }", []int{1}, true},
	} {
		counts, err := lines(newShelltext(), tt.text)
		if !slices.Equal(counts, tt.counts) || (err != nil) != tt.wrong {
			t.Errorf("%q: %v, %v; want %v, wrong %v", tt.text, counts, err, tt.counts, tt.wrong)
		}
	}
}

// TestAgain holds that a text that comes again costs no memory.
func TestAgain(t *testing.T) {
	s := newShelltext()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				if _, err := lines(s, "(a; b) | c"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := len(s.parts); n > 8*3 { // once for each that found nothing there
		t.Errorf("%d parts are kept", n)
	}
	for _, place := range []string{"", "-1", "x", "99999", "0x0"} {
		if s.Part(place) != nil {
			t.Errorf("there is a part at %q", place)
		}
	}
}

// left describes what in a prepared tree the interpreter would do itself.
func left(n syntax.Node) (found string) {
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Stmt:
			if n.Background {
				found = "a background command"
			}
		case *syntax.Subshell:
			found = "a subshell"
		case *syntax.BinaryCmd:
			if shelltextPipe(n) {
				found = "a pipeline"
			}
		case *syntax.CmdSubst:
			if len(n.Stmts) > 0 && !readsFile(n.Stmts) {
				if c, ok := n.Stmts[0].Cmd.(*syntax.CallExpr); !ok || !ownShelltext(c.Args[0].Lit()) {
					found = "a substitution"
				}
			}
		case *syntax.ProcSubst, *syntax.CoprocClause:
			found = "a process substitution"
		case *syntax.ParamExp:
			if n.Param != nil && slices.Contains([]string{"$", "!", "0", "PPID"}, n.Param.Value) {
				found = "the parameter " + n.Param.Value
			}
		case *syntax.Word:
			if l, ok := n.Parts[0].(*syntax.Lit); ok && !strings.Contains(l.Value, "\n") && len(l.Value) > 1 && l.Value[0] == '~' && l.Value[1] != '/' {
				found = "a user's home"
			}
		}
		return true
	})
	return found
}

// check prepares a text and looks at all that it has become.
func check(t *testing.T, text string) {
	s := newShelltext()
	for line, err := range s.Lines(text) {
		if err != nil {
			break
		}
		for _, stmt := range line {
			if found := left(stmt); found != "" {
				t.Errorf("%q still has %s", text, found)
			}
		}
	}
	for _, part := range s.parts {
		if found := left(part); found != "" {
			t.Errorf("a part of %q still has %s", text, found)
		}
	}
}

// seeds are texts with everything that is replaced, in odd places.
func seeds() []string {
	return []string{
		"(a) & b | c |& d; echo $$ $! ${0##*/} ${PPID-x} \"$(e `f $$`)\" ~root x=~bob ${y:-~root}",
		"f() { while (a); do b & done; }; if a | b; then ! (c) | d & fi >$(e) <<E\n$$ $(f | g)\nE\n",
		"case $(a) in $(b)) (c);; esac; x=$(a &) z; y=([$(b)]=$$); ((PPID + $$)); [[ -O $(a|b) ]]; $(<f) ${a[$(b)]} ${a/$(b)/$$}",
		"a && (b || c &) & time (d); { e | f; } 2>&1 | g; for x in $(h); do :; done; echo $((1 + $(i)))", "a |& b |& (c)", "cat <(a)",
	}
}

func TestNothingIsLeft(t *testing.T) {
	for _, text := range seeds() {
		if _, err := lines(newShelltext(), text); err != nil && !strings.Contains(text, "<(") {
			t.Fatalf("%q: %v", text, err)
		}
		check(t, text)
	}
	stmt, err := syntax.NewParser().Parse(strings.NewReader("(a)"), "")
	if err != nil || left(stmt) == "" {
		t.Error("what is left is not found")
	}
}

// FuzzLines holds that any text becomes statements without what the interpreter
// would do itself, or an error.
func FuzzLines(f *testing.F) {
	for _, seed := range seeds() {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) { check(t, text) })
}

func TestRefused(t *testing.T) {
	for _, text := range []string{
		"'", `"`, "$(", "${", "(", ")", "{ a", "}", "if a", "then", "fi", "while a; do", "done", "case x in a) b", "esac", ";;",
		"&&", "a &&", "| a", ";", "f(", "a >", "()", strings.Repeat("(", 10_000),
	} {
		var parse syntax.ParseError
		var lang syntax.LangError
		if counts, err := lines(newShelltext(), text); counts != nil || !errors.As(err, &parse) && !errors.As(err, &lang) {
			t.Errorf("%.40q: %v, %v", text, counts, err)
		}
	}
}
