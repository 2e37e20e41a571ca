//go:build !sandbox_front && !sandbox_engine

package main

import (
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// A walkedSchema is as much of a schema of the OpenAPI document as a body needs.
type walkedSchema struct {
	Ref        string                  `json:"$ref"`
	Type       any                     `json:"type"`
	Enum       []any                   `json:"enum"`
	Required   []string                `json:"required"`
	Properties map[string]walkedSchema `json:"properties"`
	Items      *walkedSchema           `json:"items"`
	Minimum    float64                 `json:"minimum"`
	MinItems   int                     `json:"minItems"`
	OneOf      []walkedSchema          `json:"oneOf"`
	AnyOf      []walkedSchema          `json:"anyOf"`
	AllOf      []walkedSchema          `json:"allOf"`
}

type walkedParameter struct {
	Name     string       `json:"name"`
	In       string       `json:"in"`
	Required bool         `json:"required"`
	Schema   walkedSchema `json:"schema"`
}

type walkedOperation struct {
	ID          string            `json:"operationId"`
	Parameters  []walkedParameter `json:"parameters"`
	WebSocket   bool              `json:"x-websocket"`
	RequestBody *struct {
		Content map[string]struct {
			Schema walkedSchema `json:"schema"`
		} `json:"content"`
	} `json:"requestBody"`
}

type walkedDocument struct {
	Paths      map[string]map[string]walkedOperation `json:"paths"`
	Components struct {
		Schemas map[string]walkedSchema `json:"schemas"`
	} `json:"components"`
}

// value returns the smallest value that s describes.
func (d *walkedDocument) value(s walkedSchema) any {
	for _, more := range [][]walkedSchema{s.OneOf, s.AnyOf, s.AllOf} {
		if len(more) > 0 {
			return d.value(more[0])
		}
	}
	kind, _ := s.Type.(string)
	switch {
	case s.Ref != "":
		return d.value(d.Components.Schemas[s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]])
	case len(s.Enum) > 0:
		return s.Enum[0]
	case kind == "object" || len(s.Properties) > 0:
		out := map[string]any{}
		for _, name := range s.Required {
			out[name] = d.value(s.Properties[name])
		}
		return out
	case kind == "array":
		out := []any{}
		for range s.MinItems {
			out = append(out, d.value(*s.Items))
		}
		return out
	case kind == "integer" || kind == "number":
		return max(s.Minimum, 1)
	case kind == "boolean":
		return false
	}
	return "x"
}

// mustSay are the fields that a route wants beyond those that its schema requires.
var mustSay = map[string]map[string]any{
	"exec":         {"line": "true"},
	"execStream":   {"line": "true"},
	"startProcess": {"line": "true"},
	"callTool":     {"command": "true"},
	"writeProcess": {"data": "x"},
	"stageMedia":   {"refs": []string{"/srv/inbox/a"}},
}

// inPath are values of parameters of paths.
var inPath = map[string]string{"pid": "1", "port": "8080", "tool": "exec", "action": "screenshot", "path": "workspace/x"}

// ofAdmins are the operations on a sandbox that no tenant has, of whichever sandbox.
var ofAdmins = []string{"applyChanges", "undoChanges"}

