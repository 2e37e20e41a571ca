package schema

import "time"

// Checkpoint is the input of checkpoint.
type Checkpoint struct {
	Action     string `json:"action" required:"true" enum:"create,list,rollback" doc:"create: keep the state of the sandbox. list: what was kept, the newest first. rollback: give the sandbox a kept state; what it holds now is given up, and what runs in it is ended."`
	Name       string `json:"name" maxlen:"128" doc:"For create: what to call it; no two have the same name."`
	Checkpoint string `json:"checkpoint" maxlen:"128" doc:"For rollback: the id or the name of what was kept."`
}

// Check implements the rules between fields.
func (c Checkpoint) Check() error {
	switch {
	case c.Action != "create" && c.Name != "":
		return wrong("name", "goes with create only", "")
	case c.Action != "rollback" && c.Checkpoint != "":
		return wrong("checkpoint", "goes with rollback only", "")
	case c.Action == "rollback" && c.Checkpoint == "":
		return wrong("checkpoint", "is missing", "the action list names what was kept")
	}
	return nil
}

// CheckpointResult is the answer of checkpoint.
type CheckpointResult struct {
	Action      string              `json:"action" enum:"create,list,rollback" doc:"What was done."`
	Checkpoints []CheckpointState   `json:"checkpoints" doc:"The states: for list those that were kept, the newest first, and otherwise the one that it is about."`
	Page        *Page               `json:"page,omitempty" doc:"For list: how much of it this is."`
	Ended       []CheckpointProgram `json:"ended,omitempty" doc:"For rollback: programs that ran and were ended."`
	Recreated   bool                `json:"recreated,omitempty" doc:"For rollback: the sandbox was started again, with shells and kernels that are new."`
}

// CheckpointState is a state of the sandbox that was kept.
type CheckpointState struct {
	ID      string              `json:"id" doc:"What names it."`
	Name    string              `json:"name,omitempty" doc:"What it was called."`
	Parent  string              `json:"parent,omitempty" doc:"The id of the one before."`
	Created time.Time           `json:"created" doc:"When it was kept."`
	Auto    bool                `json:"auto,omitempty" doc:"It was kept by itself, before a command."`
	Busy    bool                `json:"busy,omitempty" doc:"Commands ran meanwhile, so files may be of different moments."`
	Folders []string            `json:"folders" doc:"The folders that it holds."`
	Running []CheckpointProgram `json:"running,omitempty" doc:"Programs that ran, which it does not hold."`
	Bytes   int64               `json:"bytes" doc:"What it takes beside the one before."`
	LeftOut int                 `json:"leftOut,omitempty" doc:"Files that it does not hold, such as pipes and sockets."`
}

// CheckpointProgram is a program that ran.
type CheckpointProgram struct {
	PID     int    `json:"pid" doc:"Its process number."`
	Command string `json:"command" doc:"The program with its arguments, or the beginning of them."`
}
