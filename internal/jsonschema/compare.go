package jsonschema

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// A Direction says which side writes the documents that a schema describes.
type Direction int

// The directions. What others write may be taken in more forms later and never
// in fewer. What we write is read by programs that know the schema of then,
// and what was written then is read with the schema of now, so there the forms
// stay, and only bounds and properties that may be missing come and go.
const (
	Input Direction = iota
	Output
)

// A Change is one difference between two schemas.
type Change struct {
	Path     string // of the value, such as "capabilities[].kind"; empty is all
	What     string
	Breaking bool
}

// String implements fmt.Stringer.
func (c Change) String() string {
	if c.Path == "" {
		return c.What
	}
	return c.Path + ": " + c.What
}

// Parse reads a schema for [Compare].
func Parse(data []byte) (map[string]any, error) {
	var root map[string]any
	if err := json.Unmarshal(data, &root); err != nil {
		return nil, err
	}
	return root, nil
}

// Compare returns what differs between two schemas as [Parse] reads them, in
// order of their paths; what is said for people is no difference. It knows the
// keywords that a [Generator] writes, and takes a change of any other one for
// breaking.
func Compare(old, now map[string]any, d Direction) []Change {
	c := comparer{direction: d}
	c.schema("", old, now)
	slices.SortFunc(c.changes, func(a, b Change) int {
		if a.Path != b.Path {
			return strings.Compare(a.Path, b.Path)
		}
		return strings.Compare(a.What, b.What)
	})
	return c.changes
}

type comparer struct {
	direction Direction
	changes   []Change
}

func (c *comparer) add(path string, breaking bool, format string, args ...any) {
	c.changes = append(c.changes, Change{Path: path, What: fmt.Sprintf(format, args...), Breaking: breaking})
}

// schema compares what is said about the value at path.
func (c *comparer) schema(path string, old, now map[string]any) {
	keys := maps.Clone(old)
	maps.Copy(keys, now)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		a, b := old[key], now[key]
		if reflect.DeepEqual(a, b) {
			continue
		}
		switch key {
		case "description", "title", "examples", "deprecated", "$comment", "$schema", "$id", VersionKey:
		case "type":
			c.types(path, words(a), words(b))
		case "enum":
			c.enum(path, a, b)
		case "properties":
			c.properties(path, object(a), object(b))
		case "required":
			c.required(path, words(a), words(b), object(old["properties"]))
		case "additionalProperties":
			c.others(path, a, b)
		case "items":
			c.schema(path+"[]", object(a), object(b))
		case "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "maxProperties", "pattern", "format":
			c.bound(path, key, a, b)
		default:
			c.add(path, true, "%s is %s, and was %s", key, shown(b), shown(a))
		}
	}
}

// types compares the types that a value may have; no type is any.
func (c *comparer) types(path string, old, now []string) {
	less, more := missing(old, now), missing(now, old)
	if len(old) == 0 {
		less, more = now, nil // any was one more
	} else if len(now) == 0 {
		less, more = nil, []string{"any"}
	}
	for _, t := range less {
		c.add(path, true, "type %s is taken no more", t)
	}
	for _, t := range more {
		c.add(path, c.direction == Output, "type %s came", t)
	}
}

// enum compares lists of words; none is any.
func (c *comparer) enum(path string, old, now any) {
	switch {
	case old == nil:
		c.add(path, c.direction == Input, "only certain words remain")
	case now == nil:
		c.add(path, false, "any word came")
	default:
		for _, w := range missing(words(old), words(now)) {
			c.add(path, true, "the word %q was removed", w)
		}
		for _, w := range missing(words(now), words(old)) {
			c.add(path, false, "the word %q came", w)
		}
	}
}

func (c *comparer) properties(path string, old, now map[string]any) {
	for name, a := range old {
		if b, ok := now[name]; ok {
			c.schema(below(path, name), object(a), object(b))
		} else {
			c.add(below(path, name), true, "the property was removed")
		}
	}
	for name := range now {
		if _, ok := old[name]; !ok {
			c.add(below(path, name), false, "the property came")
		}
	}
}

func (c *comparer) required(path string, old, now []string, were map[string]any) {
	for _, name := range missing(now, old) {
		c.add(below(path, name), true, "it is required now")
	}
	for _, name := range missing(old, now) {
		if _, ok := were[name]; ok {
			c.add(below(path, name), c.direction == Output, "it is required no more")
		}
	}
}

// others compares what is said of properties without a name: nothing and true
// let all be, false none, a schema some.
func (c *comparer) others(path string, old, now any) {
	a, some := old.(map[string]any)
	b, still := now.(map[string]any)
	switch {
	case some && still:
		c.schema(below(path, "*"), a, b)
	case now == false, old != false && still:
		c.add(path, c.direction == Input, "other properties are taken no more")
	case old == false || some:
		c.add(path, false, "other properties came")
	}
}

// bound compares one bound of a value.
func (c *comparer) bound(path, key string, old, now any) {
	narrow := now != nil // patterns are not understood, so another one may be narrower
	a, isNumber := old.(float64)
	if b, ok := now.(float64); ok && isNumber {
		narrow = b > a
		if key[:3] == "max" {
			narrow = b < a
		}
	}
	c.add(path, narrow && c.direction == Input, "%s is %s, and was %s", key, shown(now), shown(old))
}

// words are the strings of a list, or the one that v is.
func words(v any) (out []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, w := range v {
			out = append(out, fmt.Sprint(w))
		}
	}
	return out
}

// missing is what a has and b has not.
func missing(a, b []string) (out []string) {
	for _, s := range a {
		if !slices.Contains(b, s) {
			out = append(out, s)
		}
	}
	return out
}

func object(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

func below(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func shown(v any) string {
	if v == nil {
		return "not said"
	}
	if s, ok := v.(string); ok {
		return strconv.Quote(s)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}