// TestRoutesOfAnotherTenant sends a request for the sandbox of another tenant to
// each route of the OpenAPI document that names a sandbox: it is not found, or refused as
// that of any sandbox is, and the answer is the same as for one that never was.
func TestRoutesOfAnotherTenant(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.settings("", "")
	d := s.server(filepath.Join(t.TempDir(), "d.sock"), tcp)
	res := d.get("/openapi.json")
	doc := answer[walkedDocument](d, res, 200)
	caller := d.guest(s.token("acme"))
	theirs := answer[api.Sandbox](d, d.post("/v1/sandboxes", `{"session":"s"}`, api.HeaderTenant, "globex"), 201)
	own := answer[api.Sandbox](d, d.post("/v1/sandboxes", `{"session":"s"}`, api.HeaderTenant, "acme"), 201)
	never := theirs.Name[:len(theirs.Name)-4] + "zzzz"

	ask := func(method, pattern, name string, o walkedOperation) (int, string) {
		t.Helper()
		path, query := strings.ReplaceAll(pattern, "{name}", name), ""
		for _, p := range o.Parameters {
			if p.In == "path" {
				v := inPath[p.Name]
				if v == "" {
					v = "0123456789abcdef"
				}
				path = strings.ReplaceAll(path, "{"+p.Name+"}", v)
			}
			if p.In == "query" && p.Required {
				query = "?" + p.Name + "=x"
			}
		}
		var header []string
		var body io.Reader
		if o.RequestBody != nil {
			for content, m := range o.RequestBody.Content {
				header = []string{"Content-Type", content}
				body = strings.NewReader("")
				if content == api.ContentJSON {
					v := doc.value(m.Schema)
					for field, x := range mustSay[o.ID] {
						v.(map[string]any)[field] = x
					}
					text, err := json.Marshal(v)
					if err != nil {
						t.Fatal(err)
					}
					body = strings.NewReader(string(text))
				}
			}
		}
		if o.WebSocket {
			header = append(header, "Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "MDEyMzQ1Njc4OWFiY2RlZg==")
		}
		r, err := http.NewRequest(strings.ToUpper(method), caller.base+path+query, body)
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range caller.headers {
			r.Header.Set(k, v)
		}
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		res, err := caller.http.Do(r)
		if err != nil {
			t.Fatalf("%s: %v", o.ID, err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
		if err != nil {
			t.Fatalf("%s: %v", o.ID, err)
		}
		var p map[string]any
		if json.Unmarshal(text, &p) == nil {
			delete(p, "requestId")
			clean, _ := json.Marshal(p)
			text = clean
		}
		return res.StatusCode, strings.ReplaceAll(string(text), name, "NAME")
	}

	asked := 0
	for pattern, methods := range doc.Paths {
		if !strings.Contains(pattern, "{name}") {
			continue
		}
		for method, o := range methods {
			asked++
			status, text := ask(method, pattern, theirs.Name, o)
			want, code := http.StatusNotFound, sandbox.CodeNotFound
			if slices.Contains(ofAdmins, o.ID) {
				want, code = http.StatusForbidden, sandbox.CodePermissionDeny
			}
			if status != want || !strings.Contains(text, `"code":"`+string(code)+`"`) {
				t.Errorf("%s %s (%s): %d %s", method, pattern, o.ID, status, text)
			}
			if strings.Contains(text, "globex") || strings.Contains(text, "acme") {
				t.Errorf("%s: the answer names a tenant: %s", o.ID, text)
			}
			if _, want := ask(method, pattern, never, o); text != want {
				t.Errorf("%s: theirs is\n%s\nand one that never was\n%s", o.ID, text, want)
			}
		}
	}
	if asked < 40 {
		t.Errorf("the document has only %d such routes", asked)
	}
	// The requests are whole: of one's own sandbox they are not found for no such
	// reason.
	for pattern, methods := range doc.Paths {
		for method, o := range methods {
			if strings.Contains(pattern, "{name}") && method == "get" && !o.WebSocket && !slices.Contains([]string{"watchFiles", "followProcess"}, o.ID) {
				if status, text := ask(method, pattern, own.Name, o); status == 404 && strings.Contains(text, "no such sandbox") {
					t.Errorf("%s: %s", o.ID, text)
				}
			}
		}
	}
	for _, x := range []struct{ method, path, body, want string }{
		{"GET", "", "", `"status":"running"`}, {"POST", "/exec", `{"line":"ls -A /workspace"}`, `"stdout":""`},
		{"GET", "/processes", "", `"items":[]`}, {"GET", "/shares", "", `"items":[]`}, {"GET", "/shells", "", `"items":[]`},
	} {
		res, err := d.own("globex").ask(x.method, "/v1/sandboxes/"+theirs.Name+x.path, strings.NewReader(x.body))
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if !strings.Contains(string(text), x.want) {
			t.Errorf("afterwards %s of theirs is %s, want %s", x.path, text, x.want)
		}
	}
	d.quiet()
}
