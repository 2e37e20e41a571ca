// Published: this part of the package holds the schemas that this project publishes, under
// docs/schemas: of the settings, of what goes into the tools and comes out of
// them, of what callers hand in under grants, and of what they get and what is
// recorded. It is pure.

package resource

import (
	"encoding/json"
	"reflect"
	"slices"
	"time"

	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/internal/jsonschema"
	toolschema "github.com/bulkhead-dev/sandbox/tools/schema"
)

// A Schema is one that is published.
type publishedSchema struct {
	Name      string // of its file, without .json
	Direction jsonschema.Direction
	Data      []byte // JSON, indented
}

// All returns the schemas, the same ones each time. Versions are by SemVer, see
// [schema.Check]; a change of one needs a change of its number here.
func allPublished() []publishedSchema {
	return append(toolSchemas(), []publishedSchema{
		{"settings", jsonschema.Input, config.Schema()},
		of[grant.Grant]("grant", "1.1.0", "Grant: what a caller was given for one call of one tool", jsonschema.Input),
		of[grant.Manifest]("manifest", "1.0.0", "Manifest: what a tool declares of itself", jsonschema.Input),
		of[grant.Operation]("operation", "1.0.0", "Operation: one thing that a tool wants done; its content goes beside it", jsonschema.Input),
		of[grant.Profile]("profile", "1.1.0", "Profile: what one call may do", jsonschema.Output),
		of[evidence.Begin]("evidence-begin", "1.1.0", "Evidence that an operation begins", jsonschema.Output),
		of[evidence.End]("evidence-end", "1.1.0", "Evidence that an operation has ended", jsonschema.Output),
	}...)
}

// tools are the schemas of what goes into the tools and of what they answer
// with, whose versions are theirs.
func toolSchemas() (out []publishedSchema) {
	for _, t := range toolschema.All() {
		out = append(out, publishedSchema{"tool-" + t.Name, jsonschema.Input, t.Schema()}, publishedSchema{"tool-" + t.Name + "-result", jsonschema.Output, t.OutputSchema()})
	}
	return out
}

// of is the schema of the type T.
func of[T any](name, version, title string, d jsonschema.Direction) publishedSchema {
	g := jsonschema.Generator{Special: special, Words: enumerate, Required: demanded}
	if d == jsonschema.Output {
		g.Required = written
		g.Open, g.Null = true, true // readers ignore what they do not know
	}
	root := g.Of(reflect.TypeFor[T]())
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["$id"] = "urn:bulkhead:sandbox:" + name + ":v" + version[:1]
	root["title"] = title
	root[jsonschema.VersionKey] = version
	data, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic(err) // maps of strings and numbers always marshal
	}
	return publishedSchema{Name: name, Direction: d, Data: append(data, '\n')}
}

// special says in which unit times are.
func special(s map[string]any, t reflect.Type, _ reflect.StructField) bool {
	if t != reflect.TypeFor[time.Duration]() {
		return false
	}
	s["type"], s["description"] = "integer", "Nanoseconds."
	return true
}

// written reports whether a property of what we write is always there.
func written(_ reflect.Type, f reflect.StructField) bool { return jsonschema.Always(f) }

// demanded reports whether what is handed in cannot be without a property.
func demanded(t reflect.Type, f reflect.StructField) bool {
	name := jsonschema.Name(f)
	switch t {
	case reflect.TypeFor[grant.Grant]():
		return slices.Contains([]string{"id", "subject", "tool", "call", "expires", "decisionKeyFingerprint"}, name)
	case reflect.TypeFor[grant.Manifest]():
		return slices.Contains([]string{"tool", "version", "safety"}, name)
	case reflect.TypeFor[grant.Consent]():
		return slices.Contains([]string{"by", "expires"}, name)
	case reflect.TypeFor[grant.Capability](), reflect.TypeFor[grant.Operation]():
		return name == "kind"
	case reflect.TypeFor[grant.Template]():
		return name == "tool"
	}
	return false
}

// enumerate adds the words that a value of type t may be, if there is a list.
func enumerate(s map[string]any, t reflect.Type, _ reflect.StructField) {
	if words := wordsPublished(t); words != nil {
		s["enum"] = words
	}
}
