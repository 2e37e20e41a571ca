// This file holds the messages between a provider that is served over HTTP and
// its client: the types of the root package as JSON, with stable names.

package stream

import (
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// Prefix is the prefix of all paths.
const Prefix = "/v1/walls"

// HeaderCall is the header that names a call, so that another request can cancel
// it.
const HeaderCall = "Sandbox-Call"

// HeaderWalls is on every answer. An answer without it does not come from a
// provider: a not-found error without it says nothing about sandboxes.
const HeaderWalls = "Sandbox-Walls"

// Providers lists the providers of the daemon.
type Providers struct {
	Items []Provider `json:"items"`
}

// A Provider describes one provider.
type Provider struct {
	Name     string   `json:"name"`
	Features Features `json:"features"`
}

// Features are the features of a provider.
type Features struct {
	Persistent bool `json:"persistent"`
	Images     bool `json:"images"`
	Pause      bool `json:"pause"`
	TTY        bool `json:"tty"`
	Shells     bool `json:"shells"`
	Files      bool `json:"files"`
	Dial       bool `json:"dial"`
	Listen     bool `json:"listen"`
	Usage      bool `json:"usage"`
}

// A Box is a sandbox.Info.
type Box struct {
	Name       string         `json:"name"`
	ID         string         `json:"id"`
	Kind       sandbox.Kind   `json:"kind"`
	Provider   string         `json:"provider"`
	Owner      sandbox.Owner  `json:"owner"`
	Status     sandbox.Status `json:"status"`
	Image      string         `json:"image"`
	ImageID    string         `json:"imageId"`
	ConfigHash string         `json:"configHash"`
	Format     string         `json:"format"`
	CreatedAt  time.Time      `json:"createdAt,omitzero"`
	StartedAt  time.Time      `json:"startedAt,omitzero"`
	PID        int            `json:"pid,omitempty"`
}

// Boxes is a list of sandboxes.
type Boxes struct {
	Items []Box `json:"items"`
}

// A Spec is a sandbox.Spec with its grants, which its own JSON form leaves out.
type Spec struct {
	Spec   sandbox.Spec    `json:"spec"`
	Grants []sandbox.Grant `json:"grants,omitempty"` // a separate field, because they do not count for the hash of a Spec
}

// SpecOf returns s in the form that is sent.
func SpecOf(s sandbox.Spec) Spec { return Spec{Spec: s, Grants: s.Grants} }

// Whole returns the sandbox.Spec that was sent.
func (s Spec) Whole() sandbox.Spec {
	s.Spec.Grants = s.Grants
	return s.Spec
}

// An Opened is the answer to a client that opens a sandbox.
type Opened struct {
	Handle string        `json:"handle,omitempty"`
	Box    Box           `json:"box"`
	Dial   bool          `json:"dial"` // the features of this sandbox
	Listen bool          `json:"listen"`
	Files  bool          `json:"files"`
	Error  *api.Document `json:"error,omitempty"` // instead of all that
}

// A Closing asks the server to close the handle; the answer is a Closed.
type Closing struct {
	Close bool `json:"close"`
}

// A Closed says that the handle is closed.
type Closed struct {
	Error *api.Document `json:"error,omitempty"`
}

// A NewShell asks for a shell.
type NewShell struct {
	ID  string          `json:"id,omitempty"`
	Env map[string]Text `json:"env,omitempty"`
	Dir Text            `json:"dir,omitempty"`
}

// A Shell is an open shell. Ticket names it in paths.
type Shell struct {
	Ticket  string `json:"ticket"`
	ID      string `json:"id"`
	Program string `json:"program"`
}

// Usage is a sandbox.Usage.
type Usage struct {
	CPU         time.Duration `json:"cpuNanos"`
	Memory      int64         `json:"memory"`
	MemoryLimit int64         `json:"memoryLimit"`
	PIDs        int64         `json:"pids"`
	PIDsLimit   int64         `json:"pidsLimit"`
	DiskRead    int64         `json:"diskRead"`
	DiskWritten int64         `json:"diskWritten"`
	NetReceived int64         `json:"netReceived"`
	NetSent     int64         `json:"netSent"`
}
