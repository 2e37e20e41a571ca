package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
)

// layer is one layer of settings.
type layer struct {
	name     string // as Origin gives it: "agents.list[researcher]"
	path     string // JSON path of the sandbox object: "agents.list[0].sandbox"
	flag     bool   // of the call or of the program, not of a file
	agent    bool   // of one agent
	settings *SandboxSettings

	added   bool              // its lists are added to those below, whatever their rule
	rules   map[string]string // element of a list → permission rule that it comes from
	notices []Notice          // what its permission rules do not do
}

// fileLayers returns the layers of a settings file, those of all agents included.
func fileLayers(s *Settings) []layer {
	var out []layer
	if s == nil || s.Agents == nil {
		return nil
	}
	if d := s.Agents.Defaults; d != nil && d.Sandbox != nil {
		out = append(out, layer{name: "agents.defaults", path: "agents.defaults.sandbox", settings: d.Sandbox})
	}
	for i, a := range s.Agents.List {
		if a.Sandbox == nil {
			continue
		}
		id := ""
		if a.ID != nil {
			id = *a.ID
		}
		out = append(out, layer{
			name: "agents.list[" + id + "]", path: fmt.Sprintf("agents.list[%d].sandbox", i),
			agent: true, settings: a.Sandbox,
		})
	}
	return out
}

// merged is the sum of layers, with the place each value came from.
type merged struct {
	settings SandboxSettings
	origins  map[string]string // path of a value → name of its layer
	fields   map[string]string // path of a value → its JSON path in the file
}

// noted is about how many values the defaults have: the places of all of them
// are noted for each command.
const noted = 192

// merge lays layers over each other, the weakest first.
func merge(layers []layer) merged {
	return mergeInto(merged{origins: make(map[string]string, noted), fields: make(map[string]string, noted)}, layers)
}

// mergeInto is merge into m. Without maps the places are not noted, which is
// most of the work.
func mergeInto(m merged, layers []layer) merged {
	for _, l := range layers {
		if l.settings != nil {
			m.lay(reflect.ValueOf(&m.settings).Elem(), reflect.ValueOf(l.settings).Elem(), "", l)
		}
	}
	return m
}

// lay puts the values that src has over those of dst.
func (m *merged) lay(dst, src reflect.Value, at string, l layer) {
	for i := range src.NumField() {
		from, field := src.Field(i), src.Type().Field(i)
		if from.IsNil() {
			continue
		}
		to, path := dst.Field(i), join(at, pathName(field))
		switch {
		case from.Kind() == reflect.Pointer && from.Elem().Kind() == reflect.Struct:
			if to.IsNil() {
				to.Set(reflect.New(to.Type().Elem()))
			}
			m.lay(to.Elem(), from.Elem(), path, l)
		case from.Kind() == reflect.Pointer:
			to.Set(reflect.New(to.Type().Elem()))
			to.Elem().Set(from.Elem())
			m.note(path, path, l)
		case from.Kind() == reflect.Slice:
			m.layList(to, from, field.Tag.Get("merge"), path, l)
		case from.Kind() == reflect.Map:
			m.layMap(to, from, field.Tag.Get("merge"), path, l)
		}
	}
}

// layList appends or replaces, as the rule of the field says.
func (m *merged) layList(to, from reflect.Value, rule, path string, l layer) {
	start := 0
	if rule == "append" || l.added || rule == "flag-append" && l.flag {
		start = to.Len()
	}
	list := reflect.MakeSlice(to.Type(), 0, start+from.Len())
	list = reflect.AppendSlice(list, to.Slice(0, start))
	to.Set(reflect.AppendSlice(list, from))
	m.note(path, path, l)
	if m.origins == nil {
		return
	}
	for i := range from.Len() {
		in := path + "[" + strconv.Itoa(i) + "]"
		at := in
		if start > 0 {
			at = path + "[" + strconv.Itoa(start+i) + "]"
		}
		m.note(at, in, l)
	}
}

// layMap merges by key or replaces, as the rule of the field says.
func (m *merged) layMap(to, from reflect.Value, rule, path string, l layer) {
	all := reflect.MakeMap(to.Type())
	if rule == "key" {
		for _, k := range to.MapKeys() {
			all.SetMapIndex(k, to.MapIndex(k))
		}
	}
	for _, k := range from.MapKeys() {
		all.SetMapIndex(k, from.MapIndex(k))
		m.note(join(path, k.String()), join(path, k.String()), l)
	}
	to.Set(all)
	m.note(path, path, l)
}

func (m *merged) note(path, inLayer string, l layer) {
	if m.origins == nil {
		return
	}
	m.origins[path] = l.name
	m.fields[path] = l.path + "." + inLayer
	if rule, ok := l.rules[inLayer]; ok {
		m.origins[path] = l.name + " " + rule
		m.fields[path] = l.path + "." + rule
	}
}

// pathName is the name of a field in paths. Fields that only flags can set
// have no name in the file and go by their own.
func pathName(f reflect.StructField) string {
	if n := jsonName(f); n != "" {
		return n
	}
	return string(f.Name[0]|0x20) + f.Name[1:]
}

// concrete copies every value that src has into the field of dst of the same
// name. Lists and maps are copied too, so that no layer is shared.
func concrete(dst, src reflect.Value) {
	for i := range dst.NumField() {
		to, from := dst.Field(i), src.FieldByName(dst.Type().Field(i).Name)
		if from.IsNil() {
			continue
		}
		switch from.Kind() {
		case reflect.Pointer:
			if from.Elem().Kind() == reflect.Struct {
				concrete(to, from.Elem())
			} else {
				to.Set(from.Elem().Convert(to.Type())) // a Volume is a number of bytes
			}
		case reflect.Slice:
			to.Set(reflect.AppendSlice(reflect.MakeSlice(to.Type(), 0, from.Len()), from))
		case reflect.Map:
			to.Set(reflect.MakeMapWithSize(to.Type(), from.Len()))
			deepCopy(to, from)
		}
	}
}

// sortedKeys returns the keys of m in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
