package resource_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/internal/testenv/served"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// A spoiled is a body in which one field is wrong.
type spoiled struct {
	field string
	body  string
}

// spoil returns the body once for each value at and below the path that has a
// field of type t, with a value of another type there.
func spoil(t *testing.T, whole map[string]any, path string, of reflect.Type) (all []spoiled) {
	t.Helper()
	set := func(value any) {
		copied := map[string]any{}
		must(t, json.Unmarshal([]byte(text(t, whole)), &copied))
		grantsPut(copied, path, value)
		all = append(all, spoiled{path, text(t, copied)})
	}
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	switch {
	case of == reflect.TypeFor[time.Time]():
		set("tomorrow")
		set(5)
		set([]any{})
	case of.Kind() == reflect.Struct:
		set("text")
		for i := range of.NumField() {
			name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
			if name != "-" {
				all = append(all, spoil(t, whole, path+"."+name, of.Field(i).Type)...)
			}
		}
	case of.Kind() == reflect.Slice:
		set("text")
		all = append(all, spoil(t, whole, path+"[0]", of.Elem())...)
	case of.Kind() == reflect.String:
		set(5)
		set(nil)
	case of.Kind() == reflect.Bool:
		set("true")
	default: // numbers
		set("5")
		set(1.5)
	}
	return all
}

