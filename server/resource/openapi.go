// This file writes the table of routes as an OpenAPI 3.1 document, which
// describes what the daemon serves, and against which its tests check every
// request and answer.

package resource

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/bulkhead-dev/sandbox/internal/jsonschema"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// openapiVersion is the version of the interface, by SemVer.
const openapiVersion = "1.0.0"

// A doc is a part of the document.
type doc = map[string]any

// Document returns the document of routes as JSON. The output is deterministic.
func Document(routes []Route) ([]byte, error) {
	b := builder{schemas: schemas{all: map[string]any{}, names: map[component]string{}}, responses: doc{}, tags: map[string]bool{}}
	b.schemas.of(api.Problem{}, jsonschema.Output)
	paths := doc{}
	for _, r := range routes {
		at := pathOf(r.Path)
		if paths[at] == nil {
			paths[at] = doc{}
		}
		paths[at].(doc)[strings.ToLower(r.Method)] = b.operation(r)
	}
	data, err := json.MarshalIndent(doc{
		"openapi": "3.1.0",
		"info": doc{
			"title": "sandbox", "version": openapiVersion, "summary": "Sandboxes for untrusted code",
			"description": "Over a unix socket its own user and root are admins; everybody else, and over TCP everybody, has a bearer token. " +
				"On whose behalf a request is the headers Sandbox-Tenant, Sandbox-Agent and Sandbox-Session say, within what the token may name. " +
				"Paths that do not exist, and what belongs to another caller, are not found, in the same words.",
		},
		"servers":  []any{doc{"url": "http://{host}", "description": "The address that sandbox serve listens on", "variables": doc{"host": doc{"default": "127.0.0.1:8421"}}}},
		"security": []any{doc{"bearer": []string{}}, doc{}},
		"tags":     b.tagList(),
		"paths":    paths,
		"components": doc{
			"schemas": b.schemas.all, "responses": b.responses, "parameters": parameters(),
			"securitySchemes": doc{"bearer": doc{"type": "http", "scheme": "bearer", "description": "A token of sandbox token create, or a child of one"}},
		},
	}, "", "  ")
	return append(data, '\n'), err
}

// pathOf returns a path in the form of OpenAPI, which has no parameters of
// several segments.
func pathOf(pattern string) string { return strings.ReplaceAll(pattern, "...}", "}") }

type builder struct {
	schemas   schemas
	responses doc
	tags      map[string]bool
}

func (b *builder) tagList() []any {
	names := []string{}
	for t := range b.tags {
		names = append(names, t)
	}
	slices.Sort(names)
	out := []any{}
	for _, t := range names {
		out = append(out, doc{"name": t, "description": "About " + t})
	}
	return out
}

func (b *builder) operation(r Route) doc {
	b.tags[r.Tag] = true
	op := doc{"operationId": r.ID, "summary": r.Summary, "tags": []string{r.Tag}, "parameters": b.params(r), "responses": b.answers(r)}
	if r.Doc != "" {
		op["description"] = r.Doc
	}
	if r.Role == "" {
		op["security"] = []any{}
	} else {
		op["x-least-role"] = string(r.Role)
	}
	switch {
	case r.Request != nil:
		op["requestBody"] = doc{"content": doc{api.ContentJSON: doc{"schema": b.schemas.of(r.Request, jsonschema.Input)}}}
	case r.RequestContent != "":
		op["requestBody"] = doc{"required": true, "content": doc{r.RequestContent: binary()}}
	}
	if r.Socket {
		op["x-websocket"] = true
	}
	if len(r.Events) > 0 {
		events := doc{}
		for _, e := range r.Events {
			events[e.Name] = doc{"description": e.Doc, "data": b.schemas.of(e.Data, jsonschema.Output)}
		}
		op["x-events"] = events
	}
	return op
}

// binary describes content that is not JSON.
func binary() doc { return doc{"schema": doc{"type": "string", "format": "binary"}} }

// params returns the parameters of an operation.
func (b *builder) params(r Route) []any {
	out := []any{}
	for segment := range strings.SplitSeq(r.Path, "/") {
		name, ok := strings.CutPrefix(segment, "{")
		if !ok || segment == "{$}" {
			continue
		}
		p := doc{"in": "path", "required": true, "name": strings.TrimSuffix(strings.TrimSuffix(name, "}"), "...")}
		p["schema"] = doc{"type": "string", "pattern": "^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$"}
		if strings.HasSuffix(name, "...}") {
			p["schema"], p["description"] = doc{"type": "string"}, "May have several segments"
		}
		out = append(out, p)
	}
	for _, q := range r.Query {
		out = append(out, param("query", q))
	}
	for _, h := range r.Header {
		out = append(out, param("header", h))
	}
	if r.Settings {
		out = append(out, doc{"$ref": "#/components/parameters/Settings"})
	}
	if r.Role != "" {
		for _, name := range []string{"Tenant", "Agent", "Session"} {
			out = append(out, doc{"$ref": "#/components/parameters/" + name})
		}
	}
	return append(out, doc{"$ref": "#/components/parameters/RequestID"}, doc{"$ref": "#/components/parameters/Traceparent"})
}

