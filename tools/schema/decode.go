package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/internal/jsonschema"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// MaxInput is the most, in bytes, that a tool is called with.
const MaxInput = 32 << 20

// Decode reads the input of a tool, with the defaults of what is left out, into
// T, which is the type of that tool's input. Nothing at all is an empty object.
//
// It is strict: unknown fields, fields that appear twice, other types, values
// outside of their bounds, text that is no UTF-8 and anything after the object
// are [sandbox.CodeValidation] with the name of the field, because what was meant
// by them would not be done. It takes what clients write for lack of types, as
// far as that has one meaning: null is a field that is left out, and an input
// that is null an empty one; a text that is a JSON number is that number where a
// number is wanted, and "true" and "false" are those where one of them is; a
// path may be a URL that names a file of the sandbox, see [mountpath.FromURL].
func Decode[T any](tool string, data []byte) (T, error) {
	var to T
	if err := judged(tool, data, reflect.ValueOf(&to)); err != nil {
		var none T
		return none, err
	}
	return to, nil
}

// Validate returns the error that [Decode] has for an input of the tool.
func (t Tool) Validate(data []byte) error { return judged(t.Name, data, reflect.New(t.input)) }

// judged reads data into what to points to, and holds it against the rules
// between its fields.
func judged(tool string, data []byte, to reflect.Value) error {
	err := decode(data, to.Elem())
	if c, ok := to.Interface().(interface{ Check() error }); ok && err == nil {
		err = c.Check()
	}
	var e *sandbox.Error
	if errors.As(err, &e) {
		e.Op = tool
	}
	return err
}

func decode(data []byte, to reflect.Value) error {
	switch {
	case len(data) > MaxInput:
		return wrong("", fmt.Sprintf("the input has %d bytes, and at most %d are taken", len(data), MaxInput), "")
	case !utf8.Valid(data):
		return wrong("", "the input is no valid UTF-8", "")
	}
	if b := bytes.TrimSpace(data); len(b) == 0 || string(b) == "null" {
		data = []byte("{}")
	}
	d := decoder{json.NewDecoder(bytes.NewReader(data)), jsonschema.HasHalf(data)}
	d.UseNumber()
	if err := d.value(to, reflect.StructField{}, ""); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return wrong("", "something follows the input", "")
	}
	return nil
}

// wrong is an error about a field.
func wrong(field, message, hint string) error {
	return &sandbox.Error{Code: sandbox.CodeValidation, Field: field, Message: message, Hint: hint}
}

type decoder struct {
	*json.Decoder
	half bool // an escape somewhere is half a character
}

// whole returns an error where the text s, as the decoder has it, may be the one
// with half a character in it.
func (d decoder) whole(s, path string) error {
	if !d.half || !strings.ContainsRune(s, utf8.RuneError) {
		return nil
	}
	return wrong(path, "has an escape that is half a character", "write characters beyond U+FFFF as both halves, or as they are")
}

// value reads the next value into to, by the tags of f.
func (d decoder) value(to reflect.Value, f reflect.StructField, path string) error {
	tok, err := d.Token()
	if err != nil {
		return malformed(path, err)
	}
	return d.read(tok, to, f, path)
}

// read reads the value that tok is or begins.
func (d decoder) read(tok json.Token, to reflect.Value, f reflect.StructField, path string) error {
	if s, ok := tok.(string); ok {
		if err := d.whole(s, path); err != nil {
			return err
		}
	}
	switch to.Kind() {
	case reflect.Struct:
		return d.object(tok, to, path)
	case reflect.Map:
		return d.mapping(tok, to, f, path)
	case reflect.Slice:
		return d.list(tok, to, f, path)
	}
	return scalar(tok, to, f, path)
}

func malformed(path string, err error) error {
	return wrong(path, "the input is no JSON: "+termsafe.Line(err.Error()), "")
}

