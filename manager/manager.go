// Package manager runs commands in sandboxes. It is the one chain of steps from
// a request to a result for every caller (command line, HTTP, MCP, Go):
//
//	judge → resolve → ensure → run → record
//
// Judge asks the gate whether the tool may be used and the command may run.
// Resolve turns settings and the facts of this host into a Spec and its
// hash. Ensure compares that with what exists and makes the sandbox ready,
// once, however many processes ask at the same time. Run starts the
// command and sees to its end. Record notes the use, so that list and
// prune tell the truth.
package manager

import (
	"context"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/violation"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/egress/proxy"
	"github.com/bulkhead-dev/sandbox/grant/operation"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/internal/keylock"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/registry"
	"github.com/bulkhead-dev/sandbox/registry/pool"
	"github.com/bulkhead-dev/sandbox/workspace"
)

// Images answers for the images that sandboxes are made from.
type Images interface {
	// Current returns the id of ref with the setup layer applied, or
	// [sandbox.CodeNotFound] when it has to be made first.
	Current(ctx context.Context, ref string, setup []string) (id string, err error)
	// Volumes returns the folders that the image id declares as volumes.
	Volumes(ctx context.Context, id string) ([]string, error)
	// Ensure makes what is missing and returns the id.
	Ensure(ctx context.Context, ref string, setup []string) (id string, err error)
}

// ImageVariables is what [Images] may implement too, to let commands keep the
// options that an image sets in a variable which this program sets as well.
type ImageVariables interface {
	// Environment returns the variables that the image id sets.
	Environment(ctx context.Context, id string) (map[string]string, error)
}

// A Host holds what the orchestrator's own machine contributes to a Spec.
type Host struct {
	Home      string            // the orchestrator's home, for ~
	Env       map[string]string // for $VAR in paths of the settings
	WSL       bool              // this is Linux inside Windows, which enabledPlatforms calls wsl
	CPUs      int
	Memory    int64    // bytes
	Sensitive []string // canonical paths that no sandbox may see: engine sockets, state and settings folder
	// Lookup returns the addresses of a name, which the proxy would judge; nil
	// lets explain look none up.
	Lookup func(ctx context.Context, name string) ([]netip.Addr, error)
	// Guest returns the installed guest binary.
	Guest func() (sandbox.GuestRef, error)
	// Trust returns the folder of public certificates that sandboxes are
	// shown; nil lets none have secrets.
	Trust func() (string, error)
	// TrustWith says what sandboxes of an image, by its id, trust that are shown
	// the certificates in ca (PEM) too; without an id sandboxes see this host's
	// programs. make makes the folder; otherwise nothing is changed. nil lets no
	// sandbox have such certificates.
	TrustWith func(ctx context.Context, ca []byte, image string, make bool) (Trusted, error)
	// CanBound returns why homes on the disk cannot be bounded here, or nil; a
	// nil function lets every home lie in memory.
	CanBound func() error
}

// Options are the parts a Manager is made of. All fields but Now and Provider are needed.
type Options struct {
	Settings  *config.Settings
	State     *statedir.Dir
	Providers *provider.Set
	Images    Images
	Host      Host
	Log       logrus.FieldLogger

	// CommandFlags are the global flags of the command line that names this
	// manager's settings and state, names and values in turn, so that the
	// commands in hints work when they are pasted; nil for a program.
	CommandFlags []string
	Now          func() time.Time // default time.Now

	// Reload returns the settings as they are now, the same pointer where they
	// have not changed; with an error, the last good ones. Every request asks
	// it, so it has to be quick, and goes by what it says; what runs already
	// keeps the rules that it began with, except that an egress session closes when a
	// later request of its sandbox has settings that take something from it.
	// nil keeps Settings. See settingsfile.Source.
	Reload func() (*config.Settings, error)

	// Watch is what the Manager watches files with that it has read, so that
	// others can use it too. The Manager closes it. nil is one of its own.
	Watch *hostpath.Watch

	// Provider is the sandbox of every call that names none by its Flags, whatever
	// the settings say: it is laid over them, in the layer "program". Empty leaves
	// it to the settings. One that there is not is [sandbox.CodeValidation], of
	// each call.
	Provider string

	// Begin hears of every call with what its settings came to, which it must not
	// change, before
	// anything is done about it; its error ends the call. nil is nothing.
	Begin func(context.Context, config.Resolved, Request) error

	// Accounting keeps account of the sandboxes that are made and removed, and may
	// refuse new ones; nil lets everybody have as many as he likes.
	Accounting Accounting

	// Approver is asked when a command is stopped by a rule that a grant
	// opens and its request says so; nil denies.
	Approver sandbox.Approver
	// Observer hears of every call without a grant, for metrics; nil hears
	// nothing. Of operations under grants [Control.Observe] hears.
	Observer operation.Observer

	// Violations keeps what was tried and stopped; nil keeps nothing.
	Violations violation.Recorder
	// Permanent keeps grants in the settings file; nil keeps none there.
	Permanent Permanent
	// Control returns what operations under grants need, and what puts commands
	// on record. It is asked for when it is needed first; nil has neither.
	Control func() (*Control, error)
	// Out returns what sandboxes reach hosts through. It is asked for when the
	// first command of this Manager may reach one; nil lets none.
	Out func() (proxy.Server, error)
}

