package sandbox

import "encoding/json"

// The kinds of a [CodeEvent].
const (
	CodeEventStdout    = "stdout"    // Text
	CodeEventStderr    = "stderr"    // Text
	CodeEventResult    = "result"    // Result
	CodeEventError     = "error"     // Error: the code has failed
	CodeEventCount     = "count"     // ExecutionCount: the code begins
	CodeEventTimeout   = "timeout"   // the code is interrupted at its time limit
	CodeEventTruncated = "truncated" // Dropped
)

// A CodeEvent is one thing that code in a kernel of a sandbox comes to, in the
// order in which it came. All of it comes from inside the sandbox and can be
// forged by the code.
type CodeEvent struct {
	Type           string       `json:"type" enum:"stdout,stderr,result,error,count,timeout,truncated" doc:"Which of the others is there"`
	Text           string       `json:"text,omitempty" doc:"A piece of what the code writes, for stdout and stderr"`
	Result         *CodeDisplay `json:"result,omitempty" doc:"A value that is shown, for result"`
	Error          *CodeFailure `json:"error,omitempty" doc:"Why the code has failed, for error"`
	ExecutionCount int64        `json:"executionCount,omitempty" doc:"The number of the execution in its context, for count"`
	Dropped        int64        `json:"dropped,omitempty" doc:"Characters of output that were left out because there were too many, for truncated"`
}

// A CodeDisplay is a value in each of the forms that the kernel has for it.
type CodeDisplay struct {
	Text       string                     `json:"text,omitempty" doc:"text/plain"`
	HTML       string                     `json:"html,omitempty"`
	Markdown   string                     `json:"markdown,omitempty"`
	SVG        string                     `json:"svg,omitempty"`
	PNG        []byte                     `json:"png,omitempty"`
	JPEG       []byte                     `json:"jpeg,omitempty"`
	PDF        []byte                     `json:"pdf,omitempty"`
	LaTeX      string                     `json:"latex,omitempty"`
	JavaScript string                     `json:"javascript,omitempty"`
	JSON       json.RawMessage            `json:"json,omitempty"`
	Data       json.RawMessage            `json:"data,omitempty" doc:"A table as columns, index and data by column, and rows, the number of all rows"`
	Chart      json.RawMessage            `json:"chart,omitempty" doc:"A figure as data: type, title, labels of the axes and elements"`
	Extra      map[string]json.RawMessage `json:"extra,omitempty" doc:"Other forms, by media type"`
	Omitted    []string                   `json:"omitted,omitempty" doc:"Media types that were left out because they are too large"`
	Main       bool                       `json:"main,omitempty" doc:"The value of the last expression, and not one that the code displays"`
}

// A CodeFailure is an error of code.
type CodeFailure struct {
	Name      string `json:"name" doc:"Of its type, such as ValueError; KernelDied where the kernel has ended"`
	Value     string `json:"value"`
	Traceback string `json:"traceback" doc:"As the kernel shows it, with the escape sequences of terminals"`
}

// A CodeContext is a kernel with its variables.
type CodeContext struct {
	ID       string `json:"id"`
	Language string `json:"language" doc:"python, javascript or bash"`
	Dir      string `json:"dir" doc:"The folder that its kernel starts in"`
}