// members calls f for each member of the object that tok begins.
func (d decoder) members(tok json.Token, path string, f func(name string) error) error {
	if tok != json.Delim('{') {
		return wrong(path, "must be an object, not "+kindOf(tok), "")
	}
	seen := map[string]bool{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return malformed(path, err)
		}
		name := key.(string) // as the decoder has it
		if err := d.whole(name, join(path, name)); err != nil {
			return err
		}
		if seen[name] {
			return wrong(join(path, name), "the field appears twice", "keep one of them")
		}
		seen[name] = true
		if err := f(name); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return malformed(path, err)
	}
	return nil
}

func (d decoder) object(tok json.Token, to reflect.Value, path string) error {
	t := to.Type()
	fields, names := map[string]int{}, []string{}
	for i := range t.NumField() {
		name := jsonschema.Name(t.Field(i))
		fields[name], names = i, append(names, name)
		setDefault(to.Field(i), t.Field(i))
	}
	given := map[string]bool{}
	err := d.members(tok, path, func(name string) error {
		i, ok := fields[name]
		if !ok {
			return wrong(join(path, name), "unknown field", "there are "+strings.Join(names, ", "))
		}
		tok, err := d.Token()
		if err != nil {
			return malformed(join(path, name), err)
		}
		if tok == nil {
			return nil // as if it were left out
		}
		given[name] = true
		return d.read(tok, to.Field(i), t.Field(i), join(path, name))
	})
	if err != nil {
		return err
	}
	for _, name := range names {
		if !given[name] && t.Field(fields[name]).Tag.Get("required") != "" {
			return wrong(join(path, name), "is missing", "")
		}
	}
	return nil
}

func setDefault(to reflect.Value, f reflect.StructField) {
	value := f.Tag.Get("default")
	switch n, err := strconv.ParseInt(value, 10, 64); {
	case value == "":
	case to.Kind() == reflect.Int && err == nil:
		to.SetInt(n)
	case to.Kind() == reflect.String:
		to.SetString(value)
	}
}

// most is the number of a tag, and whether there is one.
func most(f reflect.StructField, tag string) (int64, bool) {
	n, err := strconv.ParseInt(f.Tag.Get(tag), 10, 64)
	return n, err == nil
}

func (d decoder) mapping(tok json.Token, to reflect.Value, f reflect.StructField, path string) error {
	to.Set(reflect.MakeMap(to.Type()))
	return d.members(tok, path, func(name string) error {
		if n, ok := most(f, "maxitems"); ok && int64(to.Len()) >= n {
			return wrong(path, fmt.Sprintf("has more than %d entries", n), "")
		}
		tok, err := d.Token()
		if err != nil {
			return malformed(join(path, name), err)
		}
		if tok == nil {
			return nil // as if it were left out
		}
		e := reflect.New(to.Type().Elem()).Elem()
		if err := d.read(tok, e, f, join(path, name)); err != nil {
			return err
		}
		to.SetMapIndex(reflect.ValueOf(name), e)
		return nil
	})
}

func (d decoder) list(tok json.Token, to reflect.Value, f reflect.StructField, path string) error {
	if tok != json.Delim('[') {
		return wrong(path, "must be a list, not "+kindOf(tok), "put it in [ ]")
	}
	for d.More() {
		if n, ok := most(f, "maxitems"); ok && int64(to.Len()) >= n {
			return wrong(path, fmt.Sprintf("has more than %d entries", n), "")
		}
		e := reflect.New(to.Type().Elem()).Elem()
		if err := d.value(e, f, fmt.Sprintf("%s[%d]", path, to.Len())); err != nil {
			return err
		}
		to.Set(reflect.Append(to, e))
	}
	if _, err := d.Token(); err != nil {
		return malformed(path, err)
	}
	return nil
}

