package api

import "encoding/json"

// A Tool is a tool that an agent of the session may call.
type Tool struct {
	Name         string          `json:"name"`
	Title        string          `json:"title"`
	Description  string          `json:"description"`
	InputSchema  json.RawMessage `json:"inputSchema" doc:"JSON Schema of what the tool is called with"`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty" doc:"JSON Schema of data"`
	ReadOnly     bool            `json:"readOnly"`
	Destructive  bool            `json:"destructive"`
	Idempotent   bool            `json:"idempotent"`
	OpenWorld    bool            `json:"openWorld"`
}

// A ToolList holds the tools of a session.
type ToolList struct {
	Items []Tool `json:"items"`
}

// A ToolAnswer is the result of a tool. A tool that failed inside the sandbox
// answers with Failed; a call that was refused or could not be carried out is a
// [Problem].
type ToolAnswer struct {
	Text     string          `json:"text"`
	Pictures []Picture       `json:"pictures"`
	Data     json.RawMessage `json:"data,omitempty" doc:"The same for programs"`
	Failed   bool            `json:"failed"`
}

// A Picture is an image that a tool returns.
type Picture struct {
	MIME string `json:"mime"`
	Data []byte `json:"data"`
}

// Events of a streamed tool, beside [EventError].
const (
	EventProgress = "progress" // data is a [ToolProgress]
	EventAnswer   = "answer"   // data is a [ToolAnswer]; the last event
)

// A ToolProgress says how far a tool is.
type ToolProgress struct {
	Message string `json:"message,omitempty"`
	Bytes   int64  `json:"bytes"`
	Lines   int64  `json:"lines"`
}
