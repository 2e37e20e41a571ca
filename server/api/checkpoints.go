package api

import (
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/workspace/checkpoint"
)

// ContentCheckpoint is the content type of an exported checkpoint: a tar archive
// that is compressed with zstd.
const ContentCheckpoint = "application/zstd"

// MaxForks is the most forks that one request makes.
const MaxForks = 100

// A Checkpoint is a kept state of a sandbox.
type Checkpoint struct {
	ID        string              `json:"id"`
	Name      string              `json:"name,omitempty" doc:"As it was created with; names the checkpoint wherever its id does"`
	Sandbox   string              `json:"sandbox,omitempty" doc:"The sandbox that it was made of; absent for an imported one"`
	Tenant    string              `json:"tenant"`
	Agent     string              `json:"agent"`
	Session   string              `json:"session"`
	Parent    string              `json:"parent,omitempty" doc:"The id of the checkpoint before"`
	CreatedAt time.Time           `json:"createdAt"`
	Auto      bool                `json:"auto,omitempty" doc:"It was made before a command by the setting checkpoint.auto"`
	Busy      bool                `json:"busy,omitempty" doc:"Commands ran, so its files may be of different moments"`
	Means     checkpoint.Means    `json:"means" enum:"overlay,reflink,copy" doc:"How it shares files with others"`
	Folders   []CheckpointFolder  `json:"folders" doc:"What it keeps"`
	Shells    []CheckpointShell   `json:"shells,omitempty" doc:"The persistent shells that it keeps"`
	Running   []CheckpointProgram `json:"running,omitempty" doc:"Programs that ran, which it does not keep"`
	Files     int64               `json:"files" doc:"Entries that it added to the checkpoint before, folders included"`
	Bytes     int64               `json:"bytes" doc:"That they take on the disk"`
	LeftOut   *CheckpointLeftOut  `json:"leftOut,omitempty" doc:"What it does not keep"`
	Image     string              `json:"image,omitempty" doc:"The image of the sandbox"`
	SpecHash  string              `json:"specHash,omitempty" doc:"Of the configuration of the sandbox"`
}

// A CheckpointFolder is a folder that a checkpoint keeps.
type CheckpointFolder struct {
	Name   string `json:"name" doc:"workspace, home, or that of a folder of checkpoint.folders"`
	Target string `json:"target" doc:"Its path inside"`
}

// A CheckpointShell is a persistent shell that a checkpoint keeps. The values of
// its variables are not shown.
type CheckpointShell struct {
	ID      string `json:"id"`
	Program string `json:"program"`
	Cwd     string `json:"cwd"`
	Stale   bool   `json:"stale,omitempty" doc:"Its variables and functions are not kept: a line ran, or they are not known"`
}

// A CheckpointProgram is a program that ran.
type CheckpointProgram struct {
	PID  int      `json:"pid"`
	Args []string `json:"args"`
}

// CheckpointLeftOut counts what a checkpoint does not keep.
type CheckpointLeftOut struct {
	Special    int      `json:"special,omitempty" doc:"Pipes, sockets and devices"`
	Unreadable int      `json:"unreadable,omitempty" doc:"Files that could not be read"`
	Vanished   int      `json:"vanished,omitempty" doc:"Files that were removed while they were copied"`
	Changed    int      `json:"changed,omitempty" doc:"Files that were kept, but written to while they were copied"`
	Paths      []string `json:"paths,omitempty" doc:"Some of them"`
}

// CheckpointOf returns a record without what is of the host.
func CheckpointOf(r checkpoint.Record) Checkpoint {
	out := Checkpoint{
		ID: r.ID, Name: r.Name, Sandbox: r.Sandbox, Tenant: r.Tenant, Agent: r.Agent, Session: r.Session, Parent: r.Parent,
		CreatedAt: r.CreatedAt.UTC(), Auto: r.Auto, Busy: r.Busy, Means: r.Means, Folders: []CheckpointFolder{},
		Running: CheckpointProgramsOf(r.Running), Files: r.Files, Bytes: r.Bytes, Image: r.Image, SpecHash: r.SpecHash,
	}
	for _, t := range r.Trees {
		out.Folders = append(out.Folders, CheckpointFolder{Name: t.Name, Target: t.Target})
	}
	for _, s := range r.Shells {
		out.Shells = append(out.Shells, CheckpointShell{ID: s.ID, Program: s.Program, Cwd: s.Dir, Stale: s.Stale || s.Content == nil})
	}
	if l := r.LeftOut; l.Special+l.Unreadable+l.Vanished+l.Changed+len(l.Paths) > 0 {
		out.LeftOut = &CheckpointLeftOut{Special: l.Special, Unreadable: l.Unreadable, Vanished: l.Vanished, Changed: l.Changed, Paths: l.Paths}
	}
	return out
}

// CheckpointProgramsOf returns the programs of a record.
func CheckpointProgramsOf(list []sandbox.RunningCommand) (out []CheckpointProgram) {
	for _, p := range list {
		out = append(out, CheckpointProgram{PID: p.PID, Args: append([]string{}, p.Args...)})
	}
	return out
}

// CreateCheckpoint asks for a checkpoint of a sandbox.
type CreateCheckpoint struct {
	Name string `json:"name,omitempty" maxlen:"128" doc:"No two checkpoints of a tenant have the same name; absent leaves it without one"`
}

// A CheckpointPage is a page of checkpoints, the oldest first.
type CheckpointPage struct {
	Items []Checkpoint `json:"items"`
	Next  string       `json:"next,omitempty" doc:"The cursor of the page that follows; absent on the last one"`
}

// Rollback names the checkpoint whose state a sandbox is to have.
type Rollback struct {
	Checkpoint string `json:"checkpoint" required:"true" minlen:"1" maxlen:"128" doc:"Its id or name"`
}

// RolledBack is what a rollback came to.
type RolledBack struct {
	Checkpoint Checkpoint          `json:"checkpoint"`
	Ended      []CheckpointProgram `json:"ended,omitempty" doc:"Programs that ran and were ended"`
	Recreated  bool                `json:"recreated,omitempty" doc:"The sandbox was started again, because its provider cannot exchange the file system of a running one"`
}

// Fork says which forks of a sandbox to make.
type Fork struct {
	Count    int64    `json:"count,omitempty" min:"0" max:"100" doc:"How many; 1 without. Their sessions are SESSION-fork-1 and so on, without those that have a sandbox"`
	From     string   `json:"from,omitempty" maxlen:"128" doc:"Id or name of the checkpoint that they begin with; absent makes one of the sandbox"`
	Sessions []string `json:"sessions,omitempty" maxitems:"100" maxlen:"256" doc:"Their sessions, instead of count; none of them may have a sandbox"`
}

// ForkList has one item for each fork that was asked for.
type ForkList struct {
	Items []Forked `json:"items"`
}

// A Forked is one fork, or says why there is none.
type Forked struct {
	Session    string   `json:"session"`
	Name       string   `json:"name,omitempty" doc:"Of its sandbox; absent where it was not made"`
	Checkpoint string   `json:"checkpoint" doc:"The id of the checkpoint that it begins with"`
	Problem    *Problem `json:"problem,omitempty" doc:"Why it was not made; the others are made in any case"`
}
