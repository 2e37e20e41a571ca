package api

import (
	"time"

	"github.com/bulkhead-dev/sandbox/grant/budget"
	"github.com/bulkhead-dev/sandbox/tenant"
)

// The events of a stream of what goes on. Each is about the sandboxes and records
// that the caller may see.
const (
	EventSandboxes = "sandboxes" // data is [LiveSandboxes]
	EventFigures   = "figures"   // data is [LiveFigures]
	EventApprovals = "approvals" // data is an [ApprovalList]: all that wait now
	EventRecords   = "records"   // data is [LiveRecords]
)

// LiveSandboxes are sandboxes that have changed.
type LiveSandboxes struct {
	First bool          `json:"first,omitempty" doc:"Nothing that an earlier event had counts any more"`
	Items []Sandbox     `json:"items" doc:"That are new or have changed"`
	Gone  []LiveSandbox `json:"gone,omitempty" doc:"That are gone"`
}

// A LiveSandbox names a sandbox.
type LiveSandbox struct {
	Name     string `json:"name"`
	Provider string `json:"provider"`
	Tenant   string `json:"tenant"`
}

// LiveFigures is what sandboxes use that use something else than before.
type LiveFigures struct {
	Time  time.Time    `json:"time" doc:"Of the measurement"`
	Items []LiveFigure `json:"items"`
	Total LiveTotal    `json:"total" doc:"Of all sandboxes of the caller"`
}

// A LiveFigure is what one sandbox uses.
type LiveFigure struct {
	LiveSandbox
	CPUSeconds  float64 `json:"cpuSeconds" doc:"Processor time since the start"`
	Memory      int64   `json:"memoryBytes"`
	PIDs        int64   `json:"pids"`
	DiskRead    int64   `json:"diskReadBytes"`
	DiskWritten int64   `json:"diskWrittenBytes"`
	NetReceived int64   `json:"netReceivedBytes"`
	NetSent     int64   `json:"netSentBytes"`
}

// LiveTotal is what all sandboxes of the caller use together.
type LiveTotal struct {
	Sandboxes int     `json:"sandboxes"`
	Running   int     `json:"running"`
	CPU       float64 `json:"cpu" doc:"Processors in use since the last measurement; 0 in the first"`
	Memory    int64   `json:"memoryBytes"`
	PIDs      int64   `json:"pids"`
	DiskBytes float64 `json:"diskBytesPerSecond"`
	NetBytes  float64 `json:"netBytesPerSecond"`
}

// LiveRecords are records that were written since the last event, the oldest first.
type LiveRecords struct {
	Violations []ViolationRecord `json:"violations,omitempty"`
	Evidence   []EvidenceRecord  `json:"evidence,omitempty"`
	Dropped    int64             `json:"dropped,omitempty" doc:"Records that came faster than they were sent; the lists have them"`
}

// A Tenant is what a tenant may hold, and what it holds.
type Tenant struct {
	ID      string        `json:"id" doc:"Empty is the one of people who use the daemon's machine for themselves"`
	Listed  bool          `json:"listed" doc:"The settings name it"`
	Refused bool          `json:"refused" doc:"The settings serve only tenants that they name"`
	Weight  int           `json:"weight"`
	Limits  tenant.Limits `json:"limits" doc:"-1 is no bound"`
	Held    TenantHeld    `json:"held"`

	Budgets []TokenBudgetUse `json:"budgets" doc:"Of its tokens that have one, as far as the caller may see them"`
}

// TenantHeld is what a tenant holds now.
type TenantHeld struct {
	Sandboxes int64 `json:"sandboxes"`
	Commands  int64 `json:"commands"`
	Memory    int64 `json:"memory"`
	NanoCPUs  int64 `json:"nanoCpus"`
	Disk      int64 `json:"disk"`
}

// TokenBudgetUse is a token's budget, and what was used of it.
type TokenBudgetUse struct {
	Token   string        `json:"token" doc:"Its id"`
	Role    string        `json:"role"`
	Agent   string        `json:"agent,omitempty"`
	Session string        `json:"session,omitempty"`
	Note    string        `json:"note,omitempty"`
	Expires time.Time     `json:"expires,omitzero"`
	Bound   budget.Amount `json:"bound" doc:"-1 is no bound"`
	Used    budget.Amount `json:"used"`
}

// A TenantList holds the tenants that the caller may see, by id.
type TenantList struct {
	Items []Tenant `json:"items"`
}