func scalar(tok json.Token, to reflect.Value, f reflect.StructField, path string) error {
	switch to.Kind() {
	case reflect.Bool:
		b, ok := truth(tok)
		if !ok {
			return wrong(path, "must be true or false, not "+kindOf(tok), "")
		}
		to.SetBool(b)
	case reflect.String:
		s, ok := tok.(string)
		if !ok {
			return wrong(path, "must be a text, not "+kindOf(tok), "put it in quotes")
		}
		s, err := plainPath(s, f, path)
		if err != nil {
			return err
		}
		to.SetString(s)
		return text(s, f, path)
	case reflect.Int:
		n, ok := whole(tok)
		if !ok {
			return wrong(path, "must be a whole number, not "+kindOf(tok), "")
		}
		least, bounded := most(f, "min")
		greatest, above := most(f, "max")
		if bounded && n < least || above && n > greatest {
			return wrong(path, fmt.Sprintf("must be from %d to %d, not %d", least, greatest, n), "")
		}
		to.SetInt(n)
	default:
		return wrong(path, "cannot be given", "") // no input has such a field, which a test holds
	}
	return nil
}

// truth reads true or false, also as a text.
func truth(tok json.Token) (value, ok bool) {
	switch v := tok.(type) {
	case bool:
		return v, true
	case string:
		yes := strings.EqualFold(v, "true")
		return yes, yes || strings.EqualFold(v, "false")
	}
	return false, false
}

// plainPath returns s as the path that it means, where the tag names of f says
// that it is the name of a file, a pattern, or the address of a page.
func plainPath(s string, f reflect.StructField, path string) (string, error) {
	named := fsbridge.FromURL
	switch f.Tag.Get("names") {
	case "file":
	case "pattern":
		named = fsbridge.PatternFromURL
	case "page":
		if scheme, _, _ := strings.Cut(strings.ToLower(s), ":"); scheme != "file" && scheme != "sandbox" {
			return s, nil
		}
	default:
		return s, nil
	}
	out, err := named(s)
	var e *sandbox.Error
	if errors.As(err, &e) {
		e.Field = path
	}
	if err == nil && !utf8.ValidString(out) {
		err = wrong(path, "the escapes of the URL are no valid UTF-8", "use a command for a file with such a name")
	}
	return out, err
}

// text holds a text against its bounds, which count characters as JSON Schema
// does.
func text(s string, f reflect.StructField, path string) error {
	if enum := f.Tag.Get("enum"); enum != "" && !slices.Contains(strings.Split(enum, ","), s) {
		return wrong(path, "must be one of "+strings.ReplaceAll(enum, ",", ", ")+", not "+kindOf(s), "")
	}
	if n, ok := most(f, "maxlen"); ok && int64(len(s)) > n && int64(utf8.RuneCountInString(s)) > n {
		return wrong(path, fmt.Sprintf("has %d characters, and at most %d are taken", utf8.RuneCountInString(s), n), "")
	}
	if n, ok := most(f, "minlen"); ok && int64(len(s)) < n {
		return wrong(path, "must not be empty", "")
	}
	return nil
}

// whole reads a number without a fraction, however it is written, also as a text.
func whole(tok json.Token) (int64, bool) {
	number, ok := tok.(json.Number)
	if s, isText := tok.(string); isText {
		number, ok = json.Number(s), isNumber(s)
	}
	if !ok {
		return 0, false
	}
	if n, err := number.Int64(); err == nil {
		return n, true
	}
	x, err := number.Float64()
	return int64(x), err == nil && x == math.Trunc(x) && math.Abs(x) < 1<<53
}

// isNumber reports whether s is a number as JSON writes it.
func isNumber(s string) bool {
	return s != "" && (s[0] == '-' || '0' <= s[0] && s[0] <= '9') && s[len(s)-1] > ' ' && json.Valid([]byte(s))
}

// kindOf names a value for a message; a short one is shown.
func kindOf(tok json.Token) string {
	switch v := tok.(type) {
	case json.Delim:
		if v == '{' {
			return "an object"
		}
		return "a list"
	case nil:
		return "null"
	case string:
		if len(v) > 40 {
			return "a long text"
		}
		return strconv.Quote(v)
	}
	s := fmt.Sprint(tok)
	return s[:min(len(s), 40)]
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
