// Package sdk is the Go API for programs that run code in sandboxes. A [Client]
// has the sandboxes of this process ([Open]) or of a daemon ([Dial]), and is the
// same type with the same results in both cases:
//
//	c, err := sdk.Open(ctx)
//	…
//	defer c.Close()
//	sb, err := c.Sandbox(ctx, "chat-42")
//	…
//	res, err := sb.Run(ctx, "python3", "-c", "print(42)")
//
// A Client of this process serves the HTTP API of the daemon to itself, over
// connections in memory, so that every call takes the same path as over HTTP: it
// is judged, bounded and recorded in one place. [Client.API] has a method for
// each operation of that API, for what has no method here.
//
// The end of a context ends the call with what it runs. Errors are of type
// *[sandbox.Error] and have the stable codes of that package, also those that a
// daemon sends. That a command fails is no error but a [Result] with its exit
// code. A daemon that cannot be reached, or an answer that is not a daemon's, is
// CodeUnavailable; that something does not exist is reported only when the
// daemon says so.
package sdk

import (
	"context"
	"path/filepath"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/orchestrator"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// longest is the longest time that a command may run over HTTP. Calls of a
// Client are bounded by their contexts, and by nothing that is shorter.
const longest = 7 * 24 * time.Hour

// A Client has the sandboxes of this process or of a daemon. It is safe for
// concurrent use.
type Client struct {
	api   *API
	local bool
	o     options
	life  context.Context // ends with Close
	close func()
}

// options are what the options of Open and Dial come to.
type options struct {
	api      APIOptions
	settings *config.Builder
	open     orchestrator.Options
	defaults []SandboxOption
	approver sandbox.Approver
	log      logrus.FieldLogger
}

// An Option is a choice of [Open] or [Dial].
type Option struct {
	name   string
	opens  bool // Open takes it
	dials  bool // Dial takes it
	change func(*options)
}

// Token returns the option of [Dial] with the bearer token that the daemon
// requires of callers that it does not know as its own user.
func Token(token string) Option {
	return Option{"Token", false, true, func(o *options) { o.api.Token = token }}
}

// Tenant returns the option that names the tenant whose sandboxes are meant.
func Tenant(name string) Option {
	return Option{"Tenant", true, true, func(o *options) { o.api.Tenant = name }}
}

// Settings returns the option of [Open] with settings that take the place of the
// settings file. Open returns what is wrong with them.
func Settings(b *config.Builder) Option {
	return Option{"Settings", true, false, func(o *options) { o.settings = b }}
}

// ConfigFile returns the option of [Open] with the path of the settings file.
// Without it that is $SANDBOX_CONFIG, or the file in the user's configuration
// folder or in /etc/sandbox, or none.
func ConfigFile(path string) Option {
	return Option{"ConfigFile", true, false, func(o *options) { o.open.ConfigFile = path }}
}

// StateDir returns the option of [Open] with the folder that keeps workspaces
// and records. Without it that is $SANDBOX_STATE_DIR, or a folder in the user's
// state folder, which the command line uses too.
func StateDir(dir string) Option {
	return Option{"StateDir", true, false, func(o *options) { o.open.StateDir = dir }}
}

// Log returns the option with the logger that receives warnings; without it
// there is none.
func Log(l logrus.FieldLogger) Option {
	return Option{"Log", true, true, func(o *options) { o.log = l }}
}

// Approver returns the option with what is asked for permission when a rule that
// a permission opens stops a command or a tool; see [sandbox.Approver]. Without
// it such a command is stopped, unless [Command].Ask has a person asked who
// answers elsewhere.
func Approver(a sandbox.Approver) Option {
	return Option{"Approver", true, true, func(o *options) { o.approver = a }}
}

// Defaults returns the option with options of every sandbox, which those of a
// single sandbox come after. A daemon takes settings from admins alone.
func Defaults(more ...SandboxOption) Option {
	return Option{"Defaults", true, true, func(o *options) { o.defaults = append(o.defaults, more...) }}
}

// gather applies options.
func gather(op string, takes func(Option) bool, list []Option) (options, error) {
	o := options{api: APIOptions{Timeout: longest}}
	for _, one := range list {
		if one.change == nil || !takes(one) {
			return o, &sandbox.Error{
				Code: sandbox.CodeValidation, Op: op, Field: one.name, Message: "it takes no such option",
				Hint: "settings and folders are options of Open, a token is one of Dial; see Defaults for settings of a daemon's sandboxes",
			}
		}
		one.change(&o)
	}
	if o.log == nil {
		o.log = silent()
	}
	return o, nil
}

// Dial returns a client of the daemon at address: unix:PATH, tcp:HOST:PORT,
// http://HOST[:PORT] or https://HOST[:PORT]. It returns an error when the daemon
// does not answer. A token is sent over plain TCP to loopback addresses alone.
func Dial(ctx context.Context, address string, list ...Option) (*Client, error) {
	o, err := gather("dial", func(o Option) bool { return o.dials }, list)
	if err != nil {
		return nil, err
	}
	a, err := NewAPI(address, o.api)
	if err != nil {
		return nil, err
	}
	c := &Client{api: a, o: o}
	if err := c.begin(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// begin checks that the daemon answers.
func (c *Client) begin(ctx context.Context) error {
	var stop context.CancelFunc
	c.life, stop = context.WithCancel(context.Background())
	end := c.close
	c.close = func() {
		stop()
		_ = c.api.Close() // has no error
		if end != nil {
			end()
		}
	}
	if _, err := c.api.Health(ctx); err != nil {
		c.close()
		return err
	}
	return nil
}

// API returns the HTTP API of the daemon, or of this process, on behalf of the
// client's tenant.
func (c *Client) API() *API { return c.api }

// Close ends what the client has running: for a client of this process also its
// local sandboxes. Containers stay, and are found again by their session.
func (c *Client) Close() error {
	c.close()
	return nil
}

// A SandboxOption is a choice of [Client.Sandbox].
type SandboxOption func(*sandboxOptions)

// sandboxOptions are what the options of a sandbox come to.
type sandboxOptions struct {
	agent     string
	workspace string
	private   bool
	ttl       time.Duration
	from      string // a checkpoint
	creation  config.Creation
	set       bool // that layer says something
	layer     *config.Builder
}

// with returns the option that writes settings.
func with(change func(*config.Builder)) SandboxOption {
	return func(o *sandboxOptions) {
		o.set = true
		change(o.layer)
	}
}

// Agent names the agent whose settings and whose sandbox are meant; without it
// that is "main".
func Agent(id string) SandboxOption { return func(o *sandboxOptions) { o.agent = id } }

// Workspace makes a folder of the host the writable workspace of the sandbox;
// without it the sandbox has a workspace of its own. For a daemon it is an
// absolute path on the daemon's machine.
func Workspace(dir string) SandboxOption { return func(o *sandboxOptions) { o.workspace = dir } }

// Private makes the workspace a copy-on-write view of a folder of the host: the
// sandbox reads the folder, and what it writes stays in a layer of its own. For a
// daemon dir is an absolute path on the daemon's machine.
func Private(dir string) SandboxOption {
	return func(o *sandboxOptions) { o.workspace, o.private = dir, true }
}

// TTL has the sandbox removed when so long has passed, rounded up to seconds.
func TTL(d time.Duration) SandboxOption { return func(o *sandboxOptions) { o.ttl = d } }

// Created asks for what the sandbox is to have beside what the settings give: image,
// variables, bounds, network rules, labels, metadata and a timeout. A sandbox that is
// there with other values is refused with CodeBusy and the field.
func Created(c config.Creation) SandboxOption { return func(o *sandboxOptions) { o.creation = c } }

// Provider chooses the kind of sandbox: docker, local or auto.
func Provider(name string) SandboxOption {
	return with(func(b *config.Builder) { b.Provider(name) })
}

// Image sets the image of containers.
func Image(ref string) SandboxOption { return with(func(b *config.Builder) { b.Image(ref) }) }

// Env sets a variable of the environment of all commands.
func Env(name, value string) SandboxOption {
	return with(func(b *config.Builder) { b.Env(name, value) })
}

// AllowDomain lets programs reach hosts; *.example.com are those below it.
// Without it they reach nothing.
func AllowDomain(hosts ...string) SandboxOption {
	return with(func(b *config.Builder) { b.AllowDomain(hosts...) })
}

// DenyDomain closes hosts that are allowed otherwise.
func DenyDomain(hosts ...string) SandboxOption {
	return with(func(b *config.Builder) { b.DenyDomain(hosts...) })
}

// Secret puts the variable name of the orchestrating process, this one or the
// daemon, into requests to the hosts. Programs inside see a stand-in for it.
func Secret(name string, hosts ...string) SandboxOption {
	return with(func(b *config.Builder) { b.Secret(name, hosts...) })
}

// Limits are bounds of one command; zero leaves a bound to the settings.
type Limits struct {
	Timeout     time.Duration
	Memory      int64 // bytes
	CPUSeconds  int64
	FileSize    int64 // bytes of each file that it writes
	OpenFiles   int64 // of each process
	Processes   int64
	OutputBytes int64 // kept of each output stream by Run, Exec and Shell.Run
}

// Limit bounds every command of the sandbox.
func Limit(l Limits) SandboxOption {
	return with(func(b *config.Builder) {
		if l.Timeout != 0 {
			b.Timeout(l.Timeout)
		}
		for _, bound := range []struct {
			value int64
			set   func(int64) *config.Builder
		}{
			{l.Memory, b.MemoryLimit}, {l.CPUSeconds, b.CPULimit}, {l.FileSize, b.FileSizeLimit},
			{l.OpenFiles, b.OpenFilesLimit}, {l.Processes, b.ProcessLimit}, {l.OutputBytes, b.MaxOutput},
		} {
			if bound.value != 0 {
				bound.set(bound.value)
			}
		}
	})
}

// With calls change with the settings of the sandbox, for those that have no
// option here.
func With(change func(*config.Builder)) SandboxOption { return with(change) }

// Sandbox makes the sandbox of a session ready and returns it: it makes, starts
// or thaws it, or takes one from the pool. The same session finds the same
// sandbox again, from any process with the same state folder or daemon. The
// empty session is "default".
//
// Options that write settings have the effect of settings of the agent. A
// sandbox that runs with other settings is refused with CodeBusy while it is
// used, and made anew otherwise. A daemon takes them from admins alone.
func (c *Client) Sandbox(ctx context.Context, session string, list ...SandboxOption) (*Sandbox, error) {
	o := sandboxOptions{layer: config.NewBuilder()}
	for _, change := range append(c.o.defaults[:len(c.o.defaults):len(c.o.defaults)], list...) {
		change(&o)
	}
	a := c.api.For(c.api.o.Tenant, o.agent, session)
	var err error
	if a.o.settings, err = c.header(o); err != nil {
		return nil, err
	}
	made, err := a.CreateSandbox(ctx, api.CreateSandbox{TTLSeconds: int64((o.ttl + time.Second - 1) / time.Second), From: o.from, Creation: o.creation})
	if err != nil {
		return nil, err
	}
	return &Sandbox{c: c, api: a, name: made.Name, agent: made.Agent, session: made.Session}, nil
}

// header returns the value of the header [api.HeaderSettings].
func (c *Client) header(o sandboxOptions) (string, error) {
	if !o.set && o.workspace == "" {
		return "", nil
	}
	s, err := o.layer.Build()
	if err != nil {
		return "", err
	}
	layer := *s.Agents.Defaults.Sandbox
	if o.workspace != "" {
		if c.local {
			if o.workspace, err = filepath.Abs(o.workspace); err != nil {
				return "", sandbox.Errorf(sandbox.CodeValidation, "make sandbox", "the workspace has no absolute path: %w", err)
			}
		}
		layer.Workspace = &o.workspace
		if o.private {
			layer.WorkspaceAccess = new(sandbox.AccessPrivate)
		}
	}
	return settingsHeader(&layer)
}
