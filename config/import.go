package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// What [Import] has made of a key.
const (
	ImportSet     = "set"     // it is To now
	ImportDefault = "default" // To holds without being said, so that nothing is set
	ImportLeft    = "left"    // nothing is set; Note says why, and what to write instead
	ImportUnknown = "unknown" // no form of settings has the key
)

// An ImportedKey is one key of a foreign file.
type ImportedKey struct {
	Key    string `json:"key"`          // its place there
	To     string `json:"to,omitempty"` // the present key, or several with commas between
	Result string `json:"result"`       // set, default, left or unknown
	Note   string `json:"note,omitempty"`
}

// Imported is what [Import] has read.
type Imported struct {
	Settings json.RawMessage `json:"settings"` // a settings file
	Keys     []ImportedKey   `json:"keys"`     // every key that has a value, in the order of the file
}

// Complete reports whether every key was taken over.
func (i Imported) Complete() bool {
	return !slices.ContainsFunc(i.Keys, func(k ImportedKey) bool { return k.Result == ImportLeft || k.Result == ImportUnknown })
}

// Import reads a settings file in one of the forms that other programs have, or of
// several of them, and returns it in the form that [Parse] reads:
//
//	{"enabled", "provider", "policy": {"filesystem": {"whitelist", "blacklist"}, "network"}, "providerOptions"}
//	{"sandbox": {"excludedCommands", "network", "filesystem", …}, "permissions"}
//	{"agents": {"defaults": {"sandbox": {"docker": {"setupCommand", …}, …}}, "list": …}}
//	{"enabled", "mode", "allowed_read_paths", "blocked_commands", "limits": {"max_memory_bytes", …}, …}
//	{"limits": {"max_bytes_in", …}, "whitelists", "mappings", "timeout_ms"}
//
// Keys of the present form pass. No key is dropped without being listed in Keys. A
// value that its key cannot have, a key that appears twice, and what Parse refuses of
// the result are errors, and then there is no result.
func Import(name string, data []byte) (Imported, error) {
	root, err := parseTree(data)
	if err != nil {
		e := sandbox.Errorf(sandbox.CodeValidation, "import settings", "%s is not valid: %w", printable(name), err)
		e.Resource = name
		return Imported{}, e
	}
	i := importer{out: map[string]any{}}
	i.file = name
	i.root(root)
	if err := i.err(); err != nil {
		return Imported{}, err
	}
	text, err := json.MarshalIndent(i.out, "", "  ")
	if err != nil {
		return Imported{}, sandbox.Errorf(sandbox.CodeInternal, "import settings", "cannot encode the result: %w", err)
	}
	if _, err := Parse(name, text); err != nil {
		return Imported{}, err
	}
	return Imported{Settings: text, Keys: i.keys}, nil
}

// An importer is one run of Import.
type importer struct {
	decoder
	out  map[string]any
	keys []ImportedKey
}

// A scope is a place of the result that settings of a sandbox are written to.
type scope struct {
	at   string         // its path
	into map[string]any // what is there so far
}

func (i *importer) row(src, to, result, note string) {
	i.keys = append(i.keys, ImportedKey{Key: src, To: to, Result: result, Note: note})
}

// child returns the object at key of m, which it makes when it is missing.
func child(m map[string]any, key string) map[string]any {
	c, ok := m[key].(map[string]any)
	if !ok {
		c = map[string]any{}
		m[key] = c
	}
	return c
}

// root reads the whole file. What stands there and is a setting of a sandbox is one
// for all agents.
func (i *importer) root(v hujson.Value) {
	all := func() scope {
		return scope{defaultsPath, child(child(child(i.out, "agents"), "defaults"), "sandbox")}
	}
	fields := fieldsOf(reflect.TypeFor[Settings]())
	i.members(v, "", func(name string, v hujson.Value) {
		_, native := fields[name]
		switch {
		case name == "agents":
			i.agents(v)
		case name == "sandbox":
			i.settings(v, name, "", reflect.TypeFor[SandboxSettings](), all())
		case native:
			i.out[name] = i.free(v, name)
			i.row(name, name, ImportSet, "")
		default:
			i.one(name, v, "", "", reflect.TypeFor[SandboxSettings](), all)
		}
	})
}

// defaultsPath is where settings for all agents stand.
const defaultsPath = "agents.defaults.sandbox"

func (i *importer) agents(v hujson.Value) {
	out := child(i.out, "agents")
	i.members(v, "agents", func(name string, v hujson.Value) {
		at := join("agents", name)
		switch name {
		case "defaults":
			i.members(v, at, func(name string, v hujson.Value) {
				if name != "sandbox" {
					i.row(join(at, name), "", ImportUnknown, "it is no setting of a sandbox")
					return
				}
				i.settings(v, join(at, name), "", reflect.TypeFor[SandboxSettings](), scope{defaultsPath, child(child(out, "defaults"), "sandbox")})
			})
		case "list":
			i.list(v, at, out)
		default:
			i.row(at, "", ImportUnknown, "it is no setting of a sandbox")
		}
	})
}

