package jsonschema

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// number is the number of a tag, and whether there is one.
func number(f reflect.StructField, tag string) (int64, bool) {
	n, err := strconv.ParseInt(f.Tag.Get(tag), 10, 64)
	return n, err == nil
}

func scalarOf(tok json.Token, t reflect.Type, f reflect.StructField, path string) error {
	switch t.Kind() {
	case reflect.Bool:
		if _, ok := tok.(bool); !ok {
			return wrong(path, "must be true or false, not "+kindOf(tok))
		}
		return nil
	case reflect.String:
		s, ok := tok.(string)
		if !ok {
			return wrong(path, "must be a text, not "+kindOf(tok))
		}
		return text(s, f, path)
	}
	n, ok := tok.(json.Number)
	if !ok {
		return wrong(path, "must be a number, not "+kindOf(tok))
	}
	x, err := n.Float64()
	if err != nil || math.IsInf(x, 0) {
		return wrong(path, "is no number that can be counted with")
	}
	if k := t.Kind(); k != reflect.Float64 && k != reflect.Float32 {
		if _, err := strconv.ParseInt(n.String(), 10, 64); err != nil {
			return wrong(path, "must be a whole number, written without point and exponent")
		}
	}
	least, bounded := number(f, "min")
	most, above := number(f, "max")
	if bounded && x < float64(least) || above && x > float64(most) {
		return wrong(path, fmt.Sprintf("must be from %d to %d", least, most))
	}
	return nil
}

// text holds a text against its bounds, which count characters as JSON Schema
// does.
func text(s string, f reflect.StructField, path string) error {
	if enum := f.Tag.Get("enum"); enum != "" && !slices.Contains(strings.Split(enum, ","), s) {
		return wrong(path, "must be one of "+strings.ReplaceAll(enum, ",", ", ")+", not "+kindOf(s))
	}
	if n, ok := number(f, "maxlen"); ok && int64(len(s)) > n && int64(utf8.RuneCountInString(s)) > n {
		return wrong(path, fmt.Sprintf("has %d characters, and at most %d are taken", utf8.RuneCountInString(s), n))
	}
	if n, ok := number(f, "minlen"); ok && int64(len(s)) < n {
		return wrong(path, "must not be empty")
	}
	return nil
}

// bytesOf holds bytes, which are written in base64, against their bounds.
func bytesOf(tok json.Token, f reflect.StructField, path string) error {
	s, ok := tok.(string)
	if !ok {
		return wrong(path, "must be a text in base64, not "+kindOf(tok))
	}
	data, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return wrong(path, "is no base64 of the standard alphabet with padding")
	}
	if n, ok := number(f, "maxlen"); ok && int64(len(data)) > n {
		return wrong(path, fmt.Sprintf("has %d bytes, and at most %d are taken", len(data), n))
	}
	return nil
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
