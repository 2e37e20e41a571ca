package provider

import (
	"context"

	"github.com/bulkhead-dev/sandbox"
)

// A Planner is a provider that can tell how it would enforce a Spec, without
// doing any of it: nothing is made, started or recorded.
type Planner interface {
	Plan(ctx context.Context, s sandbox.Spec) (Plan, error)
}

// A Plan is what stands between code inside and the host.
type Plan struct {
	Layers []Layer // in the order in which they take effect
	Steps  []Step  // by which the inside is made, in order: a later one wins
	Notes  []string

	// Workspace says what the workspace is where it is no folder of this machine.
	Workspace string

	// Judge says what the rules make of an operation on a path inside; nil
	// when the provider has no rules for paths.
	Judge func(op sandbox.Operation, inside string) sandbox.Verdict

	// Closes is for a provider without Judge that closes some paths by mounts of
	// its own: what it does not allow is closed, and it says nothing about any
	// other path.
	Closes func(op sandbox.Operation, inside string) sandbox.Verdict
}

// A Layer is one of several means that hold by themselves.
type Layer struct {
	Name   string `json:"name"`
	On     bool   `json:"on"`
	Detail string `json:"detail"` // what it does, or why it is off
}

// A Step makes one thing inside.
type Step struct {
	Does   string `json:"does"`             // "read-only", "writable", "hidden", …
	Target string `json:"target"`           // inside
	Source string `json:"source,omitempty"` // on the host
	Rule   string `json:"rule,omitempty"`   // why it is there
}

// An Examiner is a provider that can say whether sandboxes with these settings work
// with it, and what to do where they do not.
type Examiner interface {
	Examine(e Examined) []Check
}

// Examined are the settings that an [Examiner] looks at.
type Examined struct {
	Image   string
	Runtime string // empty is the default
	Network string
	Options map[string]any
}

// A Check is one thing to look at. Look may be called once, from any goroutine, and
// ends soon after ctx has.
type Check struct {
	Name string
	Look func(ctx context.Context) Finding
}

// A Finding is what a Check has seen. Status is "ok", "warn", "fail" or "skip"; Fix is
// what to do, empty where there is nothing.
type Finding struct{ Status, Detail, Fix string }

// An ImageSource is a provider whose images are not those of the Docker engine of this
// machine. The methods are those of the manager's source of images: Current returns
// the identity of an image, or [sandbox.CodeNotFound] when Ensure has to make it
// first, and Volumes the folders that it declares as volumes.
type ImageSource interface {
	Current(ctx context.Context, ref string, setup []string) (id string, err error)
	Volumes(ctx context.Context, id string) ([]string, error)
	Ensure(ctx context.Context, ref string, setup []string) (id string, err error)
}

// A Detached is a provider whose sandboxes see no folder of this machine: guests are
// reached otherwise than by a socket there, and a home on the disk is the provider's.
type Detached interface {
	Detached() bool
}
