// This file reads JSON from a client strictly, by the tags of the type that it
// is decoded into. It is pure.
//
// What would not be done as it was meant is refused, with the name of the
// field: unknown fields and those in another case, fields that appear twice,
// null, values of other types or outside of their bounds, text that is no
// UTF-8, nesting without end, and anything behind the value.
//
// Tags: required:"true", enum:"a,b", min and max of numbers, minlen and maxlen
// in characters of texts and in bytes of base64, maxitems of lists and maps.

package jsonschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// maxDepth bounds how deep values may lie in each other.
const maxDepth = 64

// Decode reads data into what to points to. Nothing at all is an empty object.
// The error is [sandbox.CodeValidation].
func Decode(data []byte, to any) error {
	if !utf8.Valid(data) {
		return wrong("", "the body is no valid UTF-8")
	}
	if len(bytes.TrimSpace(data)) == 0 {
		data = []byte("{}")
	}
	r := reader{json.NewDecoder(bytes.NewReader(data)), HasHalf(data)}
	r.UseNumber()
	if err := r.value(reflect.TypeOf(to).Elem(), reflect.StructField{}, "", 0); err != nil {
		return err
	}
	if _, err := r.Token(); err != io.EOF {
		return wrong("", "something follows the value")
	}
	if r.half {
		return halved("")
	}
	if err := json.Unmarshal(data, to); err != nil {
		return unread(err)
	}
	return nil
}

// unread is the error about what has the form that its type wants and still
// could not be read: a number that is too large, a time that is none.
func unread(err error) error {
	var typed *json.UnmarshalTypeError
	if errors.As(err, &typed) {
		return wrong(typed.Field, "cannot be "+termsafe.Line(typed.Value))
	}
	return wrong("", "cannot be read: "+termsafe.Line(err.Error()))
}

func wrong(field, message string) error {
	return &sandbox.Error{Code: sandbox.CodeValidation, Op: "read request", Field: field, Message: message}
}

type reader struct {
	*json.Decoder
	half bool // an escape somewhere is half a character
}

// halved is the error about a text with half a character in it.
func halved(path string) error {
	return wrong(path, "has an escape that is half a character; characters beyond U+FFFF are written as both halves, or as they are")
}

// isHalved reports whether the text s, as the decoder has it, may be the one with
// half a character in it.
func (r reader) isHalved(s string) bool { return r.half && strings.ContainsRune(s, utf8.RuneError) }

// value reads the next value, which is to be a t in the field f.
func (r reader) value(t reflect.Type, f reflect.StructField, path string, depth int) error {
	if depth > maxDepth {
		return wrong(path, "lies too deep")
	}
	tok, err := r.Token()
	if err != nil {
		return malformed(path, err)
	}
	if s, ok := tok.(string); ok && r.isHalved(s) {
		return halved(path)
	}
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case tok == nil && t != nil && t.Kind() != reflect.Interface:
		return wrong(path, "is null; leave it out instead")
	case isFree(t):
		if err := r.free(tok, path, depth); err != nil {
			return err
		}
		return single(tok, t, path)
	case t.Kind() == reflect.Struct:
		return r.object(tok, t, path, depth)
	case t.Kind() == reflect.Map:
		return r.members(tok, f, path, func(name string) error {
			return r.value(t.Elem(), reflect.StructField{}, join(path, name), depth+1)
		})
	case t.Kind() == reflect.Slice:
		return r.list(tok, t, f, path, depth)
	}
	return scalarOf(tok, t, f, path)
}

// isFree reports whether values of t may have any form, or one that only t
// itself knows.
func isFree(t reflect.Type) bool {
	if t == nil || t.Kind() == reflect.Interface || t == reflect.TypeFor[json.RawMessage]() {
		return true
	}
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[textual]())
}

