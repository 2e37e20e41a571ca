package jsonschema

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/bulkhead-dev/sandbox"
)

// number is the number of a tag, and whether there is one.
func number(f reflect.StructField, tag string) (int64, bool) {
	n, err := strconv.ParseInt(f.Tag.Get(tag), 10, 64)
	return n, err == nil
}

func (r reader) scalar(tok json.Token, t reflect.Type, f reflect.StructField, path string) error {
	switch t.Kind() {
	case reflect.Bool:
		if b, ok := truth(tok); ok && r.in != nil {
			tok = b
		}
		if _, ok := tok.(bool); !ok {
			return wrong(path, "must be true or false, not "+kindOf(tok), "")
		}
		r.in.add(tok)
		return nil
	case reflect.String:
		s, ok := tok.(string)
		if !ok {
			return wrong(path, "must be a text, not "+kindOf(tok), "put it in quotes")
		}
		if r.in != nil && r.in.meaning != nil {
			var err error
			if s, err = r.in.meaning(s, f); err != nil {
				if e, ok := errors.AsType[*sandbox.Error](err); ok {
					e.Field = path
				}
				return err
			}
		}
		r.in.add(s)
		return text(s, f, path)
	}
	n, ok := tok.(json.Number)
	if r.in != nil {
		if whole, isWhole := wholeOf(tok); isWhole {
			n, ok = json.Number(strconv.FormatInt(whole, 10)), true
		}
	}
	isWhole := t.Kind() != reflect.Float64 && t.Kind() != reflect.Float32
	switch {
	case !ok && isWhole:
		return wrong(path, "must be a whole number, not "+kindOf(tok), "")
	case !ok:
		return wrong(path, "must be a number, not "+kindOf(tok), "")
	}
	x, err := n.Float64()
	if _, noInt := strconv.ParseInt(n.String(), 10, 64); isWhole && noInt != nil {
		return wrong(path, "must be a whole number, not "+kindOf(tok), "write it without point and exponent")
	}
	if err != nil || math.IsInf(x, 0) {
		return wrong(path, "is no number that can be counted with", "")
	}
	least, bounded := number(f, "min")
	most, above := number(f, "max")
	if bounded && x < float64(least) || above && x > float64(most) {
		return wrong(path, fmt.Sprintf("must be from %d to %d, not %s", least, most, n), "")
	}
	r.in.add(n)
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

// wholeOf reads a number without a fraction, however it is written, also as a
// text.
func wholeOf(tok json.Token) (int64, bool) {
	n, ok := tok.(json.Number)
	if s, isText := tok.(string); isText {
		n, ok = json.Number(s), s != "" && (s[0] == '-' || '0' <= s[0] && s[0] <= '9') && s[len(s)-1] > ' ' && json.Valid([]byte(s))
	}
	if !ok {
		return 0, false
	}
	if i, err := n.Int64(); err == nil {
		return i, true
	}
	x, err := n.Float64()
	return int64(x), err == nil && x == math.Trunc(x) && math.Abs(x) < 1<<53
}

// text holds a text against its bounds, which count characters as JSON Schema
// does.
func text(s string, f reflect.StructField, path string) error {
	if enum := f.Tag.Get("enum"); enum != "" && !slices.Contains(strings.Split(enum, ","), s) {
		return wrong(path, "must be one of "+strings.ReplaceAll(enum, ",", ", ")+", not "+kindOf(s), "")
	}
	if n, ok := number(f, "maxlen"); ok && int64(len(s)) > n && int64(utf8.RuneCountInString(s)) > n {
		return wrong(path, fmt.Sprintf("has %d characters, and at most %d are taken", utf8.RuneCountInString(s), n), "")
	}
	if n, ok := number(f, "minlen"); ok && int64(len(s)) < n {
		return wrong(path, "must not be empty", "")
	}
	return nil
}

// bytesOf holds bytes, which are written in base64, against their bounds.
func bytesOf(tok json.Token, f reflect.StructField, path string) error {
	s, ok := tok.(string)
	if !ok {
		return wrong(path, "must be a text in base64, not "+kindOf(tok), "")
	}
	data, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return wrong(path, "is no base64 of the standard alphabet with padding", "")
	}
	if n, ok := number(f, "maxlen"); ok && int64(len(data)) > n {
		return wrong(path, fmt.Sprintf("has %d bytes, and at most %d are taken", len(data), n), "")
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
