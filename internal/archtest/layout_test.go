package archtest

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Bounds of the module's size. A new package needs a reason that its parent
// cannot carry.
const (
	maxPackages  = 90
	maxFolders   = 24  // with Go code, at the top of the module
	minFileLines = 100 // of a package that consists of one file
)

// small are packages of one short file that are contracts: interfaces and
// plain data by which two packages know each other, or tests alone.
var small = []string{"egress/proxy", "internal/archtest"}

// layers lists the module from top to bottom. A package belongs to the entry
// with its path, or with the longest path above it, and imports only from its
// own layer and the layers below.
var layers = [][]string{
	{"cmd", "internal/cli", "internal/bench"},
	{"internal/doctor", "internal/attack", "sdk"},
	{"server"},
	{"tools"},
	{"orchestrator"},
	{"manager"},
	{"grant/operation", "audit/recorder", "audit/replay", "tenant/token", "grant/store", "grant/ledger", "grant/budget"},
	{"provider"},
	{"guest", "images", "container"},
	{"browser", "egress", "fsbridge", "workspace", "prune"},
	{"registry"},
	{"audit"},
	{"policy/gate"},
	{"config"},
	{"policy", "toolpolicy", "tenant", "grant", "confighash", "registry/pool"},
	{"provider/seccomp"},
	{"internal"},
	{"."},
}

// supports lists what only tests use, or what reads the whole module: such a
// package stands beside the layers.
var supports = []string{"internal/testenv", "server/resource"}

// layerOf returns the layer of a package by its path below the module, or -1.
func layerOf(rel string) int {
	for ; ; rel = filepath.Dir(rel) {
		for n, layer := range layers {
			if slices.Contains(layer, rel) {
				return n
			}
		}
		if rel == "." || !strings.Contains(rel, "/") {
			return -1
		}
	}
}

// below returns a path below the module, "." for the module itself.
func below(importPath string) string {
	if importPath == module {
		return "."
	}
	return strings.TrimPrefix(importPath, module+"/")
}

// under reports whether rel is one of the folders or lies below one.
func under(rel string, folders []string) bool {
	return slices.ContainsFunc(folders, func(f string) bool { return rel == f || strings.HasPrefix(rel, f+"/") })
}

// upwards returns what a package imports from the layers above its own.
func upwards(p pkg) []string {
	rel := below(p.ImportPath)
	if under(rel, supports) {
		return nil
	}
	own := layerOf(rel)
	if own < 0 {
		return []string{"nothing: it is in no layer"}
	}
	var bad []string
	for _, path := range p.Imports {
		if path != module && !strings.HasPrefix(path, module+"/") || under(below(path), supports) {
			continue
		}
		if other := layerOf(below(path)); other < own {
			bad = append(bad, path)
		}
	}
	return bad
}

func TestLayers(t *testing.T) {
	ours, _ := load(t)
	for _, p := range ours {
		for _, path := range upwards(p) {
			t.Errorf("%s imports %s, which lies in a layer above", below(p.ImportPath), path)
		}
	}
}

// TestLayersAreSeen holds that an import upwards is found.
func TestLayersAreSeen(t *testing.T) {
	for _, tt := range []struct {
		from, imports string
		bad           bool
	}{
		{"/policy/path", "/manager", true},
		{"/policy/path", "/policy/command", false},
		{"/policy/path", "/policy/gate", true},
		{"/manager", "/policy/path", false},
		{"/manager", "/orchestrator", true},
		{"", "/internal/termsafe", true},
		{"/newfolder", "/policy", true},
		{"/internal/statedir", "/internal/termsafe", false},
		{"/internal/statedir", "/internal/cli", true},
		{"/internal/testenv/served", "/server", false},
	} {
		if got := upwards(pkg{ImportPath: module + tt.from, Imports: []string{"fmt", module + tt.imports}}); (len(got) > 0) != tt.bad {
			t.Errorf("%q may import %q: %v", tt.from, tt.imports, got)
		}
	}
}

