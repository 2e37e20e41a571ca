package config

// BudgetsSettings bound what operations under grants use in all, beside what
// their grants say: an operation is carried out when every account that it
// draws from has enough.
type BudgetsSettings struct {
	Session *BudgetSettings `json:"session,omitempty" doc:"What each session may use."`
	Agent   *BudgetSettings `json:"agent,omitempty" doc:"What each agent of a tenant may use, all its sessions together."`
	Tenant  *BudgetSettings `json:"tenant,omitempty" doc:"What each tenant may use, all its agents together. The account is one for all of them, so what an agent says can make it less and never more."`
}

// BudgetSettings are the bounds of one account. 0 is nothing of it.
type BudgetSettings struct {
	Calls    *int64  `json:"calls,omitempty" min:"-1" doc:"Operations; default -1."`
	BytesIn  *Volume `json:"bytesIn,omitempty" min:"-1" doc:"Bytes that come in from outside; default -1."`
	BytesOut *Volume `json:"bytesOut,omitempty" min:"-1" doc:"Bytes that leave; default -1."`
	CPUMs    *int64  `json:"cpuMs,omitempty" min:"-1" doc:"Milliseconds of processor time; default -1."`
	GPUMs    *int64  `json:"gpuMs,omitempty" min:"-1" doc:"Milliseconds of a GPU; a bound other than 0 lets nothing run where they cannot be metered. Default -1."`
	Files    *int64  `json:"files,omitempty" min:"-1" doc:"Files that are written; default -1."`
	WallMs   *int64  `json:"wallMs,omitempty" min:"-1" doc:"Milliseconds that operations take; default -1."`
}

// ProfileSettings narrow the profiles of operations under grants. Of what grant,
// manifest and settings say the strictest holds.
type ProfileSettings struct {
	MIME    []string `json:"mime,omitempty" doc:"Types of answers that requests may get: type/subtype, type/* or */*; without a list all, with an empty one none."`
	Tools   []string `json:"tools,omitempty" doc:"Programs that may be executed; without a list all that grant, manifest and commands allow."`
	Methods []string `json:"methods,omitempty" doc:"Methods of requests, in capitals, * for all; without a list all that the grant allows."`
	Paths   []string `json:"paths,omitempty" doc:"Absolute folders inside below which files may be used; without a list all that the mounts allow."`

	MaxBytesIn     *Size     `json:"maxBytesIn,omitempty" min:"1" doc:"Bytes that one operation reads or receives; default 10m."`
	MaxBytesOut    *Size     `json:"maxBytesOut,omitempty" min:"1" doc:"Bytes that one operation writes or sends; default 10m."`
	MaxTmpBytes    *Size     `json:"maxTmpBytes,omitempty" min:"1" doc:"Bytes of one temporary space; default 64m."`
	MaxFiles       *int64    `json:"maxFiles,omitempty" min:"1" max:"1000000000" doc:"Files that one call writes; default 100."`
	MaxDepth       *int64    `json:"maxDepth,omitempty" min:"1" max:"4096" doc:"Folders below the workspace, and pages that one call opens; default 32."`
	MaxConcurrency *int64    `json:"maxConcurrency,omitempty" min:"1" max:"4096" doc:"Operations of one call at a time; default 4."`
	Timeout        *Duration `json:"timeout,omitempty" doc:"Time of one operation; default 1m, and never more than limits.timeout."`
}

// Values of evidence.sync.
const (
	SyncOff        = "off"        // the kernel writes when it likes
	SyncCheckpoint = "checkpoint" // a checkpoint is on the disk before it counts
	SyncAlways     = "always"     // each record is on the disk before what it is about goes on
)

// EvidenceSettings say how what was done is recorded.
type EvidenceSettings struct {
	Sync            *string `json:"sync,omitempty" enum:"off,checkpoint,always" doc:"When records are brought to the disk, so that a loss of power does not take them: never by us, with each signed checkpoint, or each before what it is about goes on. Default checkpoint."`
	CheckpointEvery *int64  `json:"checkpointEvery,omitempty" min:"1" max:"1000000" doc:"Records between two signed checkpoints; default 256."`
	Commands        *bool   `json:"commands,omitempty" doc:"Whether commands that run without a grant are recorded; default false. With requireEvidence they are whatever is said here."`
}