// single reports a value of a type with a form of its own, such as a time, that
// does not have that form. Objects and lists of such types are read in the end,
// when their place is not known any more.
func single(tok json.Token, t reflect.Type, path string) error {
	if _, composed := tok.(json.Delim); composed || t == nil || t.Kind() == reflect.Interface {
		if composed && t == reflect.TypeFor[time.Time]() {
			return wrong(path, "must be a time like 2026-11-21T06:12:15Z, not "+kindOf(tok))
		}
		return nil
	}
	data, err := json.Marshal(tok)
	if err != nil {
		return wrong(path, "cannot be read")
	}
	err = json.Unmarshal(data, reflect.New(t).Interface())
	switch {
	case err == nil:
		return nil
	case t == reflect.TypeFor[time.Time]():
		return wrong(path, "must be a time like 2026-11-21T06:12:15Z, not "+kindOf(tok))
	}
	return wrong(path, "cannot be read: "+termsafe.Line(err.Error()))
}

type textual interface{ UnmarshalText([]byte) error }

// free reads a value of any form.
func (r reader) free(tok json.Token, path string, depth int) error {
	switch tok {
	case json.Delim('{'):
		return r.members(tok, reflect.StructField{}, path, func(name string) error {
			return r.value(nil, reflect.StructField{}, join(path, name), depth+1)
		})
	case json.Delim('['):
		return r.list(tok, reflect.TypeFor[[]any](), reflect.StructField{}, path, depth)
	}
	return nil
}

// members calls f for each member of the object that tok begins.
func (r reader) members(tok json.Token, of reflect.StructField, path string, f func(name string) error) error {
	if tok != json.Delim('{') {
		return wrong(path, "must be an object, not "+kindOf(tok))
	}
	most, bounded := number(of, "maxitems")
	seen := map[string]bool{}
	for r.More() {
		key, err := r.Token()
		if err != nil {
			return malformed(path, err)
		}
		name := key.(string) // as the decoder has it
		if r.isHalved(name) {
			return halved(join(path, name))
		}
		if seen[name] {
			return wrong(join(path, name), "appears twice")
		}
		seen[name] = true
		if bounded && int64(len(seen)) > most {
			return wrong(path, fmt.Sprintf("has more than %d entries", most))
		}
		if err := f(name); err != nil {
			return err
		}
	}
	if _, err := r.Token(); err != nil {
		return malformed(path, err)
	}
	return nil
}

func (r reader) object(tok json.Token, t reflect.Type, path string, depth int) error {
	fields := map[string]reflect.StructField{}
	for _, f := range reflect.VisibleFields(t) {
		if name := nameOf(f); name != "" {
			fields[name] = f
		}
	}
	given := map[string]bool{}
	err := r.members(tok, reflect.StructField{}, path, func(name string) error {
		f, ok := fields[name]
		if !ok {
			return wrong(join(path, name), "is no field that there is")
		}
		given[name] = true
		return r.value(f.Type, f, join(path, name), depth+1)
	})
	if err != nil {
		return err
	}
	for _, f := range reflect.VisibleFields(t) {
		if name := nameOf(f); name != "" && f.Tag.Get("required") != "" && !given[name] {
			return wrong(join(path, name), "is missing")
		}
	}
	return nil
}

// nameOf is the name of a field in JSON, or empty where it has none.
func nameOf(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	if name == "-" || !f.IsExported() {
		return ""
	}
	return name
}

func (r reader) list(tok json.Token, t reflect.Type, f reflect.StructField, path string, depth int) error {
	if t.Elem().Kind() == reflect.Uint8 {
		return bytesOf(tok, f, path)
	}
	if tok != json.Delim('[') {
		return wrong(path, "must be a list, not "+kindOf(tok))
	}
	most, bounded := number(f, "maxitems")
	for n := int64(0); r.More(); n++ {
		if bounded && n >= most {
			return wrong(path, fmt.Sprintf("has more than %d entries", most))
		}
		if err := r.value(t.Elem(), f, fmt.Sprintf("%s[%d]", path, n), depth+1); err != nil {
			return err
		}
	}
	if _, err := r.Token(); err != nil {
		return malformed(path, err)
	}
	return nil
}

func malformed(path string, err error) error {
	return wrong(path, "the body is no JSON: "+termsafe.Line(err.Error()))
}

// join appends a name to the path of a field.
func join(path, name string) string {
	if len(name) > 64 {
		name = strings.ToValidUTF8(name[:64], "") + "…"
	}
	if name = termsafe.Line(name); path == "" {
		return name
	}
	return path + "." + name
}
