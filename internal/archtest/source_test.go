package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// complaints lists what is against the habits; rel is the package's folder.
func (s source) complaints(rel string) []string {
	var list []string
	for path, f := range s.files {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.Name == "init" {
					list = append(list, path+" has an init function")
				}
			case *ast.GenDecl:
				for _, name := range state(d) {
					if variables[rel+"."+name] == "" {
						list = append(list, fmt.Sprintf("%s: the package variable %s can change", path, name))
					}
				}
			}
		}
	}
	for _, name := range s.assigned() {
		list = append(list, fmt.Sprintf("%s: the package variable %s is written to", rel, name))
	}
	slices.Sort(list)
	return list
}

// state returns the names of package variables in d that are not plainly
// constant in use: errors, patterns, tables, assertions and embedded files.
func state(d *ast.GenDecl) []string {
	var names []string
	if d.Tok != token.VAR {
		return nil
	}
	for _, spec := range d.Specs {
		v := spec.(*ast.ValueSpec)
		embedded := hasEmbed(d.Doc) || hasEmbed(v.Doc)
		for i, name := range v.Names {
			if name.Name == "_" || embedded || i < len(v.Values) && constant(v.Values[i]) {
				continue
			}
			names = append(names, name.Name)
		}
	}
	return names
}

func hasEmbed(c *ast.CommentGroup) bool {
	if c == nil {
		return false
	}
	return slices.ContainsFunc(c.List, func(l *ast.Comment) bool { return strings.HasPrefix(l.Text, "//go:embed ") })
}

// constant reports whether a value is of a kind that one writes down once:
// a table, an error, a pattern, a conversion of such.
func constant(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.CompositeLit:
		return !lock(e.Type)
	case *ast.UnaryExpr:
		lit, ok := e.X.(*ast.CompositeLit)
		return ok && e.Op == token.AND && !lock(lit.Type)
	case *ast.CallExpr:
		fun := e.Fun
		switch f := fun.(type) {
		case *ast.ArrayType:
			return true // a conversion
		case *ast.IndexExpr:
			fun = f.X // a generic function
		}
		return slices.Contains([]string{
			"errors.New", "sync.OnceValue", "fmt.Errorf", "sandbox.Errorf", "regexp.MustCompile", "template.Must", "strings.NewReplacer",
			"slices.Concat", "reflect.TypeFor",
		}, selector(fun))
	}
	return false
}

// lock reports whether a type is there to change.
func lock(t ast.Expr) bool {
	name := selector(t)
	return strings.HasPrefix(name, "sync.") || strings.HasPrefix(name, "atomic.")
}

// selector writes "pkg.Name" for a selector and "" for anything else.
func selector(e ast.Expr) string {
	if s, ok := e.(*ast.SelectorExpr); ok {
		if x, ok := s.X.(*ast.Ident); ok {
			return x.Name + "." + s.Sel.Name
		}
	}
	return ""
}

// assigned returns the package variables that some function writes to.
func (s source) assigned() []string {
	vars := map[string]bool{}
	for _, f := range s.files {
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.VAR {
				for _, spec := range g.Specs {
					for _, name := range spec.(*ast.ValueSpec).Names {
						vars[name.Name] = true
					}
				}
			}
		}
	}
	var list []string
	for _, f := range s.files {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
				local := locals(fn)
				for _, name := range writes(fn.Body) {
					if name != "_" && vars[name] && !local[name] && !slices.Contains(list, name) {
						list = append(list, name)
					}
				}
			}
		}
	}
	return list
}

// locals returns every name that fn declares anywhere within.
func locals(fn *ast.FuncDecl) map[string]bool {
	names := map[string]bool{}
	add := func(e ast.Expr) {
		if id, ok := e.(*ast.Ident); ok {
			names[id.Name] = true
		}
	}
	ast.Inspect(fn, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			for _, id := range n.Names {
				add(id)
			}
		case *ast.ValueSpec:
			for _, id := range n.Names {
				add(id)
			}
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				for _, e := range n.Lhs {
					add(e)
				}
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				add(n.Key)
				add(n.Value)
			}
		}
		return true
	})
	return names
}

// writes returns the names at the root of what body assigns to, counts up,
// deletes from or clears.
func writes(body ast.Node) []string {
	var names []string
	add := func(e ast.Expr) {
		if name := root(e); name != "" {
			names = append(names, name)
		}
	}
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				for _, e := range n.Lhs {
					add(e)
				}
			}
		case *ast.IncDecStmt:
			add(n.X)
		case *ast.CallExpr:
			if id, ok := n.Fun.(*ast.Ident); ok && (id.Name == "delete" || id.Name == "clear") && len(n.Args) > 0 {
				add(n.Args[0])
			}
		}
		return true
	})
	return names
}

// root returns the name that an expression like a.b[c].d starts with.
func root(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.IndexExpr:
		return root(e.X)
	case *ast.SelectorExpr:
		return root(e.X)
	case *ast.StarExpr:
		return root(e.X)
	case *ast.ParenExpr:
		return root(e.X)
	}
	return ""
}

// impureCalls returns the uses of functions that pure packages must not use.
func (s source) impureCalls() []string {
	var list []string
	for _, f := range s.files {
		names := map[string]string{} // what the file calls an import → its path
		for _, im := range f.Imports {
			path := strings.Trim(im.Path.Value, `"`)
			name := strings.TrimSuffix(path, "/v2")
			name = name[strings.LastIndexByte(name, '/')+1:]
			if im.Name != nil {
				name = im.Name.Name
			}
			names[name] = path
		}
		ast.Inspect(f, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := sel.X.(*ast.Ident)
			if !ok {
				return true
			}
			if bad := impure[names[x.Name]]; slices.Contains(bad, sel.Sel.Name) || slices.Contains(bad, "*") {
				list = append(list, names[x.Name]+"."+sel.Sel.Name)
			}
			return true
		})
	}
	return list
}
