package jsonschema_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bulkhead-dev/sandbox/internal/jsonschema"
)

// thing is a schema of an object with one property, beside what more says.
func thing(property string, more ...string) string {
	return fmt.Sprintf(`{"$id": "urn:thing:v1", "x-version": "1.0.0", "type": "object", "additionalProperties": false, "properties": {"a": %s}%s}`,
		property, strings.Join(append([]string{""}, more...), ", "))
}

func TestCompare(t *testing.T) {
	const text = `{"type": "string"}`
	both := func(what string) [2]string { return [2]string{what, what} }
	for name, tt := range map[string]struct {
		old, now string
		want     [2]string // as input and as output; "! " is breaking
	}{
		"nothing":                  {thing(text), thing(text), both("")},
		"words for people":         {thing(text), thing(`{"type": "string", "description": "x", "deprecated": true, "examples": ["y"]}`, `"title": "t"`), both("")},
		"property came":            {thing(text), thing(text + `, "b": {}`), both("b: the property came")},
		"property removed":         {thing(text + `, "b": {}`), thing(text), both("! b: the property was removed")},
		"property removed below":   {thing(`{"properties": {"x": {}}}`), thing(`{"properties": {}}`), both("! a.x: the property was removed")},
		"property renamed":         {thing(text + `, "b": {}`), thing(text + `, "c": {}`), both("! b: the property was removed; c: the property came")},
		"type changed":             {thing(text), thing(`{"type": "integer"}`), [2]string{"a: type integer came; ! a: type string is taken no more", "! a: type integer came; ! a: type string is taken no more"}},
		"type narrowed":            {thing(`{"type": ["string", "null"]}`), thing(text), both("! a: type null is taken no more")},
		"type widened":             {thing(text), thing(`{"type": ["null", "string"]}`), [2]string{"a: type null came", "! a: type null came"}},
		"type said":                {thing(`{}`), thing(text), both("! a: type string is taken no more")},
		"type not said":            {thing(text), thing(`{}`), [2]string{"a: type any came", "! a: type any came"}},
		"type of items":            {thing(`{"items": {"type": "string"}}`), thing(`{"items": {"type": "integer"}}`), [2]string{"a[]: type integer came; ! a[]: type string is taken no more", "! a[]: type integer came; ! a[]: type string is taken no more"}},
		"word removed":             {thing(`{"enum": ["x", "y"]}`), thing(`{"enum": ["y"]}`), both(`! a: the word "x" was removed`)},
		"word came":                {thing(`{"enum": ["x"]}`), thing(`{"enum": ["y", "x"]}`), both(`a: the word "y" came`)},
		"words bound":              {thing(`{}`), thing(`{"enum": ["x"]}`), [2]string{"! a: only certain words remain", "a: only certain words remain"}},
		"words free":               {thing(`{"enum": ["x"]}`), thing(`{}`), both("a: any word came")},
		"required":                 {thing(text), thing(text, `"required": ["a"]`), both("! a: it is required now")},
		"required with it":         {thing(text), thing(text+`, "b": {}`, `"required": ["b"]`), both("! b: it is required now; b: the property came")},
		"required no more":         {thing(text, `"required": ["a"]`), thing(text), [2]string{"a: it is required no more", "! a: it is required no more"}},
		"minimum raised":           {thing(`{"minimum": 1}`), thing(`{"minimum": 2}`), [2]string{"! a: minimum is 2, and was 1", "a: minimum is 2, and was 1"}},
		"minimum lowered":          {thing(`{"minimum": 2}`), thing(`{"minimum": 1}`), both("a: minimum is 1, and was 2")},
		"minimum came":             {thing(`{}`), thing(`{"minimum": 1}`), [2]string{"! a: minimum is 1, and was not said", "a: minimum is 1, and was not said"}},
		"minimum went":             {thing(`{"minimum": 1}`), thing(`{}`), both("a: minimum is not said, and was 1")},
		"maximum lowered":          {thing(`{"maximum": 2}`), thing(`{"maximum": 1}`), [2]string{"! a: maximum is 1, and was 2", "a: maximum is 1, and was 2"}},
		"maximum raised":           {thing(`{"maximum": 1}`), thing(`{"maximum": 2}`), both("a: maximum is 2, and was 1")},
		"length lowered":           {thing(`{"maxLength": 9}`), thing(`{"maxLength": 8}`), [2]string{"! a: maxLength is 8, and was 9", "a: maxLength is 8, and was 9"}},
		"properties bound":         {thing(`{}`), thing(`{"maxProperties": 9}`), [2]string{"! a: maxProperties is 9, and was not said", "a: maxProperties is 9, and was not said"}},
		"pattern changed":          {thing(`{"pattern": "^a"}`), thing(`{"pattern": "^b"}`), [2]string{`! a: pattern is "^b", and was "^a"`, `a: pattern is "^b", and was "^a"`}},
		"pattern went":             {thing(`{"pattern": "^a"}`), thing(`{}`), both(`a: pattern is not said, and was "^a"`)},
		"format came":              {thing(`{}`), thing(`{"format": "date-time"}`), [2]string{`! a: format is "date-time", and was not said`, `a: format is "date-time", and was not said`}},
		"others refused":           {thing(`{"type": "object"}`), thing(`{"type": "object", "additionalProperties": false}`), [2]string{"! a: other properties are taken no more", "a: other properties are taken no more"}},
		"others bound":             {thing(`{"additionalProperties": true}`), thing(`{"additionalProperties": {"type": "string"}}`), [2]string{"! a: other properties are taken no more", "a: other properties are taken no more"}},
		"others taken":             {thing(`{"additionalProperties": false}`), thing(`{}`), both("a: other properties came")},
		"others changed":           {thing(`{"additionalProperties": {"type": "string"}}`), thing(`{"additionalProperties": {"type": "null"}}`), [2]string{"a.*: type null came; ! a.*: type string is taken no more", "! a.*: type null came; ! a.*: type string is taken no more"}},
		"a keyword nobody knows":   {thing(text), thing(`{"type": "string", "oneOf": []}`), both("! a: oneOf is [], and was not said")},
		"a keyword that went away": {thing(`{"type": "string", "const": "x"}`), thing(text), both(`! a: const is not said, and was "x"`)},
	} {
		old, err := jsonschema.Parse([]byte(tt.old))
		if err != nil {
			t.Fatal(err)
		}
		now, err := jsonschema.Parse([]byte(tt.now))
		if err != nil {
			t.Fatal(err)
		}
		for d, want := range tt.want {
			var got []string
			for _, c := range jsonschema.Compare(old, now, jsonschema.Direction(d)) {
				if c.Breaking {
					got = append(got, "! "+c.String())
				} else {
					got = append(got, c.String())
				}
			}
			if diff := cmp.Diff(want, strings.Join(got, "; ")); diff != "" {
				t.Errorf("%s, direction %d (-want +got):\n%s", name, d, diff)
			}
		}
	}
}

