package schema

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/internal/jsonschema"
)

// MaxInput is the most, in bytes, that a tool is called with.
const MaxInput = 32 << 20

// Decode reads the input of a tool, with the defaults of what is left out, into
// T, which is the type of that tool's input. Nothing at all is an empty object.
//
// It is strict, see [jsonschema.DecodeInput], because what was meant by a field
// that is unknown or has another type would not be done. A path may be a URL
// that names a file of the sandbox, see [fsbridge.FromURL].
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
	err := decode(data, to.Interface())
	if c, ok := to.Interface().(interface{ Check() error }); ok && err == nil {
		err = c.Check()
	}
	var e *sandbox.Error
	if errors.As(err, &e) {
		e.Op = tool
	}
	return err
}

func decode(data []byte, to any) error {
	if len(data) > MaxInput {
		return wrong("", fmt.Sprintf("the input has %d bytes, and at most %d are taken", len(data), MaxInput), "")
	}
	return jsonschema.DecodeInput(data, to, plainPath)
}

// plainPath returns s as the path that it means, where the tag names of f says
// that it is the name of a file, a pattern, or the address of a page.
func plainPath(s string, f reflect.StructField) (string, error) {
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
	if err == nil && !utf8.ValidString(out) {
		err = wrong("", "the escapes of the URL are no valid UTF-8", "use a command for a file with such a name")
	}
	return out, err
}

// wrong is an error about a field.
func wrong(field, message, hint string) error {
	return &sandbox.Error{Code: sandbox.CodeValidation, Field: field, Message: message, Hint: hint}
}