// grantsPut sets the value at a path like grant.capabilities[0].path, and makes
// missing objects on the way.
func grantsPut(in map[string]any, path string, value any) {
	name, rest, deeper := strings.Cut(path, ".")
	name, _, listed := strings.Cut(name, "[")
	if listed {
		list, _ := in[name].([]any)
		if len(list) == 0 {
			list = []any{map[string]any{}}
		}
		in[name] = list
		if !deeper {
			list[0] = value
			return
		}
		grantsPut(list[0].(map[string]any), rest, value)
		return
	}
	if !deeper {
		in[name] = value
		return
	}
	below, ok := in[name].(map[string]any)
	if !ok {
		below = map[string]any{}
		in[name] = below
	}
	grantsPut(below, rest, value)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestMalformedTypes holds for every field of a grant and a manifest, at any
// depth, that a value of another type is refused with the name of exactly that
// field. It enumerates the fields of the types, so that it covers new ones.
func TestMalformedTypes(t *testing.T) {
	t.Parallel()
	r := grantsNewRig(t, "memory")
	o := r.order("acme", grant.Operation{})
	whole := map[string]any{}
	must(t, json.Unmarshal([]byte(text(t, api.CheckGrant{Grant: o.Grant, Manifest: o.Manifest})), &whole))
	all := append(spoil(t, whole, "grant", reflect.TypeFor[grant.Grant]()), spoil(t, whole, "manifest", reflect.TypeFor[grant.Manifest]())...)
	all = append(all, spoil(t, whole, "line", reflect.TypeFor[[]grant.Grant]())...)
	if len(all) < 150 {
		t.Fatalf("%d bodies are too few to be all", len(all))
	}
	for _, s := range all {
		p := r.Want(422, "acme", "POST", "/v1/grants/check", s.body).Problem(t)
		if p.Field != s.field {
			t.Errorf("%s: the answer names %q: %s", s.field, p.Field, p.Detail)
		}
	}
}

// TestMalformedValues holds that a value of the right type which no grant may
// have is refused with the name of exactly its field, in a grant and in those
// that it was derived from.
func TestMalformedValues(t *testing.T) {
	t.Parallel()
	r := grantsNewRig(t, "memory")
	wrong := map[string]any{
		"id": "", "parent": "a b", "tenant": "a b", "subject": "ä", "agent": "../x", "session": "a\tb", "tool": "a b", "call": strings.Repeat("c", 300),
		"decisionKeyFingerprint": "", "expires": "0001-01-01T00:00:00Z",
		"budget.calls": -2, "budget.bytesIn": -2, "budget.bytesOut": -2, "budget.cpuMs": -2, "budget.gpuMs": -2, "budget.files": -2, "budget.wallMs": -2,
		"consent.by": "", "consent.expires": "0001-01-01T00:00:00Z",
		"capabilities[0].kind": "fs.move", "capabilities[0].path": "workspace", "capabilities[0].host": "x.test", "capabilities[0].port": 80,
		"capabilities[0].scheme": "http", "capabilities[0].methods": []string{"GET"}, "capabilities[0].actions": []string{"open"},
		"capabilities[0].tool": "git", "capabilities[0].bytes": 5, "capabilities[0].class": "a100",
	}
	others := map[string]map[string]any{ // of capabilities of other kinds
		"host":       {"kind": "net.http", "host": "a b", "methods": []string{"GET"}},
		"port":       {"kind": "net.http", "host": "x.test", "methods": []string{"GET"}, "port": 70000},
		"scheme":     {"kind": "net.http", "host": "x.test", "methods": []string{"GET"}, "scheme": "ftp"},
		"methods":    {"kind": "net.http", "host": "x.test"},
		"methods[1]": {"kind": "net.http", "host": "x.test", "methods": []string{"GET", "get"}},
		"actions":    {"kind": "browser"},
		"actions[1]": {"kind": "browser", "actions": []string{"open", "eval"}},
		"tool":       {"kind": "proc", "tool": "/bin/sh"},
		"bytes":      {"kind": "tmp", "bytes": -1},
		"class":      {"kind": "gpu"},
	}
	check := func(field string, change func(map[string]any)) {
		t.Helper()
		o := r.order("acme", grant.Operation{})
		whole := map[string]any{}
		must(t, json.Unmarshal([]byte(text(t, api.CheckGrant{Grant: o.Grant, Manifest: o.Manifest})), &whole))
		change(whole)
		a := r.Ask("acme", "POST", "/v1/grants/check", text(t, whole))
		if a.Status != 422 || a.Problem(t).Field != field {
			t.Errorf("%s: %d names %q: %s", field, a.Status, a.Problem(t).Field, a.Body)
		}
		if words := []string{".kind", ".safety", ".sideEffects[0]"}; slices.ContainsFunc(words, func(w string) bool { return strings.HasSuffix(field, w) }) {
			return // the document enumerates the values, so no answer of 200 is expected
		}
		// The answer of an operation is the same, as a result where the
		// operation is on record.
		whole["operation"] = map[string]any{"kind": "FsRead", "path": "/workspace/a"}
		if a = r.Ask("acme", "POST", "/v1/operate", text(t, whole)); a.Status == 200 {
			if done := served.JSON[api.Performed](t, a); done.OK || done.Field != field {
				t.Errorf("%s: the operation names %q: %+v", field, done.Field, done)
			}
		} else if a.Problem(t).Field != field {
			t.Errorf("%s: %d names %q: %s", field, a.Status, a.Problem(t).Field, a.Body)
		}
	}
	for _, field := range slices.Sorted(maps.Keys(wrong)) {
		if field == "tenant" {
			continue // is another tenant's first of all, which is no malformed grant
		}
		check("grant."+field, func(whole map[string]any) { grantsPut(whole, "grant."+field, wrong[field]) })
	}
	for _, field := range slices.Sorted(maps.Keys(others)) {
		check("grant.capabilities[0]."+field, func(whole map[string]any) {
			whole["grant"].(map[string]any)["capabilities"] = []any{others[field]}
		})
		check("manifest.capabilities[0]."+field, func(whole map[string]any) {
			whole["manifest"].(map[string]any)["capabilities"] = []any{others[field]}
		})
	}
	for field, value := range map[string]any{
		"tool": "", "version": "1", "safety": "none", "sideEffects[0]": "boom", "limits.maxBytesIn": -1, "limits.maxBytesOut": -1,
		"limits.maxTmpBytes": -1, "limits.maxFiles": -1, "limits.maxDepth": -1, "limits.maxConcurrency": -1, "limits.timeout": -1,
		"commands[0].tool": "", "commands[0].args[0]": map[string]any{},
	} {
		check("manifest."+field, func(whole map[string]any) {
			if strings.HasPrefix(field, "commands[0].args") {
				grantsPut(whole, "manifest.commands", []any{map[string]any{"tool": "git"}})
			}
			grantsPut(whole, "manifest."+field, value)
		})
	}
	for _, field := range []string{"id", "subject", "tool", "call", "expires", "budget.calls", "consent.by", "capabilities[0].path"} {
		check("line[0]."+field, func(whole map[string]any) {
			parent := map[string]any{}
			must(t, json.Unmarshal([]byte(text(t, whole["grant"])), &parent))
			whole["line"] = []any{parent}
			grantsPut(parent, field, wrong[field])
		})
	}
	o := r.order("acme", grant.Operation{})
	for field, value := range map[string]any{
		"id": "a b", "call": "a b", "decisionKeyFingerprint": "a b", "budget.files": -2, "capabilities[0].kind": "x", "agent": "a b",
	} {
		body := map[string]any{"grant": o.Grant, "call": "child", "decisionKeyFingerprint": "key"}
		grantsPut(body, field, value)
		if p := r.Want(422, "acme", "POST", "/v1/grants/derive", text(t, body)).Problem(t); p.Field != field {
			t.Errorf("%s: deriving names %q: %s", field, p.Field, p.Detail)
		}
	}
}
