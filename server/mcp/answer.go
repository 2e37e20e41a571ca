package mcp

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

// A Problem is the form of an error in a tool's answer.
type Problem struct {
	Code      sandbox.Code `json:"code" doc:"What went wrong, by its stable name."`
	Message   string       `json:"message" doc:"The same in one sentence."`
	Field     string       `json:"field,omitempty" doc:"The argument or setting at fault."`
	Resource  string       `json:"resource,omitempty" doc:"What it is about."`
	Hint      string       `json:"hint,omitempty" doc:"What can be done."`
	Retryable bool         `json:"retryable,omitempty" doc:"The same call may succeed later."`
}

// A failure is the structured content of an error answer.
type failure struct {
	Error Problem `json:"error"`
}

// problem returns what a client may know of err. Of an error without a code it
// returns no text: the text may name files of the host.
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

// problem returns what this server's clients may know of err: where private
// names are to be hidden it leaves out those and the causes, which are texts of
// other programs.
func (s *Server) problem(err error) Problem {
	if len(s.o.Private) == 0 {
		return problem(err)
	}
	var e *sandbox.Error
	if errors.As(err, &e) {
		bare := *e
		bare.Err = nil
		err = &bare
	}
	p := problem(err)
	for _, text := range []string{p.Message, p.Field, p.Resource, p.Hint} {
		for _, private := range s.o.Private {
			if private != "" && strings.Contains(text, private) {
				s.o.Log.WithError(err).Warn("an error names what its client may not know")
				return Problem{Code: p.Code, Message: "it has failed for a reason that only who runs the server may know", Retryable: p.Retryable}
			}
		}
	}
	return p
}

// failed returns the answer for an error.
func (s *Server) failed(err error) *mcp.CallToolResult {
	p := s.problem(err)
	text := string(p.Code) + ": " + p.Message
	if p.Field != "" {
		text = string(p.Code) + ": " + p.Field + ": " + p.Message
	}
	if p.Hint != "" {
		text += "\n" + p.Hint
	}
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: text}}, StructuredContent: failure{p}}
}

// answered returns the answer of a tool that was carried out.
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

// answers returns the schema of a tool's structured content: its result, or an
// error.
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

// bare returns a schema without the keywords that only a whole document has.
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
