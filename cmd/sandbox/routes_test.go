//go:build !sandbox_front && !sandbox_engine

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox/internal/cli"
)

const routesFile = "../../docs/routes.md"

// An apiDocument is what the page of routes shows of the OpenAPI document.
type apiDocument struct {
	Tags       []struct{ Name string }
	Paths      map[string]map[string]apiOperation
	Components struct{ Schemas map[string]apiSchema }
}

type apiOperation struct {
	Summary    string
	Tags       []string
	Role       string `json:"x-least-role"`
	Parameters []struct{ In, Name string }
	Body       struct {
		Content map[string]struct {
			Schema struct {
				Ref string `json:"$ref"`
			}
		}
	} `json:"requestBody"`
}

type apiSchema struct {
	Properties map[string]any
	Required   []string
}

// body names the fields of the body of o, a required one in bold, or the type
// of one that is not JSON.
func (d apiDocument) body(o apiOperation) string {
	content, ok := o.Body.Content["application/json"]
	if !ok {
		return strings.Join(slices.Sorted(maps.Keys(o.Body.Content)), ", ")
	}
	schema := d.Components.Schemas[path.Base(content.Schema.Ref)]
	names := slices.Sorted(maps.Keys(schema.Properties))
	for i, name := range names {
		if slices.Contains(schema.Required, name) {
			names[i] = "**" + name + "**"
		}
	}
	return strings.Join(names, ", ")
}

// routesPage writes docs/routes.md of the OpenAPI document.
func routesPage(document []byte) (string, error) {
	var d apiDocument
	if err := json.Unmarshal(document, &d); err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("# Routes of the HTTP interface\n\nAfter this page you know every route of the daemon, the role that it needs, its query parameters and the fields of its\n" +
		"body (required ones in bold). [api.md](api.md) explains them, [openapi.json](openapi.json) has types and answers. `…` is\n`/v1/sandboxes/{name}`. " +
		"`/mcp` is described in [mcp.md](mcp.md).\n`make openapi` writes this page.\n")
	for _, tag := range d.Tags {
		head := fmt.Sprintf("\n## %s\n\n| route | does | role | query | body |\n|---|---|---|---|---|\n", tag.Name)
		for _, p := range slices.Sorted(maps.Keys(d.Paths)) {
			for _, method := range slices.Sorted(maps.Keys(d.Paths[p])) {
				o := d.Paths[p][method]
				if !slices.Contains(o.Tags, tag.Name) {
					continue
				}
				var query []string
				for _, param := range o.Parameters {
					if param.In == "query" {
						query = append(query, param.Name)
					}
				}
				role := o.Role
				if role == "" {
					role = "none"
				}
				short := strings.Replace(p, "/v1/sandboxes/{name}", "…", 1)
				row := fmt.Sprintf("| `%s %s` | %s | %s | %s | %s |\n", strings.ToUpper(method), short, o.Summary, role, strings.Join(query, ", "), d.body(o))
				b.WriteString(head + strings.ReplaceAll(row, "|  |", "| |"))
				head = ""
			}
		}
	}
	return b.String(), nil
}

// TestRoutesPageIsFresh checks that docs/routes.md shows every route that the
// daemon of this program serves.
func TestRoutesPageIsFresh(t *testing.T) {
	t.Parallel()
	log := logrus.New()
	log.SetOutput(os.Stderr)
	d, err := newDaemon(cli.Options{StateDir: t.TempDir() + "/state", Log: log}, "test")
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	document, err := d.server.Document()
	if err != nil {
		t.Fatal(err)
	}
	page, err := routesPage(document)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(routesFile, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	written, err := os.ReadFile(routesFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(written) != page {
		t.Error("docs/routes.md does not show the routes of the daemon; run: make openapi")
	}
	routes := strings.Count(string(document), `"operationId"`)
	if rows := strings.Count(page, "\n| `"); rows != routes || routes < 60 {
		t.Errorf("docs/routes.md shows %d of %d routes", rows, routes)
	}
}
