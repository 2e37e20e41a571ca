package resource

import (
	"bytes"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/grant"
	internaljsonschema "github.com/bulkhead-dev/sandbox/internal/jsonschema"
)

var update = flag.Bool("update", false, "write docs/schemas anew; what was released stays")

const (
	repository = "../.."
	documents  = repository + "/docs/schemas"
	released   = documents + "/released"
)

// TestCommitted holds that docs/schemas has what the types say, and nothing else.
func TestCommitted(t *testing.T) {
	names := []string{"README.md", "released"}
	for _, s := range allPublished() {
		path := filepath.Join(documents, s.Name+".json")
		names = append(names, s.Name+".json")
		if *update {
			if err := os.WriteFile(path, s.Data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		have, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(have, s.Data) {
			t.Errorf("%s is not what the types say (%v): raise its version if need be, and run make schemas", path, err)
		}
	}
	entries, err := os.ReadDir(documents)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !slices.Contains(names, e.Name()) {
			t.Errorf("%s belongs to no schema", e.Name())
		}
	}
}

// TestVersions holds that what changed since the last release goes with the
// version.
func TestVersions(t *testing.T) {
	t.Parallel()
	now := map[string]publishedSchema{}
	for _, s := range allPublished() {
		now[s.Name] = s
	}
	entries, err := os.ReadDir(released)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), ".json")
		base, err := os.ReadFile(filepath.Join(released, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		s, ok := now[name]
		if !ok {
			t.Errorf("the schema %s was released and is no more", name)
			continue
		}
		if err := internaljsonschema.Check(base, s.Data, s.Direction); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		delete(now, name)
	}
	for name := range now {
		t.Errorf("the schema %s has no base in %s to be held against", name, released)
	}
}

// TestWordsAreComplete holds the lists of words against the constants of their
// types in the source.
func TestWordsAreComplete(t *testing.T) {
	t.Parallel()
	types := []reflect.Type{
		reflect.TypeFor[grant.Kind](), reflect.TypeFor[grant.SafetyClass](), reflect.TypeFor[grant.SideEffect](), reflect.TypeFor[grant.OpKind](),
		reflect.TypeFor[evidence.Status](), reflect.TypeFor[sandbox.Code](),
	}
	for _, typ := range types {
		dir := repository + strings.TrimPrefix(typ.PkgPath(), "github.com/bulkhead-dev/sandbox")
		want := constants(t, dir, typ.Name())
		got := slices.Sorted(slices.Values(wordsPublished(typ)))
		if len(want) == 0 || !slices.Equal(got, want) {
			t.Errorf("%s has %v; its words are %v", typ, want, got)
		}
	}
	if w := wordsPublished(reflect.TypeFor[string]()); w != nil {
		t.Errorf("any string is one of %v", w)
	}
}

// constants are the values of the constants of a type, by the source in dir.
func constants(t *testing.T, dir, typ string) (out []string) {
	t.Helper()
	paths, err := filepath.Glob(dir + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if !ok || len(v.Values) == 0 {
				return true
			}
			name, _ := v.Type.(*ast.Ident)
			value, _ := v.Values[0].(*ast.BasicLit)
			if name != nil && name.Name == typ && value != nil {
				s, err := strconv.Unquote(value.Value)
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, s)
			}
			return true
		})
	}
	slices.Sort(out)
	return out
}

