// Package manager is the conductor: the one chain of steps from a request
// to a result, whoever calls (command line, HTTP, MCP, Go):
//
//	resolve → ensure → run → record
//
// Resolve turns settings and the facts of this host into a Spec and its
// hash. Ensure compares that with what exists and brings the sandbox up,
// once, however many processes ask at the same time. Run starts the
// command and sees to its end. Record notes the use, so that list and
// prune tell the truth.
package manager

import (
	"context"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/lease"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/registry"
	"github.com/bulkhead-dev/sandbox/statedir"
	"github.com/bulkhead-dev/sandbox/workspace"
)

// Images answers for the images that sandboxes are made from.
type Images interface {
	// Current returns the id of ref with the setup layer applied, or
	// [sandbox.CodeNotFound] when it has to be made first.
	Current(ctx context.Context, ref string, setup []string) (id string, err error)
	// Ensure makes what is missing and returns the id.
	Ensure(ctx context.Context, ref string, setup []string) (id string, err error)
}

// A Host holds what the orchestrator's own machine contributes to a Spec.
type Host struct {
	Home      string            // the orchestrator's home, for ~
	Env       map[string]string // for $VAR in paths of the settings
	CPUs      int
	Memory    int64    // bytes
	Sensitive []string // canonical paths that no sandbox may see: engine sockets, state and settings folder
	// Guest returns the installed guest binary.
	Guest func() (sandbox.GuestRef, error)
}

// Options are the parts a Manager is made of. All fields but Now and Provider are needed.
type Options struct {
	Settings  *config.Settings
	State     *statedir.Dir
	Providers *provider.Set
	Images    Images
	Host      Host
	Log       logrus.FieldLogger
	Now       func() time.Time // default time.Now

	// Provider is the one that the caller names for all its calls; empty
	// leaves it to the settings. The silence of others matters less.
	Provider string
}

// A Manager runs commands in sandboxes and keeps account of them. It is
// safe for concurrent use, and any number of processes may share a state
// folder.
type Manager struct {
	settings  *config.Settings
	state     *statedir.Dir
	providers *provider.Set
	images    Images
	host      Host
	log       logrus.FieldLogger
	now       func() time.Time
	chosen    string // provider named for all calls, or empty

	records *registry.Store
	leases  *lease.Dir
	owners  *workspace.Owners
	handles *handles

	// writable are the folders that settings let sandboxes write to, as they
	// are spelled. Not to be changed.
	writable func() ([]string, error)
}

// A Request says who wants what run.
type Request struct {
	Who   config.Who
	Flags *config.SandboxSettings // settings of this call alone; may be nil

	Command sandbox.Command
	Timeout time.Duration // 0 takes the settings' limit

	// Started, when set, hears of the process as soon as it runs; a caller
	// with a terminal resizes and signals it through that.
	Started func(sandbox.Process)

	MustExist bool // fail with CodeNotFound rather than create
	Remove    bool // remove the sandbox and its workspace afterwards
}

// An Outcome is how a request ended.
type Outcome struct {
	Name     string // the sandbox
	Exit     sandbox.Exit
	TimedOut bool // the command was ended at its time limit
	Created  bool // the sandbox was made for this request
	Duration time.Duration
}
