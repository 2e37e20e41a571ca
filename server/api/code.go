package api

import "github.com/bulkhead-dev/sandbox"

// RunCode is code for a kernel of the sandbox.
type RunCode struct {
	Code           string            `json:"code" required:"true" maxlen:"1048576"`
	Language       string            `json:"language,omitempty" enum:"python,javascript,bash" doc:"python without; a context has its language already"`
	Context        string            `json:"context,omitempty" maxlen:"64" doc:"The id of a context; the default one of the language without"`
	Env            map[string]string `json:"env,omitempty" maxitems:"256" doc:"Variables for this run alone"`
	Dir            string            `json:"dir,omitempty" maxlen:"4096" doc:"Where the kernel of a default context starts, if this is its first run; the workspace without"`
	TimeoutSeconds float64           `json:"timeoutSeconds,omitempty" min:"0" max:"604800" doc:"After which the code is interrupted; 0 leaves it to the settings, which are the most there is"`
	Ask            bool              `json:"ask,omitempty" doc:"Ask for an approval where a rule stops it that an approval opens, see /v1/approvals"`
	Tool           string            `json:"tool,omitempty" maxlen:"64" doc:"The tool of an agent that this is, which then has to be allowed; empty for people and programs"`
}

// A CodeRun is what code came to.
type CodeRun struct {
	Stdout         string                `json:"stdout"`
	Stderr         string                `json:"stderr"`
	Results        []sandbox.CodeDisplay `json:"results" doc:"What the code displays, and the value of its last expression"`
	Error          *sandbox.CodeFailure  `json:"error,omitempty" doc:"Why the code has failed"`
	ExecutionCount int64                 `json:"executionCount" doc:"The number of the execution in its context"`
	Dropped        int64                 `json:"dropped" doc:"Characters of output that were left out because there were too many"`
	TimedOut       bool                  `json:"timedOut" doc:"The code was interrupted at its time limit"`
	Sandbox        string                `json:"sandbox"`
	DurationMillis int64                 `json:"durationMs"`
}

// CreateCodeContext asks for a context.
type CreateCodeContext struct {
	Language string `json:"language,omitempty" enum:"python,javascript,bash" doc:"python without"`
	Dir      string `json:"dir,omitempty" maxlen:"4096" doc:"Where its kernel starts; the workspace without"`
}

// A CodeContextList holds the contexts of a session.
type CodeContextList struct {
	Items []sandbox.CodeContext `json:"items"`
}

// The events of streamed code.
const (
	EventCode = "code" // data is a [sandbox.CodeEvent]
	EventDone = "done" // data is a [CodeDone]; the last event
)

// CodeDone says how a streamed run of code ended. Whether the code has failed is
// in the events before.
type CodeDone struct {
	TimedOut       bool   `json:"timedOut" doc:"The code was interrupted at its time limit"`
	Sandbox        string `json:"sandbox"`
	DurationMillis int64  `json:"durationMs"`
}