// compiled returns the schema of that name.
func compiled(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	i := slices.IndexFunc(allPublished(), func(s publishedSchema) bool { return s.Name == name })
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(allPublished()[i].Data))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("urn:x", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("urn:x")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// tree is v as JSON makes it, without the property at a path of names.
func tree(t *testing.T, v any, without ...string) any {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	out, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	at, _ := out.(map[string]any)
	for i, name := range without {
		if i == len(without)-1 {
			delete(at, name)
		}
		at, _ = at[name].(map[string]any)
	}
	return out
}

func parties() (grant.Grant, grant.Manifest, grant.Policy, time.Time) {
	now := time.Date(2030, 1, 1, 9, 0, 0, 0, time.UTC)
	can := []grant.Capability{{Kind: grant.FSWrite, Path: "/workspace"}, {Kind: grant.Process, Tool: "git"}, {Kind: grant.NetHTTP, Host: "example.com", Methods: []string{"GET"}}}
	return grant.Grant{
			ID: "7f3a", Tenant: "acme", Subject: "alice", Tool: "digest", Call: "call-1", DecisionKey: "d1", Capabilities: can,
			Issued: now, Expires: now.Add(time.Hour), Budget: grant.Budget{Calls: 1, WallMs: grant.Unlimited},
			Consent: &grant.Consent{By: "alice", At: now, Expires: now.Add(time.Hour)},
		}, grant.Manifest{
			Tool: "digest", Version: "1.0.0", Safety: grant.SafetyHigh, Capabilities: can, SideEffects: []grant.SideEffect{grant.EffectWrite},
			Commands: []grant.Template{{Tool: "git", Args: []grant.Argument{{OneOf: []string{"status"}}}, Rest: &grant.Argument{Pattern: "[a-z]+"}}},
		}, grant.Policy{
			Version: "3c9d", Capabilities: can, Safety: grant.SafetyLow, Mappings: grant.Mappings{Root: "/workspace", Tmp: "/tmp/sandbox"},
			Denied: grant.Denied{Paths: []string{"/workspace/.git"}},
		}, now
}

// TestSchemasTakeWhatIsWritten holds real values against their schemas.
func TestSchemasTakeWhatIsWritten(t *testing.T) {
	t.Parallel()
	g, m, p, now := parties()
	profile, err := grant.Build(g, m, p, now)
	if err != nil {
		t.Fatal(err)
	}
	code := 1
	for name, values := range map[string][]any{
		"grant":          {g},
		"manifest":       {m},
		"operation":      {grant.Operation{Kind: grant.OpNetHTTP, Method: "GET", URL: "https://example.com/", Header: map[string]string{"Accept": "*/*"}}, grant.Operation{Kind: grant.OpProcExec, Tool: "git", Args: []string{"status"}, Timeout: time.Second}},
		"profile":        {profile, grant.Profile{Safety: grant.SafetyLow}},
		"evidence-begin": {evidence.Begin{ID: "1", Kind: grant.OpFsRead, Time: now, Request: evidence.Request{Path: "/workspace"}, Inputs: evidence.DigestOf(nil)}},
		"evidence-end": {evidence.End{ID: "1", Status: evidence.Denied, Code: sandbox.CodeDenyTool}, evidence.End{
			Status: evidence.OK, Effects: []evidence.Effect{{Kind: grant.EffectProcess, Program: "git", ExitCode: &code, Digest: evidence.DigestOf([]byte("x"))}}}},
	} {
		s := compiled(t, name)
		for _, v := range values {
			if err := s.Validate(tree(t, v)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		more := tree(t, values[0]).(map[string]any)
		more["something new"] = true
		if err := s.Validate(more); (err == nil) != strings.HasPrefix(name, "evidence") && (err == nil) != (name == "profile") {
			t.Errorf("%s with a property that is not known: %v", name, err)
		}
	}
}

// TestSchemasDemandWhatIsDemanded holds that what the schemas of grants and
// manifests call required is refused when it is missing, and nothing else is.
func TestSchemasDemandWhatIsDemanded(t *testing.T) {
	t.Parallel()
	g, m, p, now := parties()
	// A tool that does nothing needs no consent.
	m.Safety, m.SideEffects, m.Commands = grant.SafetyLow, []grant.SideEffect{}, nil
	m.Capabilities = []grant.Capability{{Kind: grant.FSRead, Path: "/workspace"}}
	built := func(v any, without string) error {
		g, m := g, m
		data, err := json.Marshal(tree(t, v, without))
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := v.(grant.Grant); ok {
			g = grant.Grant{}
			err = json.Unmarshal(data, &g)
		} else {
			m = grant.Manifest{}
			err = json.Unmarshal(data, &m)
		}
		if err != nil {
			t.Fatal(err)
		}
		_, err = grant.Build(g, m, p, now)
		return err
	}
	for name, v := range map[string]any{"grant": g, "manifest": m} {
		s := compiled(t, name)
		for property := range tree(t, v).(map[string]any) {
			refused, invalid := built(v, property) != nil, s.Validate(tree(t, v, property)) != nil
			if refused != invalid {
				t.Errorf("%s without %s: Build refuses it: %v, the schema does: %v", name, property, refused, invalid)
			}
		}
	}
}
