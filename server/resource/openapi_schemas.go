package resource

import (
	"encoding/json"
	"path"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/jsonschema"
)

// schemas makes the components of types: one for each struct with a name and
// each direction in which it is used, each with its own name.
type schemas struct {
	all   map[string]any
	names map[component]string
}

type component struct {
	t reflect.Type
	d jsonschema.Direction
}

// of returns the schema of values of the type of v: mostly a reference.
func (s *schemas) of(v any, d jsonschema.Direction) map[string]any {
	return s.generator(d, nil).Of(reflect.TypeOf(v))
}

// ref returns a reference to the component of the struct t, which it makes when
// it is first needed.
func (s *schemas) ref(t reflect.Type, d jsonschema.Direction) string {
	c := component{t, d}
	name, ok := s.names[c]
	if !ok {
		name = s.nameFor(c)
		s.names[c] = name
		s.all[name] = map[string]any{} // taken, for types that contain themselves
		s.all[name] = s.generator(d, t).Of(t)
	}
	return "#/components/schemas/" + name
}

// nameFor returns a name that no other component has.
func (s *schemas) nameFor(c component) string {
	direction := "Output"
	if c.d == jsonschema.Input {
		direction = "Input"
	}
	p := path.Base(c.t.PkgPath())
	long := strings.ToUpper(p[:1]) + p[1:] + c.t.Name()
	for _, name := range []string{c.t.Name(), c.t.Name() + direction, long, long + direction} {
		if _, taken := s.all[name]; !taken {
			return name
		}
	}
	panic("two types are called " + long) // of packages that are called alike, which a test would see
}

// generator returns a generator of schemas in one direction. It inlines the type
// root; other structs become references.
func (s *schemas) generator(d jsonschema.Direction, root reflect.Type) jsonschema.Generator {
	g := jsonschema.Generator{Describe: openapiDescribe, Words: words, Open: d == jsonschema.Output}
	g.Special = func(to map[string]any, t reflect.Type, f reflect.StructField) bool {
		switch {
		case t == reflect.TypeFor[time.Time]() || t == root && f.Type == nil:
			return false
		case t == reflect.TypeFor[json.RawMessage]() || t.Kind() == reflect.Interface:
			return true
		case t == reflect.TypeFor[time.Duration]():
			to["type"] = "integer"
		case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
			to["type"], to["contentEncoding"] = "string", "base64"
			if n, err := strconv.Atoi(f.Tag.Get("maxlen")); err == nil {
				to["maxLength"] = (n + 2) / 3 * 4
			}
		case t.Kind() == reflect.Struct && t.Name() != "":
			to["$ref"] = s.ref(t, d)
		case t.Kind() >= reflect.Int && t.Kind() <= reflect.Uint64:
			to["type"] = nullable("integer", f)
			words(to, t, f)
		case f.Type != nil && f.Type.Kind() == reflect.Pointer && jsonschema.Always(f):
			to["type"] = nullable(map[reflect.Kind]string{reflect.Bool: "boolean", reflect.String: "string", reflect.Float64: "number"}[t.Kind()], f)
		default:
			return false
		}
		return true
	}
	g.Required = func(_ reflect.Type, f reflect.StructField) bool { return jsonschema.Always(f) }
	if d == jsonschema.Input {
		g.Required = func(_ reflect.Type, f reflect.StructField) bool { return f.Tag.Get("required") != "" }
	}
	return g
}

// nullable returns the type of a field that is null where it has no value.
func nullable(name string, f reflect.StructField) any {
	if f.Type != nil && f.Type.Kind() == reflect.Pointer && jsonschema.Always(f) {
		return []string{name, "null"}
	}
	return name
}

// openapiDescribe adds the description of a field as a whole.
func openapiDescribe(s map[string]any, f reflect.StructField) {
	if doc := f.Tag.Get("doc"); doc != "" {
		s["description"] = doc
	}
	if f.Type == nil {
		return
	}
	openapiBound(s, f, "maxitems", "maxItems", f.Type.Kind() == reflect.Slice)
	openapiBound(s, f, "maxitems", "maxProperties", f.Type.Kind() == reflect.Map)
}

// words adds the bounds of a value of the scalar type t in the field f.
func words(s map[string]any, t reflect.Type, f reflect.StructField) {
	if enum := f.Tag.Get("enum"); enum != "" {
		s["enum"] = strings.Split(enum, ",")
	} else if words := wordsPublished(t); words != nil {
		s["enum"] = words
	}
	openapiBound(s, f, "min", "minimum", true)
	openapiBound(s, f, "max", "maximum", true)
	openapiBound(s, f, "minlen", "minLength", t.Kind() == reflect.String)
	openapiBound(s, f, "maxlen", "maxLength", t.Kind() == reflect.String)
}

// openapiBound writes a numeric tag under a keyword, where it applies.
func openapiBound(s map[string]any, f reflect.StructField, tag, key string, applies bool) {
	if n, err := strconv.Atoi(f.Tag.Get(tag)); err == nil && applies {
		s[key] = n
	}
}
