package cli

import (
	"context"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/images/about"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/workspace"
)

// A Backend makes the parts that commands work with. A part is made when a
// command needs it and not before, so that a command which needs little
// starts quickly. Nothing made here may talk to an engine before it is used.
type Backend interface {
	// Manager returns what runs and keeps account of sandboxes, and a
	// function that lets go of it.
	Manager(o Options) (Manager, func(), error)

	// Images returns what makes and finds images, and a function that lets
	// go of it.
	Images(o Options) (ImageStore, func(), error)

	// Browsers returns what keeps browsers, and a function that lets go of it
	// and ends what was let in.
	Browsers(o Options) (BrowserDisplay, func(), error)

	// Violations returns what was tried and stopped, and a function that lets
	// go of it.
	Violations(o Options) (ViolationStore, func(), error)

	// Evidence returns what was done, and a function that lets go of it.
	Evidence(o Options) (EvidenceStore, func(), error)

	// Tokens returns the bearer tokens, and a function that lets go of them.
	Tokens(o Options) (TokenStore, func(), error)

	// Ports returns what reaches ports inside sandboxes, and a function that lets
	// go of it.
	Ports(o Options) (PortStore, func(), error)

	// Changes returns what shows and applies changes of workspaces of this machine,
	// and a function that lets go of it.
	Changes(o Options) (ChangeStore, func(), error)

	// Checkpoints returns what keeps states of sandboxes, and a function that
	// lets go of it.
	Checkpoints(o Options) (CheckpointStore, func(), error)

	// Top shows sandboxes on a terminal until the view is left or ctx ends, or
	// writes one picture of them.
	Top(ctx context.Context, o Options, v TopView) error

	// Console returns what makes links to the web console of a daemon, and a
	// function that lets go of it.
	Console(o Options) (ConsoleStore, func(), error)

	// Settings returns the settings file; a missing one gives the defaults.
	Settings(o Options) (*config.Settings, error)

	// Inside returns what policies have to know of the place where commands
	// of res run.
	Inside(res config.Resolved) (config.Inside, error)

	// Doctor looks at the machine and, with attack, tries from inside a
	// temporary sandbox to get out. An error means that it could not look.
	Doctor(ctx context.Context, o Options, who config.Who, flags *config.SandboxSettings, attack bool) (Diagnosis, error)

	// Serve serves sandboxes over HTTP until ctx ends.
	Serve(ctx context.Context, o Options, s Serving) error

	// MCP serves the tools of a session to one client of the Model Context
	// Protocol, until it goes or ctx ends.
	MCP(ctx context.Context, o Options, s MCPSession) error

	// Guest returns the path and the SHA-256 of the guest binary.
	Guest() (path, digest string, err error)
}

// Options say what the global flags and the command want of the backend.
type Options struct {
	ConfigFile   string   // empty: not named by a flag
	StateDir     string   // empty: not named by a flag
	Provider     string   // empty: not named by a flag
	Host         Host     // the daemon that carries it out; heeded by the parts that commands of the list anywhere need
	CommandFlags []string // the global flags that say so, names and values in turn, for hints
	Log          logrus.FieldLogger
	Coding       *CodingAgent     // the program of a coding agent that all calls are for; nil is none
	Approver     sandbox.Approver // answers what --ask asks
	Progress     about.Progress   // hears what is done to images
}

// A Manager brings sandboxes up and keeps account of them;
// *manager.Manager is one.
type Manager interface {
	Runner
	Keeper
}

// A Runner brings a session's sandbox up and uses it.
type Runner interface {
	Run(ctx context.Context, r manager.Request) (manager.Outcome, error)
	Shell(ctx context.Context, r manager.Request) (manager.Outcome, error)
	Files(ctx context.Context, r manager.Request, fn func(manager.Share) error) error
	StageFor(ctx context.Context, r manager.Request, refs []string) ([]workspace.Staged, error)
}

// A Keeper tells of sandboxes and takes them away.
type Keeper interface {
	List(ctx context.Context, o manager.ListOptions) (manager.Listing, error)
	Select(ctx context.Context, tenant string, s manager.Selector, browsers bool) ([]manager.Row, error)
	Recreate(ctx context.Context, rows []manager.Row) manager.Recreated
	Prune(ctx context.Context, o manager.PruneOptions) (manager.Pruned, error)
	Explain(ctx context.Context, who config.Who, flags *config.SandboxSettings, q manager.Questions) (manager.Explanation, error)
	Caches(ctx context.Context, tenant string) ([]manager.Cache, error)
	Stats(ctx context.Context, tenant string) ([]manager.Stat, error)
	PoolStatus(ctx context.Context) (manager.PoolStatus, error)
}

// An ImageStore makes and finds images; *images.Store is one.
type ImageStore interface {
	List(ctx context.Context) ([]about.Image, error)
	Build(ctx context.Context, o about.Options) (about.Image, error)
	Pull(ctx context.Context, ref string, o about.Options) (about.Image, error)
	Bootstrap(ctx context.Context, o about.Options) (about.Image, error)
	BuildProject(ctx context.Context, p about.Project, o about.Options) (about.Image, error)
	Prune(ctx context.Context) ([]about.Image, error)
}
