package config

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
)

// SchemaID names the version of the settings that [Schema] describes. A change
// that makes a valid file invalid raises the number at its end.
const SchemaID = "urn:bulkhead:sandbox:settings:v1"

// Schema returns the JSON Schema (draft 2020-12) of a settings file, indented.
// It is made from the types of this package, so it knows the same keys, words
// and bounds as [Parse]. What Parse checks beyond it, such as the sources of
// binds, is said in descriptions.
func Schema() []byte {
	root := schemaOf(reflect.TypeFor[Settings](), reflect.StructField{})
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["$id"] = SchemaID
	root["title"] = "Settings of sandbox"
	b, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic(err) // maps of strings and numbers always marshal
	}
	return append(b, '\n')
}

// schemaOf returns the schema of a value of type t with the tags of f.
func schemaOf(t reflect.Type, f reflect.StructField) map[string]any {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	s := map[string]any{}
	if doc := f.Tag.Get("doc"); doc != "" {
		s["description"] = doc
	}
	if f.Tag.Get("alias") != "" {
		s["deprecated"] = true
	}
	switch {
	case t == sizeType:
		s["type"], s["pattern"] = []string{"integer", "string"}, `^[0-9]+([kKmMgGtT]([iI]?[bB])?|[bB])?$`
		bounds(s, f)
	case t == volumeType:
		s["type"], s["pattern"] = []string{"integer", "string"}, `^(-1|[0-9]+([kKmMgGtT]([iI]?[bB])?|[bB])?)$`
		bounds(s, f)
	case t == durationType:
		s["type"], s["pattern"] = []string{"integer", "string"}, `^(0|([0-9]+d)?(([0-9]*\.)?[0-9]+(ns|us|µs|μs|ms|s|m|h))*)$`
		s["minimum"], s["maximum"] = 0, 0
	case t == ulimitType:
		s["type"], s["pattern"] = []string{"integer", "string", "object"}, `^-?[0-9]+(:-?[0-9]+)?$`
		s["properties"] = map[string]any{"soft": map[string]any{"type": "integer"}, "hard": map[string]any{"type": "integer"}}
		s["additionalProperties"] = false
	case t.Kind() == reflect.Struct:
		object(s, t)
	case t.Kind() == reflect.Slice:
		s["type"], s["items"] = "array", items(t.Elem(), f)
	case t.Kind() == reflect.Map:
		s["type"] = "object"
		if t.Elem().Kind() != reflect.Interface {
			s["additionalProperties"] = schemaOf(t.Elem(), reflect.StructField{})
		}
	default:
		s["type"] = jsonType(t)
		words(s, f)
		bounds(s, f)
	}
	return s
}

// object adds the properties of the struct t.
func object(s map[string]any, t reflect.Type) {
	properties, required := map[string]any{}, []string{}
	for i := range t.NumField() {
		name := jsonName(t.Field(i))
		if name == "" {
			continue
		}
		properties[name] = schemaOf(t.Field(i).Type, t.Field(i))
		if t.Field(i).Tag.Get("required") != "" {
			required = append(required, name)
		}
	}
	s["type"], s["properties"], s["additionalProperties"] = "object", properties, false
	if len(required) > 0 {
		s["required"] = required
	}
}

// items is the schema of the items of a list, to which the word tags of the
// list's field apply.
func items(t reflect.Type, f reflect.StructField) map[string]any {
	s := schemaOf(t, reflect.StructField{})
	words(s, f)
	return s
}

func words(s map[string]any, f reflect.StructField) {
	if enum := f.Tag.Get("enum"); enum != "" {
		s["enum"] = strings.Split(enum, ",")
	}
	if form, ok := formOf(f.Tag.Get("form")); ok {
		s["pattern"] = form.pattern
	}
}

func bounds(s map[string]any, f reflect.StructField) {
	for tag, key := range map[string]string{"min": "minimum", "max": "maximum"} {
		if n, err := strconv.ParseFloat(f.Tag.Get(tag), 64); err == nil {
			s[key] = n
		}
	}
}

func jsonType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "boolean"
	case reflect.Int64:
		return "integer"
	case reflect.Float64:
		return "number"
	}
	return "string"
}
