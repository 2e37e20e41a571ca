package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"
)

// TestWaits holds that tests skip only where internal/testenv can turn it into
// a failure, or because of -short, and that they do not sleep: who sleeps
// until something should have happened waits too long on one machine and too
// short on another.
func TestWaits(t *testing.T) {
	ours, _ := load(t)
	for _, p := range ours {
		s := parse(t, p, slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles)...)
		for _, complaint := range s.waits() {
			t.Error(complaint)
		}
	}
}

// waits lists the skips and the sleeps in test code.
func (s source) waits() []string {
	var list []string
	for file, f := range s.files {
		if !strings.HasSuffix(file, "_test.go") && !slices.ContainsFunc(f.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"testing"` }) {
			continue
		}
		complain := func(pos token.Pos, what string) {
			list = append(list, fmt.Sprintf("%s:%d %s", file, s.fset.Position(pos).Line, what))
		}
		short, bubbles := regions(f)
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			switch sel, ok := call.Fun.(*ast.SelectorExpr); {
			case !ok:
			case slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, sel.Sel.Name):
				if !short.has(n.Pos()) && !excepted(skips, file) {
					complain(n.Pos(), "skips in silence: ask internal/testenv")
				}
			case called(call, "time", "Sleep"):
				if !bubbles.has(n.Pos()) && !excepted(sleeps, file) {
					complain(n.Pos(), "sleeps: wait for the event, or watch with internal/testenv/poll")
				}
			}
			return true
		})
	}
	slices.Sort(list)
	return list
}

// A region is a part of a file.
type region struct{ begin, end token.Pos }

type regionList []region

func (l regionList) has(p token.Pos) bool {
	return slices.ContainsFunc(l, func(r region) bool { return r.begin <= p && p < r.end })
}

// regions returns what runs with -short only, and what runs by the clock of a
// bubble.
func regions(f *ast.File) (short, bubbles regionList) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt:
			if onlyShort(n.Cond) {
				short = append(short, region{n.Body.Pos(), n.Body.End()})
			}
		case *ast.CallExpr:
			if called(n, "synctest", "Test") {
				bubbles = append(bubbles, region{n.Pos(), n.End()})
			}
		}
		return true
	})
	return short, bubbles
}

// onlyShort reports whether e holds with -short only.
func onlyShort(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return onlyShort(e.X)
	case *ast.BinaryExpr:
		return e.Op == token.LAND && (onlyShort(e.X) || onlyShort(e.Y))
	case *ast.CallExpr:
		return called(e, "testing", "Short")
	}
	return false
}

// called reports whether c calls that function of a package.
func called(c *ast.CallExpr, pkg, name string) bool {
	sel, ok := c.Fun.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != name {
		return false
	}
	x, ok := sel.X.(*ast.Ident)
	return ok && x.Name == pkg
}

// excepted reports whether the list names the file or a folder above it.
func excepted(list map[string]string, file string) bool {
	for ; file != "."; file = path.Dir(file) {
		if list[file] != "" {
			return true
		}
	}
	return false
}

// TestWaitsAreSeen holds that each is found in a made-up test, and its lawful
// neighbours are not.
func TestWaitsAreSeen(t *testing.T) {
	for what, tt := range map[string]struct {
		body string
		want string // part of the complaint, or empty for none
	}{
		"skip":             {`t.Skip("no")`, "p/p_test.go:3 skips"},
		"skip with words":  {`t.Skipf("no %d", 1)`, "skips"},
		"skip at once":     {`b.SkipNow()`, "skips"},
		"short":            {`if testing.Short() { t.Skip("slow") }`, ""},
		"short and more":   {`if shell == "bash" && (testing.Short()) { t.Skip("slow") }`, ""},
		"short or more":    {`if testing.Short() || !root { t.Skip("no root") }`, "skips"},
		"otherwise":        {`if testing.Short() { return } else { t.Skip("no") }`, "skips"},
		"not short":        {`if !testing.Short() { t.Skip("no") }`, "skips"},
		"another's":        {`testenv.Require(t, "root"); r.skip(3); skip()`, ""},
		"sleep":            {`time.Sleep(1)`, "p/p_test.go:3 sleeps"},
		"sleep in a loop":  {`for ; !ok; time.Sleep(1) {}`, "sleeps"},
		"in a bubble":      {`synctest.Test(t, func(t *testing.T) { go func() { time.Sleep(1) }() })`, ""},
		"beside a bubble":  {`synctest.Test(t, func(t *testing.T) {}); time.Sleep(1)`, "sleeps"},
		"a bound":          {`select { case <-done: case <-time.After(1): t.Fatal("never") }`, ""},
		"somebody's sleep": {`bed.Sleep(1)`, ""},
	} {
		t.Run(what, func(t *testing.T) {
			s := source{token.NewFileSet(), map[string]*ast.File{}}
			f, err := parser.ParseFile(s.fset, "p_test.go", "package p\nimport (\"testing\"; \"time\")\nfunc f() { "+tt.body+" }", parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			s.files["p/p_test.go"] = f
			got := strings.Join(s.waits(), "; ")
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("complaints %q, want %q", got, tt.want)
			}
		})
	}
	if list := map[string]string{"a/b": "why"}; !excepted(list, "a/b/c_test.go") || !excepted(list, "a/b") || excepted(list, "a/bc_test.go") || excepted(list, "c_test.go") {
		t.Error("exceptions are for what they name and what lies below")
	}
}
