package config

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"

	"github.com/bulkhead-dev/sandbox/internal/jsonschema"
)

// SchemaID names the version of the settings that [Schema] describes. A change
// that makes a valid file invalid raises the number at its end.
const SchemaID = "urn:bulkhead:sandbox:settings:v1"

// SchemaVersion is the version of the settings, by SemVer: a change that makes
// a valid file invalid raises the first number, one that takes more the second.
const SchemaVersion = "1.3.0"

// Schema returns the JSON Schema (draft 2020-12) of a settings file, indented.
// It is made from the types of this package, so it knows the same keys, words
// and bounds as [Parse]. What Parse checks beyond it, such as the sources of
// binds, is said in descriptions.
func Schema() []byte { return SchemaWith() }

// SchemaWith is [Schema] of a program that has the providers called names beside
// the built-in ones.
func SchemaWith(names ...string) []byte {
	g := jsonschema.Generator{
		Describe: describe, Special: special,
		Words:    func(s map[string]any, _ reflect.Type, f reflect.StructField) { words(s, f, names); bounds(s, f) },
		Required: func(_ reflect.Type, f reflect.StructField) bool { return f.Tag.Get("required") != "" },
	}
	root := g.Of(reflect.TypeFor[Settings]())
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["$id"] = SchemaID
	root["title"] = "Settings of sandbox"
	root[jsonschema.VersionKey] = SchemaVersion
	b, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic(err) // maps of strings and numbers always marshal
	}
	return append(b, '\n')
}

func describe(s map[string]any, f reflect.StructField) {
	if doc := f.Tag.Get("doc"); doc != "" {
		s["description"] = doc
	}
	if f.Tag.Get("alias") != "" {
		s["deprecated"] = true
	}
}

// special makes the schemas of the types that can be written in several ways.
func special(s map[string]any, t reflect.Type, f reflect.StructField) bool {
	switch t {
	case sizeType:
		s["type"], s["pattern"] = []string{"integer", "string"}, `^[0-9]+([kKmMgGtT]([iI]?[bB])?|[bB])?$`
		bounds(s, f)
	case volumeType:
		s["type"], s["pattern"] = []string{"integer", "string"}, `^(-1|[0-9]+([kKmMgGtT]([iI]?[bB])?|[bB])?)$`
		bounds(s, f)
	case durationType:
		s["type"], s["pattern"] = []string{"integer", "string"}, `^(0|([0-9]+d)?(([0-9]*\.)?[0-9]+(ns|us|µs|μs|ms|s|m|h))*)$`
		s["minimum"], s["maximum"] = 0, 0
	case ulimitType:
		s["type"], s["pattern"] = []string{"integer", "string", "object"}, `^-?[0-9]+(:-?[0-9]+)?$`
		s["properties"] = map[string]any{"soft": map[string]any{"type": "integer"}, "hard": map[string]any{"type": "integer"}}
		s["additionalProperties"] = false
	default:
		return false
	}
	return true
}

func words(s map[string]any, f reflect.StructField, providers []string) {
	if enum := f.Tag.Get("enum"); enum != "" {
		list := strings.Split(enum, ",")
		if f.Tag.Get("more") == "providers" {
			list = append(list, providers...)
		}
		s["enum"] = list
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
