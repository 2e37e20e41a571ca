// This file reads JSON from a client strictly, by the tags of the type that it
// is decoded into: bodies of requests, and inputs of tools. It is pure.
//
// What would not be done as it was meant is refused, with the name of the
// field: unknown fields and those in another case, fields that appear twice,
// null, values of other types or outside of their bounds, text that is no
// UTF-8, nesting without end, and anything behind the value.
//
// Tags: required:"true", enum:"a,b", min and max of numbers, minlen and maxlen
// in characters of texts and in bytes of base64, maxitems of lists and maps,
// and for inputs of tools default of texts and whole numbers.

package jsonschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
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
func Decode(data []byte, to any) error { return decode(data, to, nil) }

// A Meaning returns what a text in the field f means, or why it means nothing.
type Meaning func(text string, f reflect.StructField) (string, error)

// DecodeInput is [Decode] for what models write. It sets what is left out to the
// tag default, and takes what is written for lack of types, as far as that has
// one meaning: null is a field that is left out, and a body that is null an
// empty object; a text that is a JSON number is that number where a whole
// number is wanted, and so is a number like 5.0; "true" and "false" are those
// where one of them is. Texts are replaced by their meaning.
func DecodeInput(data []byte, to any, meaning Meaning) error {
	if string(bytes.TrimSpace(data)) == "null" {
		data = nil
	}
	return decode(data, to, &input{meaning: meaning})
}

func decode(data []byte, to any, in *input) error {
	if !utf8.Valid(data) {
		return wrong("", "the body is no valid UTF-8", "")
	}
	if len(bytes.TrimSpace(data)) == 0 {
		data = []byte("{}")
	}
	r := reader{json.NewDecoder(bytes.NewReader(data)), HasHalf(data), in}
	r.UseNumber()
	err := r.value(reflect.TypeOf(to).Elem(), reflect.StructField{}, "", 0)
	if err == errLeftOut {
		return wrong("", "must be an object, not null", "")
	}
	if err != nil {
		return err
	}
	if _, err := r.Token(); err != io.EOF {
		return wrong("", "something follows the value", "")
	}
	if r.half && in == nil {
		return halved("")
	}
	if in != nil {
		data = in.out.Bytes()
	}
	if err := json.Unmarshal(data, to); err != nil {
		return unread(err)
	}
	return nil
}

// An input is what is read for [DecodeInput]. It is written anew with what its
// parts mean. A nil input is that of [Decode], of which nothing is written.
type input struct {
	out     bytes.Buffer
	meaning Meaning
}

// write adds JSON to what is read in the end.
func (i *input) write(text string) {
	if i != nil {
		i.out.WriteString(text)
	}
}

// add writes a scalar, which always has a form in JSON.
func (i *input) add(v any) {
	if i != nil {
		data, _ := json.Marshal(v)
		i.out.Write(data)
	}
}

// begin writes the name of a member, and returns where it stands.
func (i *input) begin(name string) int {
	if i == nil {
		return 0
	}
	at := i.out.Len()
	if last := i.out.Bytes()[at-1]; last != '{' {
		i.write(",")
	}
	i.add(name)
	i.write(":")
	return at
}

// defaults adds the fields that were not given and have a default to the
// object that was written last.
func (i *input) defaults(fields map[string]reflect.StructField, given map[string]bool) {
	if i == nil {
		return
	}
	i.out.Truncate(i.out.Len() - 1)
	for name, f := range fields {
		value := f.Tag.Get("default")
		if value == "" || given[name] {
			continue
		}
		n, err := strconv.ParseInt(value, 10, 64)
		switch {
		case f.Type.Kind() == reflect.String:
			i.begin(name)
			i.add(value)
		case f.Type.Kind() == reflect.Int && err == nil:
			i.begin(name)
			i.add(n)
		}
	}
	i.write("}")
}

// errLeftOut says that a member is as if it were not there.
var errLeftOut = errors.New("left out")

// unread is the error about what has the form that its type wants and still
// could not be read: a number that is too large, a time that is none.
func unread(err error) error {
	var typed *json.UnmarshalTypeError
	if errors.As(err, &typed) {
		return wrong(typed.Field, "cannot be "+termsafe.Line(typed.Value), "")
	}
	return wrong("", "cannot be read: "+termsafe.Line(err.Error()), "")
}

func wrong(field, message, hint string) error {
	return &sandbox.Error{Code: sandbox.CodeValidation, Op: "read request", Field: field, Message: message, Hint: hint}
}

