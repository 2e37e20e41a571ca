package api

import (
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/registry/pool"
)

// Exec is one command. Exactly one of Args and Line is set.
type Exec struct {
	Args           []string          `json:"args,omitempty" maxitems:"100000" doc:"Program and arguments, with no shell in between"`
	Line           string            `json:"line,omitempty" maxlen:"1000000" doc:"Text for the sandbox's shell"`
	Env            map[string]string `json:"env,omitempty" maxitems:"256" doc:"Laid over the sandbox's own"`
	Dir            string            `json:"dir,omitempty" maxlen:"4096" doc:"Where it runs; the workspace without"`
	Stdin          string            `json:"stdin,omitempty" maxlen:"1048576" doc:"Its input, as text"`
	StdinBase64    []byte            `json:"stdinBase64,omitempty" maxlen:"1048576" doc:"Its input, where it is no text"`
	TimeoutSeconds float64           `json:"timeoutSeconds,omitempty" min:"0" max:"604800" doc:"0 leaves it to the settings, which are the most there is"`
	Ask            bool              `json:"ask,omitempty" doc:"Ask for an approval where a rule stops it that an approval opens, see /v1/approvals"`
	User           string            `json:"user,omitempty" maxlen:"64" doc:"The account inside that it runs as: sandbox, user, or the number of the sandbox's own user, which is also what holds without. root is refused"`
	Tool           string            `json:"tool,omitempty" maxlen:"64" doc:"The tool of an agent that this is, which then has to be allowed; empty for people and programs"`
}

// An ExecResult is the result of a command that has ended, whatever its status.
// Output that is valid UTF-8 is given as text, other output as bytes.
type ExecResult struct {
	Stdout       string `json:"stdout" doc:"Empty where stdoutBase64 is there"`
	Stderr       string `json:"stderr"`
	StdoutBase64 []byte `json:"stdoutBase64,omitempty" doc:"What was written, where it is no valid UTF-8"`
	StderrBase64 []byte `json:"stderrBase64,omitempty"`
	Exit
}

// An Exit says how a command ended.
type Exit struct {
	Sandbox         string            `json:"sandbox" doc:"The name of the sandbox that it ran in"`
	ExitCode        int               `json:"exitCode"`
	Signal          string            `json:"signal,omitempty" doc:"The signal that ended it, such as KILL"`
	TimedOut        bool              `json:"timedOut"`
	Restarted       bool              `json:"restarted" doc:"The shell was begun anew: by this line, or before it"`
	LostDir         string            `json:"lostDir,omitempty" doc:"The working folder of the shell, which a rollback has taken away: the line began in the workspace"`
	StdoutBytes     int64             `json:"stdoutBytes" doc:"Written in all, also what is not in stdout"`
	StderrBytes     int64             `json:"stderrBytes"`
	Truncated       bool              `json:"truncated" doc:"Not all that was written is here"`
	Limit           *sandbox.LimitHit `json:"limit,omitempty" doc:"The limit that was reached"`
	Left            *sandbox.Left     `json:"left,omitempty" doc:"Processes that it had left running, which were ended with it"`
	Waited          *sandbox.Waited   `json:"waited,omitempty" doc:"What its connections waited for their turn, because of network.limits.connections"`
	Warnings        []string          `json:"warnings,omitempty" doc:"What of the command line strictness strict would refuse, where the line needed an approval"`
	Blocked         bool              `json:"blocked" doc:"Rules have stopped it, with evidence"`
	BlockedReason   string            `json:"blockedReason,omitempty"`
	BlockedResource string            `json:"blockedResource,omitempty"`
	Violations      []Violation       `json:"violations" doc:"What was tried and stopped, also of commands that did without"`
	DurationMillis  int64             `json:"durationMs"`
	UserMillis      int64             `json:"userMs" doc:"Processor time in user mode"`
	SystemMillis    int64             `json:"systemMs" doc:"Processor time in the kernel"`
	MaxRSS          int64             `json:"maxRssBytes" doc:"Of the largest process"`
	Miss            *pool.Miss        `json:"miss,omitempty" doc:"Why the sandbox had to be made for it, where settings keep some ready"`
}

// A Violation is one action that was stopped, with names as seen from inside the
// sandbox.
type Violation struct {
	Kind      string    `json:"kind" doc:"Of the resource: path, network, syscall, command, tool, limit"`
	Operation string    `json:"operation"`
	Resource  string    `json:"resource"`
	Rule      string    `json:"rule"`
	Builtin   bool      `json:"builtin" doc:"No grant opens it"`
	Evidence  string    `json:"evidence" doc:"How far it is known: certain, strong, weak"`
	Program   string    `json:"program,omitempty"`
	Time      time.Time `json:"time"`
}

// Names of the events of a streamed command. Comments between them keep the
// connection alive.
const (
	EventStdout = "stdout" // data is an [Output]
	EventStderr = "stderr" // data is an [Output]
	EventAgain  = "again"  // the command is run again: earlier output is void; data is {}
	EventExit   = "exit"   // data is an [Exit]; the last event
	EventError  = "error"  // data is a [Problem]: it is not known how the command ended; the last event
)

// An Output is a piece of a command's output: one of the two fields is set.
type Output struct {
	Text   string `json:"text,omitempty" doc:"Of output that is valid UTF-8"`
	Base64 []byte `json:"base64,omitempty" doc:"Of other output"`
}
