package operation_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
)

// TestTableIsWhole checks that each code there is has a row, a status and a line in
// the documentation.
func TestTableIsWhole(t *testing.T) {
	rows := map[sandbox.Code]bool{}
	for _, w := range slices.Concat(denials(), blocks(), amounts(), failures()) {
		rows[w.code] = true
	}
	page, err := os.ReadFile("../../docs/grants.md")
	must(t, err)
	all := codes(t)
	for _, c := range all {
		if !rows[c] || status()[c] == 0 {
			t.Errorf("no row provokes %s, or it has no status", c)
		}
		if got := c.HTTPStatus(); got != status()[c] {
			t.Errorf("%s answers %d, want %d", c, got, status()[c])
		}
		reported := slices.ContainsFunc(strings.Split(string(page), "\n"), func(line string) bool {
			return strings.HasPrefix(line, "|") && strings.Contains(line, "`"+string(c)+"`") && strings.Contains(line, strconv.Itoa(status()[c]))
		})
		if !reported {
			t.Errorf("docs/grants.md does not tell %s with %d", c, status()[c])
		}
	}
	if len(rows) != len(all) || len(status()) != len(all) || len(all) < 12 {
		t.Errorf("%d codes have rows, %d a status, and there are %d", len(rows), len(status()), len(all))
	}
}

// codes are the constants of type Code that the root package declares.
func codes(t *testing.T) (out []sandbox.Code) {
	t.Helper()
	files, err := os.ReadDir("../..")
	must(t, err)
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), "../../"+f.Name(), nil, parser.SkipObjectResolution)
		must(t, err)
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if kind, ok := spec.Type.(*ast.Ident); !ok || kind.Name != "Code" {
				return true
			}
			for _, v := range spec.Values {
				text, err := strconv.Unquote(v.(*ast.BasicLit).Value)
				must(t, err)
				out = append(out, sandbox.Code(text))
			}
			return true
		})
	}
	return out
}
