package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// module is the path of this module; go list says the same, which the test holds.
const module = "github.com/bulkhead-dev/sandbox"

// A pkg is one package as go list tells it.
type pkg struct {
	ImportPath string
	Name       string
	Dir        string
	Doc        string
	Standard   bool
	GoFiles    []string
	// Of tests, inside the package and beside it.
	TestGoFiles, XTestGoFiles []string
	Imports                   []string
	Deps                      []string
	Module                    *struct{ Path string }
	Error                     *struct{ Err string }
}

// load lists the packages of this module and everything they import.
func load(t *testing.T) (ours []pkg, standard map[string]bool) {
	t.Helper()
	watchTree(t)
	cmd := exec.Command("go", "list", "-e", "-deps",
		"-json=ImportPath,Name,Dir,Doc,Standard,GoFiles,TestGoFiles,XTestGoFiles,Imports,Deps,Module,Error", module+"/...")
	cmd.Dir = "../.."
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, errOut.String())
	}
	standard = map[string]bool{"C": true} // the standard library's own; ours has a rule
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		switch {
		case p.Standard:
			standard[p.ImportPath] = true
		case p.Error != nil:
			t.Errorf("%s cannot be loaded, so its imports are not known: %s", p.ImportPath, p.Error.Err)
		case p.Module != nil && p.Module.Path == module:
			ours = append(ours, p)
		}
	}
	if len(ours) < 5 || len(standard) < 20 {
		t.Fatalf("go list found only %d packages of ours and %d of the standard library", len(ours), len(standard))
	}
	return ours, standard
}

// watchTree looks at every folder of the module. The go command notes what a
// test opens and reuses its result only while that is unchanged; without this
// it would not notice that a package was added.
func watchTree(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != "../.." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin") {
			return fs.SkipDir
		}
		if errors.Is(err, fs.ErrNotExist) && path != "../.." {
			return nil // a folder that a test of another package has made and removed
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// matches reports whether the import path is meant by one of the patterns.
func matches(path string, patterns []string, standard map[string]bool) bool {
	for _, p := range patterns {
		if p == "std" {
			if standard[path] {
				return true
			}
			continue
		}
		if rest, ok := strings.CutPrefix(p, "."); ok {
			p = module + rest
		}
		prefix, tree := strings.CutSuffix(p, "/...")
		if path == prefix || tree && strings.HasPrefix(path, prefix+"/") {
			return true
		}
	}
	return false
}

// broken returns what p imports against r.
func (r rule) broken(p pkg, standard map[string]bool) []string {
	if !matches(p.ImportPath, r.from, standard) || matches(p.ImportPath, r.except, standard) {
		return nil
	}
	imports := p.Imports
	if r.deep {
		imports = p.Deps
	}
	var bad []string
	for _, path := range imports {
		switch {
		case matches(path, r.but, standard):
		case r.only != nil && !matches(path, r.only, standard), matches(path, r.never, standard):
			bad = append(bad, path)
		}
	}
	return bad
}

// TestDeps holds the directions of docs/architecture.md.
func TestDeps(t *testing.T) {
	ours, standard := load(t)
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			for _, p := range ours {
				for _, bad := range r.broken(p, standard) {
					t.Errorf("%s imports %s: %s", p.ImportPath, bad, r.why)
				}
			}
		})
	}
}

// TestRules holds that the rules can be broken at all: each finds a made-up
// offender.
func TestRules(t *testing.T) {
	standard := map[string]bool{"os": true, "os/exec": true, "fmt": true, "testing": true, "net/http": true, "plugin": true}
	tests := []struct {
		name    string
		path    string
		imports []string
		want    []string // of imports, those that some rule refuses
	}{
		{"root with a library", module, []string{"fmt", "golang.org/x/sys/unix"}, []string{"golang.org/x/sys/unix"}},
		{"pure with a file", module + "/confighash", []string{"fmt", "os"}, []string{"os"}},
		{"pure with a process", module + "/policy/command", []string{"os/exec"}, []string{"os/exec"}},
		{"pure on impure", module + "/registry/pool", []string{module + "/registry"}, []string{module + "/registry"}},
		{"client elsewhere", module + "/manager", []string{"github.com/docker/docker/client"}, []string{"github.com/docker/docker/client"}},
		{"client at home", module + "/container", []string{"github.com/docker/docker/client"}, nil},
		{"metrics elsewhere", module + "/manager", []string{"github.com/prometheus/client_golang/prometheus"}, []string{"github.com/prometheus/client_golang/prometheus"}},
		{"metrics at home", module + "/server", []string{"github.com/prometheus/client_golang/prometheus"}, nil},
		{"guest with a library", module + "/guest/server", []string{"github.com/sirupsen/logrus"}, []string{"github.com/sirupsen/logrus"}},
		{"guest with a web server", module + "/cmd/sandbox-guest", []string{"net/http"}, []string{"net/http"}},
		{"prune with a provider", module + "/prune", []string{module + "/provider"}, []string{module + "/provider"}},
		{"files with a provider", module + "/fsbridge", []string{module + "/provider/docker"}, []string{module + "/provider/docker"}},
		{"manager with a sandbox", module + "/manager", []string{module + "/provider/docker"}, []string{module + "/provider/docker"}},
		{"command line with a sandbox", module + "/cmd/sandbox", []string{module + "/provider/docker"}, nil},
		{"provider with settings", module + "/provider/docker", []string{module + "/config"}, []string{module + "/config"}},
		{"registry with the conductor", module + "/registry", []string{module + "/manager"}, []string{module + "/manager"}},
		{"conductor with the command line", module + "/manager", []string{module + "/internal/cli"}, []string{module + "/internal/cli"}},
		{"program with testing", module + "/manager", []string{"testing"}, []string{"testing"}},
		{"cgo", module + "/manager", []string{"C"}, []string{"C"}},
		{"name that only begins alike", module + "/manager", []string{module + "/confighash"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, r := range rules {
				for _, bad := range r.broken(pkg{ImportPath: tt.path, Imports: tt.imports, Deps: tt.imports}, standard) {
					if !slices.Contains(got, bad) {
						got = append(got, bad)
					}
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("refused %v, want %v", got, tt.want)
			}
		})
	}
}