// list reads the agents: a list of them, or an object that has them by id.
func (i *importer) list(v hujson.Value, at string, out map[string]any) {
	list := []any{}
	add := func(src string, v hujson.Value, id string) {
		agent := map[string]any{}
		if id != "" {
			agent["id"] = id
			i.row(src, fmt.Sprintf("agents.list[%d].id", len(list)), ImportSet, "")
		}
		place := fmt.Sprintf("agents.list[%d]", len(list))
		list = append(list, agent)
		fields := fieldsOf(reflect.TypeFor[AgentSettings]())
		i.members(v, src, func(name string, v hujson.Value) {
			_, native := fields[name]
			switch {
			case name == "sandbox":
				i.settings(v, join(src, name), "", reflect.TypeFor[SandboxSettings](), scope{join(place, name), child(agent, "sandbox")})
			case native:
				agent[name] = i.free(v, join(src, name))
				i.row(join(src, name), join(place, name), ImportSet, "")
			default:
				i.row(join(src, name), "", ImportUnknown, "it is no setting of an agent's sandbox")
			}
		})
	}
	switch t := v.Value.(type) {
	case *hujson.Array:
		for n, e := range t.Elements {
			add(fmt.Sprintf("%s[%d]", at, n), e, "")
		}
	default:
		i.members(v, at, func(id string, v hujson.Value) { add(join(at, id), v, id) })
	}
	out["list"] = list
}

// settings reads the object v at src. Its keys are those of the present type t, which
// may be nil, and older ones below rel.
func (i *importer) settings(v hujson.Value, src, rel string, t reflect.Type, to scope) {
	if o, ok := v.Value.(*hujson.Object); ok && len(o.Members) == 0 {
		i.row(src, strings.TrimSuffix(to.at+"."+rel, "."), ImportDefault, "it is empty")
	}
	i.members(v, src, func(name string, v hujson.Value) {
		i.one(name, v, src, rel, t, func() scope { return to })
	})
}

// one reads one of its keys.
func (i *importer) one(name string, v hujson.Value, src, rel string, t reflect.Type, to func() scope) {
	key, src := join(rel, name), join(src, name)
	_, isObject := v.Value.(*hujson.Object)
	var field reflect.Type
	if t != nil {
		if n, ok := fieldsOf(t)[name]; ok {
			field = t.Field(n).Type
		}
		if field != nil && field.Kind() == reflect.Pointer {
			field = field.Elem()
		}
	}
	former, known := formerKeys()[key]
	if l, ok := v.Value.(hujson.Literal); ok && l.Kind() == 'n' && (known || field != nil) {
		i.row(src, i.target(to, former.to, key), ImportDefault, "null sets nothing")
		return
	}
	switch {
	case known:
		i.former(former, key, src, v, to())
	case field != nil && field.Kind() == reflect.Struct && isObject && !slices.Contains([]reflect.Type{sizeType, durationType, ulimitType, volumeType}, field):
		i.settings(v, src, key, field, to())
	case field != nil:
		i.set(to(), key, i.free(v, src), src, "")
	case isObject && len(formerBelow(key)) > 0:
		i.settings(v, src, key, nil, to())
	default:
		note := "no form of settings has it"
		if t != nil {
			near := nearest(name, fieldsOf(t))
			if near == "" {
				near = nearest(key, formerKeys())
			}
			if near != "" {
				note += fmt.Sprintf("; did you mean %q?", near)
			}
		}
		i.row(src, "", ImportUnknown, note)
	}
}

// target is the full name of the present keys, for people.
func (i *importer) target(to func() scope, keys []string, key string) string {
	if len(keys) == 0 {
		keys = []string{key}
	}
	return strings.Join(below(to().at, keys), ", ")
}

func below(at string, keys []string) []string {
	out := make([]string, len(keys))
	for n, k := range keys {
		out[n] = at + "." + k
	}
	return out
}

// former reads a key of another form.
func (i *importer) former(f formerKey, key, src string, v hujson.Value, to scope) {
	if f.left != "" {
		i.row(src, strings.Join(below(to.at, f.to), ", "), ImportLeft, f.left)
		return
	}
	got := f.read(i.free(v, src))
	switch {
	case got.bad != "":
		i.badly(src, "", "%s", got.bad)
	case got.result != ImportSet:
		keys := got.to
		if keys == nil {
			keys = f.to
		}
		i.row(src, strings.Join(below(to.at, keys), ", "), got.result, got.note)
	default:
		keys := got.to
		if keys == nil {
			keys = f.to
		}
		for _, k := range keys {
			i.put(to, k, got.value, src)
		}
		i.row(src, strings.Join(below(to.at, keys), ", "), ImportSet, got.note)
	}
}

