package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestHabits holds what can be read from the source: package comments and
// names, no init functions, no package-level state.
func TestHabits(t *testing.T) {
	ours, standard := load(t)
	for _, p := range ours {
		rel := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		if strings.TrimSpace(p.Doc) == "" {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
		if slices.Contains(badNames, p.Name) || slices.Contains(badNames, filepath.Base(p.ImportPath)) {
			t.Errorf("%s: the name %q says nothing", p.ImportPath, p.Name)
		}
		s := parse(t, p, p.GoFiles...)
		for _, complaint := range s.complaints(rel) {
			t.Error(complaint)
		}
		if matches(p.ImportPath, pure, standard) {
			for _, call := range s.impureCalls() {
				t.Errorf("%s is pure and must not use %s", p.ImportPath, call)
			}
		}
	}
}

// A source is one package's files.
type source struct {
	fset  *token.FileSet
	files map[string]*ast.File // by path below the module
}

func parse(t *testing.T, p pkg, names ...string) source {
	t.Helper()
	s := source{token.NewFileSet(), map[string]*ast.File{}}
	for _, name := range names {
		f, err := parser.ParseFile(s.fset, filepath.Join(p.Dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		s.files[strings.TrimPrefix(p.ImportPath+"/"+name, module+"/")] = f
	}
	return s
}

// TestHabitsAreSeen holds that each habit finds a made-up offender, and
// leaves the lawful neighbours alone.
func TestHabitsAreSeen(t *testing.T) {
	const lawful = `package p
import ("errors"; "regexp"; _ "embed")
var ErrX = errors.New("x")
var typ = reflect.TypeFor[int]()
var pattern = regexp.MustCompile("x")
var table = map[string]int{"a": 1}
var _ error = (*T)(nil)
//go:embed x.txt
var text string
type T struct{ table int }
func (t *T) Error() string { t.table = 1; return "" }
func f() { _ = typ; table := map[string]int{}; table["a"] = 2; delete(table, "a") }
`
	tests := []struct {
		name, add string
		want      string // part of the complaint, or empty for none
	}{
		{"lawful", "", ""},
		{"init", "func init() {}", "init function"},
		{"counter", "var n int", "n can change"},
		{"lock", "var mu sync.Mutex", "mu can change"},
		{"lock by literal", "var mu = sync.Mutex{}", "mu can change"},
		{"hook", "var now = time.Now", "now can change"},
		{"channel", "var c = make(chan int)", "c can change"},
		{"written table", `func g() { table["b"] = 2 }`, "table is written to"},
		{"deleted from", `func g() { delete(table, "b") }`, "table is written to"},
		{"replaced error", "func g() { ErrX = nil }", "ErrX is written to"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := source{token.NewFileSet(), map[string]*ast.File{}}
			f, err := parser.ParseFile(s.fset, "p.go", lawful+tt.add, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			s.files["p/p.go"] = f
			got := strings.Join(s.complaints("p"), "; ")
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("complaints %q, want %q", got, tt.want)
			}
		})
	}
	s := source{token.NewFileSet(), map[string]*ast.File{}}
	f, err := parser.ParseFile(s.fset, "p.go", `package p
import ("path/filepath"; clock "time"; "math/rand/v2")
var _ = filepath.Clean
func f() { filepath.Abs("x"); clock.Now(); rand.Int(); clock.Duration(1).String() }`, 0)
	if err != nil {
		t.Fatal(err)
	}
	s.files["p/p.go"] = f
	if got, want := strings.Join(s.impureCalls(), " "), "path/filepath.Abs time.Now math/rand/v2.Int"; got != want {
		t.Errorf("impure calls %q, want %q", got, want)
	}
}