type reader struct {
	*json.Decoder
	half bool   // an escape somewhere is half a character
	in   *input // of a tool, or nil
}

// halved is the error about a text with half a character in it.
func halved(path string) error {
	return wrong(path, "has an escape that is half a character", "write characters beyond U+FFFF as both halves, or as they are")
}

// isHalved reports whether the text s, as the decoder has it, may be the one with
// half a character in it.
func (r reader) isHalved(s string) bool { return r.half && strings.ContainsRune(s, utf8.RuneError) }

// value reads the next value, which is to be a t in the field f.
func (r reader) value(t reflect.Type, f reflect.StructField, path string, depth int) error {
	if depth > maxDepth {
		return wrong(path, "lies too deep", "")
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
	case tok == nil && r.in != nil:
		return errLeftOut
	case tok == nil && t != nil && t.Kind() != reflect.Interface:
		return wrong(path, "is null", "leave it out instead")
	case isFree(t):
		if _, composed := tok.(json.Delim); composed && r.in != nil {
			return wrong(path, "cannot be given", "") // no input has such a field
		}
		r.in.add(tok)
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
	return r.scalar(tok, t, f, path)
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
			return wrong(path, "must be a time like 2026-11-21T06:12:15Z, not "+kindOf(tok), "")
		}
		return nil
	}
	data, err := json.Marshal(tok)
	if err != nil {
		return wrong(path, "cannot be read", "")
	}
	err = json.Unmarshal(data, reflect.New(t).Interface())
	switch {
	case err == nil:
		return nil
	case t == reflect.TypeFor[time.Time]():
		return wrong(path, "must be a time like 2026-11-21T06:12:15Z, not "+kindOf(tok), "")
	}
	return wrong(path, "cannot be read: "+termsafe.Line(err.Error()), "")
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
		return wrong(path, "must be an object, not "+kindOf(tok), "")
	}
	most, bounded := number(of, "maxitems")
	seen := map[string]bool{}
	r.in.write("{")
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
			return wrong(join(path, name), "the field appears twice", "keep one of them")
		}
		seen[name] = true
		if bounded && int64(len(seen)) > most {
			return wrong(path, fmt.Sprintf("has more than %d entries", most), "")
		}
		begun := r.in.begin(name)
		if err := f(name); err == errLeftOut {
			r.in.out.Truncate(begun)
		} else if err != nil {
			return err
		}
	}
	if _, err := r.Token(); err != nil {
		return malformed(path, err)
	}
	r.in.write("}")
	return nil
}

func (r reader) object(tok json.Token, t reflect.Type, path string, depth int) error {
	fields, names := map[string]reflect.StructField{}, []string{}
	for _, f := range reflect.VisibleFields(t) {
		if name := Name(f); name != "" {
			fields[name], names = f, append(names, name)
		}
	}
	given := map[string]bool{}
	err := r.members(tok, reflect.StructField{}, path, func(name string) error {
		f, ok := fields[name]
		if !ok {
			return wrong(join(path, name), "unknown field", "there are "+strings.Join(names, ", "))
		}
		err := r.value(f.Type, f, join(path, name), depth+1)
		given[name] = given[name] || err == nil
		return err
	})
	if err != nil {
		return err
	}
	for _, name := range names {
		if !given[name] && fields[name].Tag.Get("required") != "" {
			return wrong(join(path, name), "is missing", "")
		}
	}
	r.in.defaults(fields, given)
	return nil
}

func (r reader) list(tok json.Token, t reflect.Type, f reflect.StructField, path string, depth int) error {
	if t.Elem().Kind() == reflect.Uint8 {
		r.in.add(tok)
		return bytesOf(tok, f, path)
	}
	if tok != json.Delim('[') {
		return wrong(path, "must be a list, not "+kindOf(tok), "put it in [ ]")
	}
	r.in.write("[")
	most, bounded := number(f, "maxitems")
	for n := int64(0); r.More(); n++ {
		if bounded && n >= most {
			return wrong(path, fmt.Sprintf("has more than %d entries", most), "")
		}
		if n > 0 {
			r.in.write(",")
		}
		at := fmt.Sprintf("%s[%d]", path, n)
		if err := r.value(t.Elem(), f, at, depth+1); err == errLeftOut {
			return wrong(at, "is null", "leave it out instead")
		} else if err != nil {
			return err
		}
	}
	if _, err := r.Token(); err != nil {
		return malformed(path, err)
	}
	r.in.write("]")
	return nil
}

func malformed(path string, err error) error {
	return wrong(path, "the body is no JSON: "+termsafe.Line(err.Error()), "")
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
