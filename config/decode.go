package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode"

	"github.com/tailscale/hujson"
)

// decoder fills settings from a syntax tree. It goes on after a problem, so
// that all are reported at once.
type decoder struct{ problems }

var (
	sizeType     = reflect.TypeFor[Size]()
	durationType = reflect.TypeFor[Duration]()
	ulimitType   = reflect.TypeFor[Ulimit]()
	volumeType   = reflect.TypeFor[Volume]()
)

// value decodes v into to, whose path is path.
func (d *decoder) value(v hujson.Value, to reflect.Value, path string) {
	if l, ok := v.Value.(hujson.Literal); ok && l.Kind() == 'n' {
		d.badly(path, "leave the key out instead", "null is not a value")
		return
	}
	if to.Kind() == reflect.Pointer {
		e := reflect.New(to.Type().Elem())
		before := d.count()
		d.value(v, e.Elem(), path)
		if d.count() == before || e.Elem().Kind() == reflect.Struct {
			to.Set(e) // a single value that is wrong counts as not set
		}
		return
	}
	switch to.Type() {
	case sizeType, durationType, ulimitType, volumeType:
		d.special(v, to, path)
		return
	}
	switch to.Kind() {
	case reflect.Struct:
		d.object(v, to, path)
	case reflect.Slice:
		d.sequence(v, to, path)
	case reflect.Map:
		d.mapping(v, to, path)
	default:
		d.scalar(v, to, path)
	}
}

// members calls f for each member of v, and reports what is no object and
// names that appear twice.
func (d *decoder) members(v hujson.Value, path string, f func(name string, v hujson.Value)) {
	o, ok := v.Value.(*hujson.Object)
	if !ok {
		d.badly(path, "", "must be an object, not %s", kindName(v, path))
		return
	}
	seen := map[string]bool{}
	for _, m := range o.Members {
		name := m.Name.Value.(hujson.Literal).String()
		if seen[name] {
			d.badly(join(path, name), "keep one of them", "the key appears twice")
			continue
		}
		seen[name] = true
		f(name, m.Value)
	}
}

func (d *decoder) object(v hujson.Value, to reflect.Value, path string) {
	fields := fieldsOf(to.Type())
	given := map[string]bool{}
	d.members(v, path, func(name string, v hujson.Value) {
		i, ok := fields[name]
		if !ok {
			hint := "see sandbox config schema"
			if other := formerHint(path, name); other != "" {
				hint = other
			} else if near := nearest(name, fields); near != "" {
				hint = fmt.Sprintf("did you mean %q?", near)
			}
			d.badly(join(path, name), hint, "unknown key")
			return
		}
		given[name] = true
		if !d.former(join(path, name), v) {
			d.value(v, to.Field(i), join(path, name))
		}
	})
	for name, i := range fields {
		if to.Type().Field(i).Tag.Get("required") != "" && !given[name] {
			d.badly(join(path, name), "", "is missing")
		}
	}
}

func (d *decoder) sequence(v hujson.Value, to reflect.Value, path string) {
	a, ok := v.Value.(*hujson.Array)
	if !ok {
		d.badly(path, "put it in [ ]", "must be a list, not %s", kindName(v, path))
		return
	}
	to.Set(reflect.MakeSlice(to.Type(), len(a.Elements), len(a.Elements)))
	for i, e := range a.Elements {
		d.value(e, to.Index(i), fmt.Sprintf("%s[%d]", path, i))
	}
}

func (d *decoder) mapping(v hujson.Value, to reflect.Value, path string) {
	to.Set(reflect.MakeMap(to.Type()))
	d.members(v, path, func(name string, v hujson.Value) {
		e := reflect.New(to.Type().Elem()).Elem()
		if e.Kind() == reflect.Interface {
			e.Set(reflect.ValueOf(d.free(v, join(path, name))))
		} else {
			d.value(v, e, join(path, name))
		}
		to.SetMapIndex(reflect.ValueOf(name), e)
	})
}