func TestCheck(t *testing.T) {
	base := thing(`{"type": "string"}`)
	at := func(s, version string) string {
		major, _, _ := strings.Cut(version, ".")
		return strings.NewReplacer("1.0.0", version, ":v1", ":v"+major).Replace(s)
	}
	more, broken := thing(`{"type": "string"}, "b": {}`), thing(`{"type": "integer"}`)
	for name, tt := range map[string]struct {
		base, now string
		wrong     string // in the error; empty is none
	}{
		"the same":                        {base, base, ""},
		"a patch":                         {base, at(base, "1.0.1"), ""},
		"a minor version without need":    {base, at(base, "1.1.0"), ""},
		"an addition in silence":          {base, more, "b: the property came"},
		"an addition as a patch":          {base, at(more, "1.0.9"), "takes a new minor version"},
		"an addition":                     {base, at(more, "1.1.0"), ""},
		"an addition in a major version":  {base, at(more, "2.0.0"), ""},
		"an addition to the same version": {at(base, "1.1.0"), at(more, "1.1.5"), "takes a new minor version"},
		"a break in silence":              {base, broken, "type string is taken no more"},
		"a break as a minor version":      {base, at(broken, "1.9.0"), "takes a new major version"},
		"a break":                         {base, at(broken, "2.0.0"), ""},
		"an older major version":          {at(base, "2.0.0"), base, "is before"},
		"an older minor version":          {at(base, "1.2.0"), at(base, "1.1.9"), "is before"},
		"an older patch":                  {at(base, "1.2.2"), at(base, "1.2.1"), "is before"},
		"no version":                      {base, strings.Replace(base, "1.0.0", "1.0", 1), "no version"},
		"half a version":                  {base, strings.Replace(base, "1.0.0", "1.0.x", 1), "no version"},
		"a version with zeros":            {base, strings.Replace(base, "1.0.0", "1.00.0", 1), "no version"},
		"an id of another version":        {base, strings.Replace(at(broken, "2.0.0"), ":v2", ":v1", 1), "does not end in :v2"},
		"another schema":                  {base, strings.Replace(base, "thing", "other", 1), "is not urn:thing"},
		"no JSON":                         {base, "{", "unexpected end"},
		"a base without JSON":             {"{", base, "base: "},
	} {
		err := jsonschema.Check([]byte(tt.base), []byte(tt.now), jsonschema.Input)
		if tt.wrong == "" && err != nil || tt.wrong != "" && (err == nil || !strings.Contains(err.Error(), tt.wrong)) {
			t.Errorf("%s: %v; want %q", name, err, tt.wrong)
		}
	}
}
