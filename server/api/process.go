package api

import "time"

// The events of a process beside those of exec.
const (
	EventProcess = "process" // the first one; data is a [Process]
	EventDropped = "dropped" // data is a [Dropped]
)

// HeaderLastEvent is the header with the id of the last event that the client has
// received.
const HeaderLastEvent = "Last-Event-ID"

// A StartProcess asks for a command in the background.
type StartProcess struct {
	Exec
	Tag       string        `json:"tag,omitempty" maxlen:"128" doc:"A name for it, by which it is found as by its number: not only digits, and no other process of the session that runs may have it"`
	TTY       *TerminalSize `json:"tty,omitempty" doc:"Run it on a terminal of that size; all output is on stdout then"`
	StdinOpen bool          `json:"stdinOpen,omitempty" doc:"Keep its input open, to be written to later; that of a terminal always is"`
}

// An ExecStream asks for a command whose output is streamed.
type ExecStream struct {
	StartProcess
	Background bool `json:"background,omitempty" doc:"It goes on when the client has gone. Without, it is ended when no client has followed it for 30 seconds"`
}

// A TerminalSize is the size of a terminal in characters.
type TerminalSize struct {
	Rows int `json:"rows" min:"1" max:"1000" required:"true"`
	Cols int `json:"cols" min:"1" max:"1000" required:"true"`
}

// A Process is a command in the background, or one of exec/stream.
type Process struct {
	ID        string    `json:"id" doc:"Of it alone, also when its number is given to another"`
	PID       int       `json:"pid,omitempty" doc:"Its number inside of the sandbox, where that is known"`
	Tag       string    `json:"tag,omitempty"`
	Command   string    `json:"command" doc:"The command in short, for people"`
	Args      []string  `json:"args,omitempty" doc:"Program and arguments, or those of the shell; absent where they are longer than 16 KiB"`
	Dir       string    `json:"dir,omitempty" doc:"Where it was to run; the workspace without"`
	State     string    `json:"state" enum:"running,ended,failed" doc:"failed: it is not known how it ended, see error"`
	TTY       bool      `json:"tty"`
	StartedAt time.Time `json:"startedAt"`
	EndedAt   time.Time `json:"endedAt,omitzero"`
	Bytes     int64     `json:"bytes" doc:"Of output in all: the place behind the last one"`
	Exit      *Exit     `json:"exit,omitempty" doc:"Of one that has ended: how"`
	Error     *Problem  `json:"error,omitempty" doc:"Of one that failed: why"`
}

// A ProcessList holds the processes of a session, the oldest first.
type ProcessList struct {
	Items []Process `json:"items"`
}

// Dropped says that output is missing.
type Dropped struct {
	Bytes int64 `json:"bytes" doc:"How many bytes before the next event are not kept any more"`
}

// A ProcessInput is written to the input of a process.
type ProcessInput struct {
	Data       string `json:"data,omitempty" maxlen:"1048576" doc:"As text"`
	DataBase64 []byte `json:"dataBase64,omitempty" maxlen:"1048576" doc:"Where it is no text"`
	EOF        bool   `json:"eof,omitempty" doc:"This was all: the input is closed behind it"`
}

// A ProcessSignal is sent to the process group of a process.
type ProcessSignal struct {
	Signal string `json:"signal" minlen:"1" maxlen:"32" required:"true" doc:"As in signal(7) without SIG: TERM, INT, KILL"`
}