// Permanent adds g to the settings file, for the sandboxes of agent where the
// file has settings of its own for it and for all otherwise.
type Permanent func(agent string, g sandbox.Grant) error

// A Manager runs commands in sandboxes and keeps account of them. It is
// safe for concurrent use, and any number of processes may share a state
// folder.
type Manager struct {
	settings     *atomic.Pointer[config.Settings] // in force; see current
	reload       *reload                          // or nil
	state        *statedir.Dir
	providers    *provider.Set
	images       Images
	host         Host
	log          logrus.FieldLogger
	commandFlags []string
	now          func() time.Time
	approver     sandbox.Approver   // or nil
	permanent    Permanent          // or nil
	recorder     violation.Recorder // or nil
	observer     operation.Observer // or nil
	out          func() (proxy.Server, error)
	accounting   Accounting               // or nil
	control      func() (*Control, error) // or nil
	prepared     *prepared
	skills       *skillStamps
	begin        func(context.Context, config.Resolved, Request) error // or nil

	records   *registry.Store
	leases    keylock.Locker    // of this machine
	kept      map[string]keeper // by provider, of those that keep their state themselves
	owners    *workspace.Owners
	watch     *hostpath.Watch // on what records and descriptions were read from
	handles   *handles
	grants    *grants
	portHolds *portHolds
	traffic   *traffic
	names     *settingsCache[string] // see Name
	usables   *settingsCache[Usable] // see Usable

	// Each has a part of the work, and what it remembers for it.
	approvals   *approvals
	browsers    *browsers
	builder     *builder
	checkpoints *checkpoints
	calls       *calls
	describer   *describer
	executor    *executor
	explainer   *explainer
	freezer     *freezer
	creations   *creations
	expiry      *expiry
	gates       *gates
	lister      *lister
	pool        *poolKeeper
	pruner      *pruner
	reporter    *reporter
	stager      *stager

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

	// Ask has the approver asked when the command is stopped by a rule that
	// a grant opens. When it is allowed the command is run again from the
	// start, with the same input; Again, when set, hears of that before.
	Ask   bool
	Again func()

	// User is the account inside of the sandbox that the command runs as. It is
	// empty, or names the sandbox's own user in one of these ways: "sandbox",
	// "user", its number, or its number with that of its group, as in 1000:1000.
	// There is no other account to run as.
	User string

	// Tool is the tool of an agent that this request is, which must be one
	// that the agent may use; empty where a person makes the request.
	Tool     string
	Subagent bool // a sub-agent asks: commands.subagentBlock counts too

	// Unsandboxed asks to run without a sandbox, which the settings have to
	// permit by commands.allowUnsandboxed; otherwise nothing runs.
	Unsandboxed bool

	// Changes says of a request for files that some are to be changed. It is
	// refused before a sandbox is made where none may be; each change is
	// judged in any case.
	Changes bool

	MustExist bool // fail with CodeNotFound rather than create
	Remove    bool // remove the sandbox and its workspace afterwards

	// From is the id or name of the checkpoint that the sandbox begins with; empty
	// is none. The sandbox must not exist, which is CodeBusy otherwise.
	From string

	// Services run beside the command, in sandboxes of their own, from before it
	// begins until it has ended. Heeded by [Manager.Run] alone.
	Services []Service

	// Report has the outcome of [Manager.Run] hold a Report.
	Report bool

	service  bool   // the command is a service: nothing of the session's settings opens anything to it
	line     string // what a shell was given to run, where Command starts that shell
	unjudged bool   // what the command says is not held against the rules
	files    bool   // it is for files and runs no command
	bare     bool   // it ensures a sandbox and does nothing in it, which is no call that is paid for
}

// An Outcome is how a request ended.
type Outcome struct {
	Name     string // the sandbox
	Exit     sandbox.Exit
	TimedOut bool // the command was ended at its time limit
	Created  bool // the sandbox was made, or claimed, for this request
	Claimed  bool // it was a slot of the pool, which was ready
	Duration time.Duration

	// Miss says why the sandbox was made although a pool is kept, and how long
	// that took; nil where none is kept or nothing was made.
	Miss *pool.Miss

	// Waited is what connections of the command waited for their turn because of
	// network.limits.connections; nil for nothing.
	Waited *sandbox.Waited

	// Warnings say what of the command line strictness strict would refuse,
	// where the line needed approval: one sentence each.
	Warnings []string

	// Blocked says that the command failed because rules stopped it, with
	// evidence; the reason is one line for people and agents, and both hold
	// names from inside. See package violation.
	Blocked         bool
	BlockedReason   string
	BlockedResource string
	Violations      []sandbox.Violation // also of commands that did without

	Report    *Report    // where the request asked for one
	CopiedOut *CopiedOut // nil where the workspace is no copy

	Answers []Answer            // to what was asked, in that order
	Causes  []sandbox.Violation // what Blocked rests on, the likeliest first

	reached []proxy.Reached
}

// An Answer is what became of one question about a permission.
type Answer struct {
	Request    sandbox.PermissionRequest `json:"request"`
	Permission sandbox.Permission        `json:"permission"`
	Note       string                    `json:"note,omitempty"` // what else there is to say about it
}