func TestSize(t *testing.T) {
	ours, _ := load(t)
	if len(ours) > maxPackages {
		t.Errorf("there are %d packages, and at most %d: put the code into a package that exists", len(ours), maxPackages)
	}
	folders := map[string]bool{}
	for _, p := range ours {
		rel := below(p.ImportPath)
		if first, _, _ := strings.Cut(rel, "/"); first != "." {
			folders[first] = true
		}
		if len(p.GoFiles) != 1 || p.Name == "main" || rel == "." || slices.Contains(small, rel) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(p.Dir, p.GoFiles[0]))
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), "\n"); n < minFileLines {
			t.Errorf("%s is one file of %d lines: put it into a package that exists", rel, n)
		}
	}
	if len(folders) > maxFolders {
		t.Errorf("there are %d folders with Go code at the top, and at most %d", len(folders), maxFolders)
	}
}

// forbidden are words that no declared identifier may contain: readers know
// Docker, OCI, Kubernetes and HTTP, and those have other words for the same.
// The value is the word to use.
var forbidden = map[string]string{
	"arrivals":   "port forwarding",
	"berth":      "host identity",
	"broom":      "sweeper",
	"conduct":    "manager, or delete",
	"conductor":  "manager",
	"crowd":      "callers, or in-flight",
	"departure":  "egress",
	"desk":       "approval queue, or display",
	"dialect":    "shell protocol",
	"ebb":        "drain",
	"eyes":       "seccomp notifier",
	"farewell":   "close with a timeout, or drain",
	"filing":     "remote files",
	"house":      "supervisor, or fixture",
	"lane":       "queue",
	"passage":    "placement",
	"passageway": "proxy",
	"rooms":      "options",
	"spending":   "usage",
	"stub":       "placeholder",
	"stubs":      "placeholders",
	"supervise":  "launcher",
	"testimony":  "output digest",
	"told":       "reported",
	"toll":       "meter",
	"untold":     "unreported",
	"walled":     "sandboxed",
	"walls":      "sandboxes, or providers",
	"witness":    "observer",
	"witnessed":  "observed",
}

var word = regexp.MustCompile(`[A-Z]+[a-z0-9]*|[a-z0-9]+`)

// badWords returns the forbidden words that an identifier contains.
func badWords(name string) []string {
	var bad []string
	for _, w := range word.FindAllString(name, -1) {
		if w = strings.ToLower(w); forbidden[w] != "" {
			bad = append(bad, w)
		}
	}
	return bad
}

func TestWords(t *testing.T) {
	ours, _ := load(t)
	for _, p := range ours {
		s := parse(t, p, slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles)...)
		for file, f := range s.files {
			for _, id := range declared(f) {
				for _, w := range badWords(id.Name) {
					t.Errorf("%s:%d: %s contains %q: use %s", file, s.fset.Position(id.Pos()).Line, id.Name, w, forbidden[w])
				}
			}
		}
	}
	if got := badWords("newRoomsOf"); !slices.Equal(got, []string{"rooms"}) {
		t.Errorf("of newRoomsOf the bad words are %q", got)
	}
	if got := badWords("bedrooms"); got != nil {
		t.Errorf("of bedrooms the bad words are %q", got)
	}
}

// declared returns the identifiers that a file declares outside of functions,
// with fields and parameters.
func declared(f *ast.File) []*ast.Ident {
	ids := []*ast.Ident{f.Name}
	ast.Inspect(f, func(n ast.Node) bool {
		switch d := n.(type) {
		case *ast.FuncDecl:
			ids = append(ids, d.Name)
		case *ast.TypeSpec:
			ids = append(ids, d.Name)
		case *ast.ValueSpec:
			ids = append(ids, d.Names...)
		case *ast.Field:
			ids = append(ids, d.Names...)
		}
		return true
	})
	return ids
}
