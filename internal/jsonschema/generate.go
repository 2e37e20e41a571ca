// Package jsonschema makes JSON Schemas of Go types, checks whether a changed
// schema is still compatible, and reads JSON strictly. It is pure.
//
// Types are the one source of the names and bounds that are published, so a
// schema cannot fall behind what the program does; and because they are, a
// field that is renamed in passing would break its clients. [Check] compares
// every change with the version that goes with it.
package jsonschema

import (
	"reflect"
	"slices"
	"strings"
	"time"
)

// A Generator makes schemas (draft 2020-12) of types as encoding/json writes
// them. Fields may be nil.
type Generator struct {
	// Describe adds what is said about a field as a whole.
	Describe func(s map[string]any, f reflect.StructField)
	// Special makes the schema of a type that is written in a form of its own,
	// of a field f or of nothing, and reports whether t is one.
	Special func(s map[string]any, t reflect.Type, f reflect.StructField) bool
	// Words adds what bounds a value of the scalar type t, in the field f, in
	// a list of that field, or in nothing.
	Words func(s map[string]any, t reflect.Type, f reflect.StructField)
	// Required reports whether the field f of the struct t has to be there.
	Required func(t reflect.Type, f reflect.StructField) bool

	Open bool // objects may have properties that are not named here
	Null bool // lists and maps that are always written may be null
}

// Of returns the schema of values of type t.
func (g Generator) Of(t reflect.Type) map[string]any { return g.of(t, reflect.StructField{}) }

func (g Generator) of(t reflect.Type, f reflect.StructField) map[string]any {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	s := map[string]any{}
	if g.Describe != nil {
		g.Describe(s, f)
	}
	if g.Special != nil && g.Special(s, t, f) {
		return s
	}
	switch {
	case t == reflect.TypeFor[time.Time]():
		s["type"], s["format"] = "string", "date-time"
	case t.Kind() == reflect.Struct:
		g.object(s, t)
	case t.Kind() == reflect.Slice:
		s["type"], s["items"] = g.orNull("array", f), g.items(t.Elem(), f)
	case t.Kind() == reflect.Map:
		s["type"] = g.orNull("object", f)
		if t.Elem().Kind() != reflect.Interface {
			s["additionalProperties"] = g.of(t.Elem(), reflect.StructField{})
		}
	default:
		s["type"] = scalar(t)
		g.words(s, t, f)
	}
	return s
}

// object adds the properties of the struct t.
func (g Generator) object(s map[string]any, t reflect.Type) {
	properties, required := map[string]any{}, []string{}
	g.fields(t, properties, &required)
	s["type"], s["properties"] = "object", properties
	if !g.Open {
		s["additionalProperties"] = false
	}
	if len(required) > 0 {
		slices.Sort(required)
		s["required"] = required
	}
}

// fields adds the fields of the struct t, and those of structs embedded in it
// without a name, which are written as if they were its own.
func (g Generator) fields(t reflect.Type, properties map[string]any, required *[]string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name := Name(f)
		if f.Anonymous && name == "" && f.Tag.Get("json") == "" && f.Type.Kind() == reflect.Struct {
			g.fields(f.Type, properties, required)
			continue
		}
		if name == "" {
			continue
		}
		properties[name] = g.of(f.Type, f)
		if g.Required != nil && g.Required(t, f) {
			*required = append(*required, name)
		}
	}
}

// items is the schema of what is in a list, to which the tags of the list's
// field apply.
func (g Generator) items(t reflect.Type, f reflect.StructField) map[string]any {
	s := g.of(t, reflect.StructField{})
	if t.Kind() != reflect.Struct {
		g.words(s, t, f)
	}
	return s
}

func (g Generator) words(s map[string]any, t reflect.Type, f reflect.StructField) {
	if g.Words != nil {
		g.Words(s, t, f)
	}
}

// orNull is the type of a list or map in the field f.
func (g Generator) orNull(name string, f reflect.StructField) any {
	if g.Null && f.Name != "" && Always(f) {
		return []string{name, "null"}
	}
	return name
}

// Name is the name of a field in JSON, or empty where it has none.
func Name(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	if name == "-" || !f.IsExported() {
		return ""
	}
	return name
}

// Always reports whether a field is written whatever its value.
func Always(f reflect.StructField) bool {
	_, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	for o := range strings.SplitSeq(options, ",") {
		if o == "omitempty" || o == "omitzero" {
			return false
		}
	}
	return true
}

func scalar(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Int64:
		return "integer"
	case reflect.Float64:
		return "number"
	}
	return "string"
}