// free decodes a value whose structure another package defines.
func (d *decoder) free(v hujson.Value, path string) any {
	switch t := v.Value.(type) {
	case *hujson.Object:
		m := map[string]any{}
		d.members(v, path, func(name string, v hujson.Value) { m[name] = d.free(v, join(path, name)) })
		return m
	case *hujson.Array:
		l := make([]any, len(t.Elements))
		for i, e := range t.Elements {
			l[i] = d.free(e, fmt.Sprintf("%s[%d]", path, i))
		}
		return l
	case hujson.Literal:
		var out any
		if t.Kind() != 'n' && json.Unmarshal(t, &out) == nil {
			return out
		}
	}
	d.badly(path, "leave the key out instead", "%s is not a value", kindName(v, path))
	return ""
}

// special decodes the types that can be written in several ways.
func (d *decoder) special(v hujson.Value, to reflect.Value, path string) {
	l, _ := v.Value.(hujson.Literal)
	_, isObject := v.Value.(*hujson.Object)
	text := l.String()
	if l.Kind() != '"' && l.Kind() != '0' && !(isObject && to.Type() == ulimitType) {
		d.badly(path, "", "must be a string or a number, not %s", kindName(v, path))
		return
	}
	var err error
	switch to.Type() {
	case sizeType:
		var n Size
		n, err = ParseSize(text)
		to.SetInt(int64(n))
	case volumeType:
		var n Volume
		n, err = ParseVolume(text)
		to.SetInt(int64(n))
	case durationType:
		var n Duration
		if l.Kind() == '0' && text != "0" {
			err = fmt.Errorf("%s has no unit; write it like 90s, 10m, 24h or 7d", text)
		} else {
			n, err = ParseDuration(text)
		}
		to.SetInt(int64(n))
	case ulimitType:
		if isObject {
			d.object(v, to, path)
			return
		}
		var u Ulimit
		u, err = ParseUlimit(text)
		to.Set(reflect.ValueOf(u))
	}
	if err != nil {
		d.badly(path, "", "%s", err)
	}
}

func (d *decoder) scalar(v hujson.Value, to reflect.Value, path string) {
	l, _ := v.Value.(hujson.Literal)
	switch to.Kind() {
	case reflect.Bool:
		if k := l.Kind(); k != 't' && k != 'f' {
			d.badly(path, "", "must be true or false, not %s", kindName(v, path))
			return
		}
		to.SetBool(l.Bool())
	case reflect.String:
		if l.Kind() != '"' {
			d.badly(path, "put it in quotes", "must be a string, not %s", kindName(v, path))
			return
		}
		to.SetString(l.String())
	case reflect.Int64:
		n, err := strconv.ParseInt(string(l), 10, 64)
		if err != nil {
			d.badly(path, "", "must be a whole number, not %s", kindName(v, path))
			return
		}
		to.SetInt(n)
	case reflect.Float64:
		n, err := strconv.ParseFloat(string(l), 64)
		if l.Kind() != '0' || err != nil {
			d.badly(path, "", "must be a number, not %s", kindName(v, path))
			return
		}
		to.SetFloat(n)
	}
}

// fieldsOf returns the index of each field of a settings type by its name.
func fieldsOf(t reflect.Type) map[string]int {
	out := map[string]int{}
	for i := range t.NumField() {
		if name := jsonName(t.Field(i)); name != "" {
			out[name] = i
		}
	}
	return out
}

// jsonName is the name of a field in the file, or "" when it has none.
func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	if name == "-" {
		return ""
	}
	return name
}

// kindName names the kind of the value at path for a message, with the value
// when it is short and cannot be a secret that was put there by mistake.
func kindName(v hujson.Value, path string) string {
	switch t := v.Value.(type) {
	case *hujson.Object:
		return "an object"
	case *hujson.Array:
		return "a list"
	case hujson.Literal:
		if strings.Contains(path, ".network.secrets") {
			return "a value"
		}
		if len(t) > 40 {
			return "a long value"
		}
		return printable(string(t))
	}
	return "nothing"
}

// join appends a key to a JSON path.
func join(path, name string) string {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && r != '$' && r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}) {
		return path + "[" + strconv.Quote(name) + "]"
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

// printable makes text from a file safe for a terminal.
func printable(s string) string {
	q := strconv.Quote(s)
	q = q[1 : len(q)-1]
	return strings.ReplaceAll(q, `\"`, `"`)
}
