package mcpserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/tools"
	"github.com/bulkhead-dev/sandbox/tools/schema"
)

var errEnded = errors.New("the session of the client has ended")

// A Problem is an error as a tool answers with it.
type Problem struct {
	Code      sandbox.Code `json:"code" doc:"What went wrong, by its stable name."`
	Message   string       `json:"message" doc:"The same in one sentence."`
	Field     string       `json:"field,omitempty" doc:"The argument or setting at fault."`
	Resource  string       `json:"resource,omitempty" doc:"What it is about."`
	Hint      string       `json:"hint,omitempty" doc:"What can be done."`
	Retryable bool         `json:"retryable,omitempty" doc:"The same call may succeed later."`
}

// A failure is the structured content of an answer that is an error.
type failure struct {
	Error Problem `json:"error"`
}

// problem is what is told of an error. Of one without a code nothing is told:
// its text may name what is outside.
func problem(err error) Problem {
	var e *sandbox.Error
	if !errors.As(err, &e) {
		return Problem{Code: sandbox.CodeInternal, Message: "something went wrong that should not have"}
	}
	message := e.Message
	if cause := e.Err; cause != nil && e.Code != sandbox.CodeInternal {
		message = strings.TrimPrefix(message+": "+cause.Error(), ": ")
	}
	return Problem{Code: e.Code, Message: message, Field: e.Field, Resource: e.Resource, Hint: e.Hint, Retryable: e.Retryable}
}

// failed is the answer that an error makes.
func failed(err error) *mcp.CallToolResult {
	p := problem(err)
	text := string(p.Code) + ": " + p.Message
	if p.Field != "" {
		text = string(p.Code) + ": " + p.Field + ": " + p.Message
	}
	if p.Hint != "" {
		text += "\n" + p.Hint
	}
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: text}}, StructuredContent: failure{p}}
}

// answered is the answer of a tool that was carried out.
func answered(a tools.Answer) *mcp.CallToolResult {
	r := &mcp.CallToolResult{IsError: a.Failed, StructuredContent: a.Data}
	if a.Text != "" || len(a.Pictures) == 0 {
		r.Content = append(r.Content, &mcp.TextContent{Text: strings.ToValidUTF8(a.Text, "\ufffd")})
	}
	for _, p := range a.Pictures {
		r.Content = append(r.Content, &mcp.ImageContent{MIMEType: p.MIME, Data: p.Data})
	}
	return r
}

// answers is the schema of a tool's structured content: its result, or an error.
func answers(t schema.Tool) json.RawMessage {
	result, wrong := bare(t.OutputSchema()), bare(schema.Define[struct{}, failure](schema.Tool{Name: "error", Version: "1.0.0"}).OutputSchema())
	out, err := json.Marshal(map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "title": t.Title + ": the answer", "anyOf": []any{result, wrong},
	})
	if err != nil {
		panic(err) // it was JSON before
	}
	return out
}

// bare is a schema without what only a whole document has.
func bare(document []byte) map[string]any {
	var s map[string]any
	d := json.NewDecoder(bytes.NewReader(document))
	d.UseNumber()
	if err := d.Decode(&s); err != nil {
		panic(err) // schemas are JSON
	}
	delete(s, "$schema")
	delete(s, "$id")
	return s
}
