package api

import (
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/registry/pool"
)

// CreateSandbox asks for the sandbox of a session, which has no more than one.
// The scope in the settings determines which sandbox that is.
type CreateSandbox struct {
	Agent          string `json:"agent,omitempty" maxlen:"64" doc:"Who speaks; the header Sandbox-Agent says the same"`
	Session        string `json:"session,omitempty" maxlen:"256" doc:"The conversation; the header Sandbox-Session says the same"`
	TTLSeconds     int64  `json:"ttlSeconds,omitempty" min:"0" max:"31536000" doc:"Removed when so long has passed; 0 leaves it to the settings"`
	IdempotencyKey string `json:"idempotencyKey,omitempty" maxlen:"128" doc:"The same key with the same request has the same answer for 24 hours; the header Idempotency-Key says the same"`
	Wait           *bool  `json:"wait,omitempty" doc:"false returns before the sandbox is up, which then comes up by itself; the default is true"`
	From           string `json:"from,omitempty" maxlen:"128" doc:"Id or name of the checkpoint that a new sandbox begins with; refused where the session has a sandbox"`

	config.Creation
}

// A Sandbox is a sandbox of the caller.
type Sandbox struct {
	Name        string         `json:"name" doc:"Names the sandbox in every path"`
	ID          string         `json:"id" doc:"Of the container or whatever the provider made"`
	Kind        sandbox.Kind   `json:"kind" enum:"sandbox,browser,pool"`
	Provider    string         `json:"provider"`
	Tenant      string         `json:"tenant"`
	Agent       string         `json:"agent"`
	Session     string         `json:"session"`
	Scope       sandbox.Scope  `json:"scope,omitempty" enum:"session,agent,shared"`
	ScopeKey    string         `json:"scopeKey"`
	Status      sandbox.Status `json:"status" enum:"running,paused,stopped,missing,orphan,unknown"`
	Image       string         `json:"image"`
	ImageMatch  *bool          `json:"imageMatch" doc:"It was made from the image that a new one would be made from; null where that is not known"`
	ConfigHash  string         `json:"configHash"`
	ConfigMatch *bool          `json:"configMatch" doc:"It was made with the settings that a new one would be made with; null where that is not known"`
	Workspace   string         `json:"workspace,omitempty" doc:"The folder of the host; for admins"`
	CreatedAt   time.Time      `json:"createdAt"`
	LastUsedAt  time.Time      `json:"lastUsedAt"`
	ExpiresAt   time.Time      `json:"expiresAt,omitzero" doc:"When it is removed, also when it is in use"`
	AgeSeconds  int64          `json:"ageSeconds"`
	IdleSeconds int64          `json:"idleSeconds"`

	OnTimeout  string            `json:"onTimeout,omitempty" enum:"kill,pause" doc:"What happens at expiresAt whatever runs in it; absent where it is removed then unless something runs"`
	AutoResume *bool             `json:"autoResume,omitempty" doc:"As it was created with"`
	Preset     string            `json:"preset,omitempty" doc:"As it was created with"`
	Labels     map[string]string `json:"labels,omitempty"`
	Metadata   map[string]string `json:"metadata,omitempty"`

	Created bool   `json:"created,omitempty" doc:"It was made for this request"`
	Claimed bool   `json:"claimed,omitempty" doc:"It was kept ready and taken for this request"`
	Note    string `json:"note,omitempty" doc:"What else there is to say, such as why none that was ready could be taken"`

	Miss *pool.Miss `json:"miss,omitempty" doc:"Why none that was ready was taken, where settings keep some"`
}

// A SandboxPage is a page of the caller's sandboxes, ordered by name.
type SandboxPage struct {
	Items []Sandbox `json:"items"`
	Next  string    `json:"next,omitempty" doc:"The cursor of the page that follows; absent on the last one"`
}

// Extend sets how long a sandbox is to be kept from now on.
type Extend struct {
	TTLSeconds int64 `json:"ttlSeconds" required:"true" min:"1" max:"31536000"`
}

// SetTimeout lets a sandbox end so long from now.
type SetTimeout struct {
	Timeout int64 `json:"timeout" required:"true" min:"1" max:"31536000" doc:"Seconds from now"`
}

// Recreate says how to recreate a sandbox.
type Recreate struct {
	Force bool `json:"force,omitempty" doc:"End what runs in it; without, a sandbox in use is refused"`
}

// A Usage is the resource usage of one sandbox.
type Usage struct {
	Name              string         `json:"name"`
	Provider          string         `json:"provider"`
	Tenant            string         `json:"tenant"`
	ScopeKey          string         `json:"scopeKey"`
	Status            sandbox.Status `json:"status"`
	CPUSeconds        float64        `json:"cpuSeconds" doc:"Processor time since the start"`
	Memory            int64          `json:"memoryBytes"`
	MemoryLimit       int64          `json:"memoryLimitBytes" doc:"0 is unbounded"`
	PIDs              int64          `json:"pids"`
	PIDsLimit         int64          `json:"pidsLimit"`
	DiskRead          int64          `json:"diskReadBytes"`
	DiskWritten       int64          `json:"diskWrittenBytes"`
	WorkspaceBytes    int64          `json:"workspaceBytes"`
	WorkspaceComplete bool           `json:"workspaceComplete" doc:"false: the workspace holds more than was counted"`
	NetReceived       int64          `json:"netReceivedBytes"`
	NetSent           int64          `json:"netSentBytes"`
	Command           string         `json:"command,omitempty" doc:"The command line of what runs, of several commands the newest; only where one sandbox is asked about. Code inside controls it"`
	Error             string         `json:"error,omitempty" doc:"Why it could not be measured"`
}

// A UsageList is the resource usage of the caller's sandboxes.
type UsageList struct {
	Items []Usage `json:"items"`
}