// set takes a key over as it is.
func (i *importer) set(to scope, key string, value any, src, note string) {
	i.put(to, key, value, src)
	i.row(src, to.at+"."+key, ImportSet, note)
}

// put writes a value to its place. Lists that several keys make are one; for a single
// value that is an error.
func (i *importer) put(to scope, key string, value any, src string) {
	parts := strings.Split(key, ".")
	m := to.into
	for _, p := range parts[:len(parts)-1] {
		m = child(m, p)
	}
	last := parts[len(parts)-1]
	before, there := m[last]
	if !there {
		m[last] = value
		return
	}
	old, isList := before.([]any)
	more, alsoList := value.([]any)
	if !isList || !alsoList {
		i.badly(src, "keep one of them", "another key sets %s.%s, too", to.at, key)
		return
	}
	m[last] = append(slices.Clone(old), more...)
}

// formerHint says what to write instead of an unknown key at path in a settings file,
// where it is one of another form; else it is empty.
func formerHint(path, name string) string {
	const reads = `; "sandbox config import FILE" reads this form and prints the present one`
	if path == "" {
		if name == "sandbox" || name == "permissions" {
			to := defaultsPath
			if name != "sandbox" {
				to += "." + name
			}
			return "it is " + to + " now" + reads
		}
		if _, native := fieldsOf(reflect.TypeFor[SandboxSettings]())[name]; native {
			if _, ok := formerKeys()[name]; ok {
				return formerAt(name, defaultsPath, reads)
			}
			return "it is " + defaultsPath + "." + name + " now" + reads
		}
		return formerAt(name, defaultsPath, reads)
	}
	at, rel, ok := settingsPlace(path)
	if !ok {
		return ""
	}
	return formerAt(join(rel, name), at, reads)
}

// formerAt is formerHint for a key below the settings of a sandbox at at.
func formerAt(key, at, reads string) string {
	f, ok := formerKeys()[key]
	if ok && f.left == "" {
		return "it is " + f.targets(at) + " now" + reads
	}
	if ok {
		hint := f.left
		if len(f.to) > 0 {
			hint += "; see " + f.targets(at)
		}
		return hint + reads
	}
	for _, k := range formerBelow(key) {
		for _, to := range formerKeys()[k].to {
			if !slices.Contains(f.to, to) {
				f.to = append(f.to, to)
			}
		}
	}
	if len(f.to) == 0 {
		return ""
	}
	return "what it held is " + strings.Join(below(at, f.to), ", ") + " now" + reads
}

// targets names the present keys below at, for people.
func (f formerKey) targets(at string) string {
	word := " and "
	if f.either {
		word = " or "
	}
	return strings.Join(below(at, f.to), word)
}

// settingsPlace splits the path of an object in a settings file into the place of the
// settings of a sandbox and the rest.
func settingsPlace(path string) (at, rel string, ok bool) {
	if rest, found := strings.CutPrefix(path, "agents.list["); found {
		n, after, closed := strings.Cut(rest, "].sandbox")
		if !closed {
			return "", "", false
		}
		at = "agents.list[" + n + "].sandbox"
		return at, strings.TrimPrefix(after, "."), after == "" || after[0] == '.'
	}
	rest, found := strings.CutPrefix(path, defaultsPath)
	return defaultsPath, strings.TrimPrefix(rest, "."), found && (rest == "" || rest[0] == '.')
}

// former records a value that its key has in another form only, and reports whether
// it is one.
func (d *decoder) former(path string, v hujson.Value) bool {
	at, rel, ok := settingsPlace(path)
	if !ok || !slices.Contains([]string{"mode", "limits.timeout", "commands.strictness"}, rel) {
		return false // the keys that are present ones, too
	}
	f := formerKeys()[rel]
	probe := decoder{}
	value := probe.free(v, path)
	if probe.err() != nil || f.present(value) {
		return false
	}
	got := f.read(value)
	if got.bad != "" || got.result != ImportSet {
		return false
	}
	to := got.to
	if to == nil {
		to = f.to
	}
	text, err := json.Marshal(got.value)
	if err != nil {
		return false
	}
	d.badly(path, fmt.Sprintf(`write %s as %s; "sandbox config import FILE" reads this form and prints the present one`, printable(string(text)), strings.Join(below(at, to), " and ")),
		"%s is a value of another form of settings", kindName(v, path))
	return true
}
