package schema_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/tools/schema"
)

func compiled(t testing.TB, tool schema.Tool) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(tool.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("urn:x", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("urn:x")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTools(t *testing.T) {
	var names []string
	for _, tool := range schema.All() {
		names = append(names, tool.Name)
		s := compiled(t, tool)
		if len(tool.Examples) == 0 || tool.Description == "" || tool.Title == "" {
			t.Errorf("%s says too little of itself", tool.Name)
		}
		for _, e := range tool.Examples {
			doc, err := jsonschema.UnmarshalJSON(strings.NewReader(e))
			if err != nil {
				t.Fatalf("%s: %s: %v", tool.Name, e, err)
			}
			if err := s.Validate(doc); err != nil {
				t.Errorf("%s: %s: %v", tool.Name, e, err)
			}
			if err := tool.Validate([]byte(e)); err != nil {
				t.Errorf("%s: %s: %v", tool.Name, e, err)
			}
		}
		if tool.ReadOnly && tool.Destructive {
			t.Errorf("%s changes nothing and takes away", tool.Name)
		}
		if again, ok := schema.Find(tool.Name); !ok || !bytes.Equal(again.Schema(), tool.Schema()) {
			t.Errorf("%s is not found, or has another schema each time", tool.Name)
		}
	}
	if got, want := strings.Join(names, " "), "exec process run_code read write edit apply_patch ls glob grep image checkpoint browser"; got != want {
		t.Errorf("tools %s, want %s", got, want)
	}
	if _, ok := schema.Find("canvas"); ok {
		t.Error("a tool is found that there is not")
	}
}

// TestEveryFieldIsDescribed holds that what agents read of a field says what it
// is for, and that texts, lists and numbers have bounds.
func TestEveryFieldIsDescribed(t *testing.T) {
	for _, tool := range schema.All() {
		var root map[string]any
		if err := json.Unmarshal(tool.Schema(), &root); err != nil {
			t.Fatal(err)
		}
		properties, _ := root["properties"].(map[string]any)
		if len(properties) == 0 || root["additionalProperties"] != false {
			t.Errorf("%s has %d fields, others are %v", tool.Name, len(properties), root["additionalProperties"])
		}
		for name, p := range properties {
			s := p.(map[string]any)
			if d, _ := s["description"].(string); d == "" {
				t.Errorf("%s.%s is not described", tool.Name, name)
			}
			bound := map[any]string{"string": "maxLength", "integer": "maximum", "array": "maxItems", "object": "maxProperties"}[s["type"]]
			if bound != "" && s[bound] == nil && s["enum"] == nil {
				t.Errorf("%s.%s has no %s", tool.Name, name, bound)
			}
		}
	}
}

func TestDecode(t *testing.T) {
	for _, tt := range []struct{ tool, in, field, want string }{
		{"exec", `{"comand":"ls"}`, "comand", "unknown field"},
		{"exec", `{"command":"ls","command":"rm"}`, "command", "twice"},
		{"exec", `{"Command":"ls"}`, "Command", "unknown field"},
		{"exec", `{"command":null}`, "command", "missing"},
		{"exec", `null`, "command", "missing"},
		{"exec", `null null`, "", "an object, not null"},
		{"exec", `{"command":"ls","timeout":null,"timeout":5}`, "timeout", "twice"},
		{"exec", `{"command":["ls"]}`, "command", "must be a text, not a list"},
		{"exec", `{"command":"ls","timeout":0}`, "timeout", "from 1 to 86400, not 0"},
		{"exec", `{"command":"ls","timeout":"0"}`, "timeout", "from 1 to 86400, not 0"},
		{"exec", `{"command":"ls","timeout":"5s"}`, "timeout", `not "5s"`},
		{"exec", `{"command":"ls","timeout":""}`, "timeout", `not ""`},
		{"exec", `{"command":"ls","timeout":" 5"}`, "timeout", `not " 5"`},
		{"exec", `{"command":"ls","timeout":"true"}`, "timeout", "whole number"},
		{"exec", `{"command":"ls","timeout":true}`, "timeout", "whole number"},
		{"exec", `{"command":"ls","timeout":"1.5"}`, "timeout", "whole number"},
		{"exec", `{"command":"ls","background":1}`, "background", "true or false"},
		{"exec", `{"command":"ls","timeout":1.5}`, "timeout", "whole number, not 1.5"},
		{"exec", `{"command":"ls","timeout":1e99}`, "timeout", "whole number"},
		{"exec", `{"command":"ls","background":"yes"}`, "background", "true or false"},
		{"exec", `{"command":"ls","background":true,"env":{"A":1}}`, "env.A", "must be a text, not 1"},
		{"exec", `{"command":"ls","background":true,"env":{"A":"1","A":"2"}}`, "env.A", "twice"},
		{"exec", `{"command":"ls","env":{"A":"1"}}`, "env", "background or tty only"},
		{"exec", `{"command":"ls","dir":"/x"}`, "dir", "background or tty only"},
		{"exec", `{"command":"ls","restart":true,"tty":true}`, "restart", "does not go with"},
		{"exec", `{"restart":true,"stdin":"x"}`, "command", "missing"},
		{"exec", ``, "command", "missing"},
		{"exec", `[]`, "", "must be an object, not a list"},
		{"exec", `{"command":"ls"} {}`, "", "follows"},
		{"exec", `{"command":"ls"`, "", "no JSON"},
		{"exec", "{\"command\":\"\xff\"}", "", "UTF-8"},
		{"exec", `{"\u001b[31m":1}`, `\x1b[31m`, "unknown field"},
		{"write", `{"path":"x","content":"a\ud83db"}`, "content", "half a character"},
		{"write", `{"path":"x","content":"\ufffd\udc00\ud800 and \ud83d\ude00"}`, "content", "half a character"},
		{"write", `{"path":"x","content":"�\ud800"}`, "content", "half a character"},
		{"exec", `{"command":"x","background":true,"env":{"A\udfff":"1"}}`, "env.A�", "half a character"},
		{"process", `{"action":"stop"}`, "action", "must be one of list, poll, write, kill"},
		{"process", `{"id":"c1"}`, "action", "missing"},
		{"process", `{"action":"poll"}`, "id", "missing"},
		{"process", `{"action":"list","id":"c1"}`, "id", "does not go with list"},
		{"process", `{"action":"write","id":"c1"}`, "data", "missing"},
		{"process", `{"action":"kill","id":"c1","wait":1}`, "wait", "poll only"},
		{"process", `{"action":"poll","id":"c1","signal":"INT"}`, "signal", "kill only"},
		{"process", `{"action":"poll","id":"c1","eof":true}`, "data", "write only"},
		{"read", `{"path":""}`, "path", "empty"},
		{"read", `{"path":"x","limit":10001}`, "limit", "from 1 to 10000"},
		{"write", `{"path":"x"}`, "content", "missing"},
		{"write", `{"path":"x","content":null}`, "content", "missing"},
		{"write", `{"path":"file:x","content":""}`, "path", "relative"},
		{"write", `{"path":"file://host/x","content":""}`, "path", "host"},
		{"write", `{"path":"https://example.com/x","content":""}`, "path", "https"},
		{"write", `{"path":"file:///workspace/%ff","content":""}`, "path", "UTF-8"},
		{"browser", `{"action":"upload","selector":"a","files":["a","file:b"]}`, "files[1]", "relative"},
		{"browser", `{"action":"navigate","url":"file://host/x"}`, "url", "host"},
		{"edit", `{"path":"x","edits":[null]}`, "edits[0]", "null"},
		{"edit", `{"path":"x"}`, "old", "missing"},
		{"edit", `{"path":"x","old":"a","edits":[{"old":"a","new":"b"}]}`, "edits", "without old"},
		{"edit", `{"path":"x","edits":[{"old":"a","new":"b"},{"old":"a"}]}`, "edits[1].new", "missing"},
		{"edit", `{"path":"x","edits":[{"old":"a","new":"b","al":true}]}`, "edits[0].al", "unknown field"},
		{"edit", `{"path":"x","edits":{"old":"a"}}`, "edits", "must be a list"},
		{"edit", `{"path":"x","edits":[` + strings.Repeat(`{"old":"a","new":"b"},`, 100) + `{"old":"a","new":"b"}]}`, "edits", "more than 100"},
		{"apply_patch", `{}`, "patch", "missing"},
		{"glob", `{"pattern":"` + strings.Repeat("x", 1025) + `"}`, "pattern", "1025 characters"},
		{"grep", `{"pattern":"x","mode":"all"}`, "mode", "lines, files, count"},
		{"checkpoint", `{}`, "action", "missing"},
		{"checkpoint", `{"action":"rm","checkpoint":"a"}`, "action", "must be one of"},
		{"checkpoint", `{"action":"rollback"}`, "checkpoint", "missing"},
		{"checkpoint", `{"action":"list","name":"a"}`, "name", "create only"},
		{"checkpoint", `{"action":"create","checkpoint":"a"}`, "checkpoint", "rollback only"},
		{"browser", `{"action":"navigate"}`, "url", "missing"},
		{"browser", `{"action":"click","selector":"a","text":"x"}`, "text", "does not go with click"},
		{"browser", `{"action":"extract","parts":["text","html"]}`, "parts[1]", "must be one of"},
		{"browser", `{"action":"wait"}`, "selector", "text has to be there"},
		{"browser", `{"action":"wait","text":"x","gone":true}`, "gone", "selector"},
		{"browser", `{"action":"screenshot","selector":"a","full":true}`, "full", "selector"},
	} {
		tool, _ := schema.Find(tt.tool)
		err := tool.Validate([]byte(tt.in))
		var e *sandbox.Error
		if !errors.As(err, &e) || e.Code != sandbox.CodeValidation || e.Op != tt.tool {
			t.Errorf("%s %.80s: got %v", tt.tool, tt.in, err)
			continue
		}
		if e.Field != tt.field || !strings.Contains(e.Message, tt.want) {
			t.Errorf("%s %.80s: field %q: %s; want field %q: %s", tt.tool, tt.in, e.Field, e.Message, tt.field, tt.want)
		}
	}
}

func TestDefaults(t *testing.T) {
	got, err := schema.Decode[schema.Read]("read", []byte(`{"path":"x","limit":3.0e1}`))
	if want := (schema.Read{Path: "x", Offset: 1, Limit: 30}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	for _, in := range []string{`"\ud83d\ude00"`, `"\ufffd"`, "\"\ufffd\""} {
		if _, err := schema.Decode[schema.Write]("write", []byte(`{"path":"x","content":`+in+`}`)); err != nil {
			t.Errorf("%s: %v", in, err)
		}
	}
	list, err := schema.Decode[schema.Ls]("ls", nil)
	if want := (schema.Ls{Path: ".", Limit: 500}); err != nil || list != want {
		t.Errorf("got %+v, %v, want %+v", list, err, want)
	}
	exec, err := schema.Decode[schema.Exec]("exec", []byte(`{"command":"x","tty":true,"env":{"A":"b"}}`))
	if want := (schema.Exec{Command: "x", TTY: true, Rows: 24, Cols: 80, Env: map[string]string{"A": "b"}}); err != nil || !reflect.DeepEqual(exec, want) {
		t.Errorf("got %+v, %v, want %+v", exec, err, want)
	}
	e, err := schema.Decode[schema.Edit]("edit", []byte(`{"path":"x","edits":[{"old":"a","new":"b","all":true}]}`))
	if err != nil || len(e.Edits) != 1 || !e.Edits[0].All || e.Edits[0].New != "b" {
		t.Errorf("got %+v, %v", e, err)
	}
}

// TestLenient holds that what clients write for lack of types is read as what it
// means, in every field of that kind.
func TestLenient(t *testing.T) {
	exec, err := schema.Decode[schema.Exec]("exec", []byte(`{"command":"x","dir":"file:///workspace/a%20b","env":{"A":"b","B":null},"stdin":null,"timeout":"30","background":"true","tty":"False","rows":null,"cols":"1e2","restart":null}`))
	if want := (schema.Exec{Command: "x", Dir: "/workspace/a b", Env: map[string]string{"A": "b"}, Timeout: 30, Background: true, Rows: 24, Cols: 100}); err != nil || !reflect.DeepEqual(exec, want) {
		t.Errorf("got %+v, %v, want %+v", exec, err, want)
	}
	e, err := schema.Decode[schema.Edit]("edit", []byte(`{"path":"sandbox:///workspace/x","old":null,"new":null,"all":null,"edits":[{"old":"a","new":"b","all":"true"},{"old":"c","new":"d","all":null}]}`))
	if want := (schema.Edit{Path: "/workspace/x", Edits: []schema.EditPart{{Old: "a", New: "b", All: true}, {Old: "c", New: "d"}}}); err != nil || !reflect.DeepEqual(e, want) {
		t.Errorf("got %+v, %v, want %+v", e, err, want)
	}
	list, err := schema.Decode[schema.Ls]("ls", []byte(" null\n"))
	if want := (schema.Ls{Path: ".", Limit: 500}); err != nil || list != want {
		t.Errorf("got %+v, %v, want %+v", list, err, want)
	}
	page, err := schema.Decode[schema.Browser]("browser", []byte(`{"action":"navigate","url":"sandbox:///workspace/a.html","files":null,"parts":null}`))
	if err != nil || page.URL != "/workspace/a.html" {
		t.Errorf("got %+v, %v", page, err)
	}
	if page, err = schema.Decode[schema.Browser]("browser", []byte(`{"action":"navigate","url":"https://example.com/?q#f"}`)); err != nil || page.URL != "https://example.com/?q#f" {
		t.Errorf("got %+v, %v", page, err)
	}

	for _, tool := range schema.All() {
		var root struct {
			Properties map[string]struct{ Description string }
			Required   []string
		}
		if err := json.Unmarshal(tool.Schema(), &root); err != nil {
			t.Fatal(err)
		}
		var input map[string]any
		if err := json.Unmarshal([]byte(tool.Examples[0]), &input); err != nil {
			t.Fatal(err)
		}
		for name := range root.Properties {
			if _, given := input[name]; !given {
				input[name] = nil
			}
		}
		data, err := json.Marshal(input)
		if err != nil {
			t.Fatal(err)
		}
		if err := tool.Validate(data); err != nil {
			t.Errorf("%s with null for what is left out: %s: %v", tool.Name, data, err)
		}
	}
}

// typed is a value as its schema has it, where the reader takes other forms.
func typed(v any, s map[string]any) any {
	switch x := v.(type) {
	case map[string]any:
		properties, _ := s["properties"].(map[string]any)
		rest, _ := s["additionalProperties"].(map[string]any)
		for name, e := range x {
			of, ok := properties[name].(map[string]any)
			if !ok {
				of = rest
			}
			if e == nil {
				delete(x, name)
			} else {
				x[name] = typed(e, of)
			}
		}
	case []any:
		of, _ := s["items"].(map[string]any)
		for i, e := range x {
			x[i] = typed(e, of)
		}
	case string:
		switch {
		case s["type"] == "integer":
			return json.Number(x)
		case s["type"] == "boolean":
			return strings.EqualFold(x, "true")
		}
	}
	return v
}

// FuzzDecode holds that what a schema refuses is refused by its tool too, but
// for the forms of [typed] and for paths that are longer as URLs.
func FuzzDecode(f *testing.F) {
	var schemas []*jsonschema.Schema
	for i, tool := range schema.All() {
		schemas = append(schemas, compiled(f, tool))
		for _, e := range tool.Examples {
			f.Add(uint8(i), []byte(e))
		}
	}
	f.Add(uint8(0), []byte(`{"command":"x","env":{"a":"b"},"tty":true}`))
	f.Add(uint8(0), []byte(`{"command":"x","env":{"a":null},"tty":"true","timeout":"5","dir":"file:///workspace"}`))
	tools := schema.All()
	f.Fuzz(func(t *testing.T, i uint8, data []byte) {
		tool := tools[int(i)%len(tools)]
		err := tool.Validate(data)
		if err != nil {
			if sandbox.CodeOf(err) != sandbox.CodeValidation {
				t.Fatalf("%v", err)
			}
			return
		}
		if b := bytes.TrimSpace(data); len(b) == 0 || string(b) == "null" {
			return
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
		if err != nil {
			t.Fatalf("%s was taken, and is no JSON: %v", data, err)
		}
		var root map[string]any
		if err := json.Unmarshal(tool.Schema(), &root); err != nil {
			t.Fatal(err)
		}
		if err := schemas[int(i)%len(tools)].Validate(typed(doc, root)); err != nil && !strings.Contains(string(data), "%") {
			t.Fatalf("%s takes %s, and its schema does not: %v", tool.Name, data, err)
		}
	})
}