func param(in string, p Param) doc {
	s := doc{"type": string(Text)}
	if p.Type != "" {
		s["type"] = string(p.Type)
	}
	if len(p.Enum) > 0 {
		s["enum"] = p.Enum
	}
	if p.Type == Integer && (p.Min != 0 || p.Max != 0) {
		s["minimum"], s["maximum"] = p.Min, p.Max
	}
	if p.Length > 0 {
		s["maxLength"] = p.Length
	}
	if p.Repeat {
		s = doc{"type": "array", "items": s}
	}
	out := doc{"in": in, "name": p.Name, "schema": s}
	if p.Required {
		out["required"] = true
	}
	if p.Doc != "" {
		out["description"] = p.Doc
	}
	return out
}

// parameters returns the headers of every route.
func parameters() doc {
	header := func(name, says string) doc {
		return doc{"in": "header", "name": name, "description": says, "schema": doc{"type": "string"}}
	}
	return doc{
		"Tenant":      header(api.HeaderTenant, "On whose behalf; admins choose, others have their own"),
		"Agent":       header(api.HeaderAgent, "Who speaks; main without"),
		"Session":     header(api.HeaderSession, "The conversation; default without"),
		"Settings":    header(api.HeaderSettings, `Settings of this call alone, for admins: {"settings":{…},"workspace":"…"} in ASCII, with settings as agents.defaults.sandbox of a settings file and a folder of the daemon's machine as the workspace. Every call about the sandbox sends the same; other settings make another sandbox`),
		"RequestID":   header(api.HeaderRequestID, "Up to 64 of A-Z a-z 0-9 . _ -; taken over into the answer and into records"),
		"Traceparent": header(api.HeaderTraceparent, "W3C Trace Context; the answer has our place in the trace"),
	}
}

// answers returns the responses of an operation.
func (b *builder) answers(r Route) doc {
	out := doc{}
	content := doc{}
	if r.Response != nil {
		content[api.ContentJSON] = doc{"schema": b.schemas.of(r.Response, jsonschema.Output)}
	}
	for _, c := range r.ResponseContent {
		content[c] = binary()
	}
	if len(r.Events) > 0 && !r.Socket {
		content[api.ContentEvents] = doc{"schema": doc{"type": "string", "description": "Events, see x-events"}}
	}
	for _, status := range append([]int{success(r)}, r.Also...) {
		answer := doc{"description": http.StatusText(status)}
		if len(content) > 0 && status >= 200 {
			answer["content"] = content
		}
		out[strconv.Itoa(status)] = answer
	}
	for _, status := range r.Replies {
		out[strconv.Itoa(status)] = doc{"description": http.StatusText(status)}
	}
	for _, status := range problemsOpenapi(r) {
		out[strconv.Itoa(status)] = doc{"$ref": "#/components/responses/" + b.problem(status)}
	}
	return out
}

func success(r Route) int {
	switch {
	case r.Status != 0:
		return r.Status
	case r.Socket:
		return http.StatusSwitchingProtocols
	case r.Response == nil && len(r.ResponseContent) == 0 && len(r.Events) == 0:
		return http.StatusNoContent
	}
	return http.StatusOK
}

// problemsOpenapi returns the statuses of the problems that a route may answer
// with.
func problemsOpenapi(r Route) []int {
	out := append([]int{http.StatusForbidden, http.StatusUnprocessableEntity, http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusGatewayTimeout}, r.Errors...)
	if r.Role != "" {
		out = append(out, http.StatusUnauthorized, http.StatusTooManyRequests)
	}
	if strings.Contains(r.Path, "{") {
		out = append(out, http.StatusNotFound)
	}
	if r.Request != nil || r.RequestContent != "" {
		out = append(out, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	if r.Socket {
		out = append(out, http.StatusUpgradeRequired)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// problem returns the name of the response of that status.
func (b *builder) problem(status int) string {
	name := "Problem" + strconv.Itoa(status)
	answer := doc{"description": http.StatusText(status), "content": doc{api.ContentProblem: doc{"schema": b.schemas.of(api.Problem{}, jsonschema.Output)}}}
	headers := doc{api.HeaderRequestID: doc{"description": "Of this request", "schema": doc{"type": "string"}}}
	switch status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		headers["Retry-After"] = doc{"description": "In how many seconds it is worth to try again, where it is", "schema": doc{"type": "integer"}}
	case http.StatusUnauthorized:
		headers["WWW-Authenticate"] = doc{"description": "Bearer", "schema": doc{"type": "string"}}
	}
	answer["headers"] = headers
	b.responses[name] = answer
	return name
}
