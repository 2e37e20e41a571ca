// Package orchestrator connects the parts of this project on one machine: the
// settings file, the state folder, the providers, the egress proxy, the records,
// and the manager that uses them. The program sandbox is built on it, and a
// program of your own begins with it:
//
//	h, err := orchestrator.Open(orchestrator.Options{})
//	…
//	defer h.Close()
//	m, err := h.Manager()
//	…
//	result, err := m.Capture(ctx, manager.Request{Who: who, Command: sandbox.Command{Args: args}})
//
// It is the one package that names concrete providers. A program adds providers
// of its own with [Options].Providers.
package orchestrator

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/audit/violation"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/grant/operation"
	"github.com/bulkhead-dev/sandbox/images/about"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/policy/hardening"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/provider/local"
	"github.com/bulkhead-dev/sandbox/provider/local/launch"
	"github.com/bulkhead-dev/sandbox/workspace"
)

// Options set where settings and state are stored, which approvers are asked
// and which recorders receive events. The zero value is what the program
// sandbox uses without flags.
type Options struct {
	ConfigFile string // empty: $SANDBOX_CONFIG, else the file in the user's configuration folder or in /etc/sandbox if there is one

	// Coding, unless nil, is the program of a coding agent for which all calls are.
	Coding *CodingAgent

	// Settings, unless nil, are in force in place of every settings file, and
	// exclude ConfigFile. Permissions that are allowed for good cannot be kept
	// then. The caller does not change them afterwards.
	Settings *config.Settings

	StateDir string // empty: $SANDBOX_STATE_DIR, or the folder in the user's state folder
	Provider string // of every call that names none by its Flags, whatever the settings say; empty leaves it to them

	// Providers are kinds of sandboxes beside the built-in ones, which settings
	// name like those.
	Providers []Registration

	Log logrus.FieldLogger // nil is silent
	// CommandFlags are the global flags of the command line, for hints; see
	// [manager.Options].
	CommandFlags []string
	Approver     sandbox.Approver   // asked for permissions, beside the fronts of Approvals; nil: no approver
	Progress     about.Progress     // hears what is done to images; may be nil
	Observe      operation.Observer // hears of every call and every operation under a grant, for metrics; may be nil
	// Accounting keeps account of sandboxes, see [manager.Options]. It is asked
	// for when the manager is made; nil is none.
	Accounting func() (manager.Accounting, error)
	// Violations and Evidence are called with records that this process has written,
	// see [violation.Options] and [evidence.Options]; nil is none.
	Violations func([]violation.Record)
	Evidence   func([]evidence.Record)
	// Begin hears of every call, see [manager.Options].
	Begin func(context.Context, config.Resolved, manager.Request) error
}

// A Orchestrator holds the parts that belong to one state folder. It is safe for
// concurrent use. Any number of them, in any number of programs, may share the
// folder.
type Orchestrator struct {
	o         Options
	names     []string // of the providers beside the built-in ones
	source    *config.Source
	watch     *hostpath.Watch
	bare      *config.Settings // in force where there is no settings file; nil are the defaults
	settings  *config.Settings // when we began
	file      string           // the settings file, canonical; empty when there is none
	state     *statedir.Dir
	world     hardening.World
	env       map[string]string // ours
	engine    engine
	providers *provider.Set
	records   *records

	violations *recorder
	exit       *exit
	queue      *manager.ApprovalQueue
	browsers   browsers
	manager    func() (*manager.Manager, error)
	made       atomic.Bool // the manager
	ended      atomic.Bool // the sandboxes
	once       sync.Once

	// writable are the folders that settings let sandboxes write to, as they
	// are spelled. Not to be changed.
	writable func() ([]string, error)
}

// Open makes the parts. It connects to no engine, so a bad engine address fails
// only the operations that use that engine. Errors are of type
// *[sandbox.Error]: CodeValidation for a settings file that is not valid,
// CodeUnavailable for a state folder that cannot be used.
func Open(o Options) (*Orchestrator, error) {
	if o.Log == nil {
		silent := logrus.New()
		silent.SetOutput(io.Discard)
		o.Log = silent
	}
	h := &Orchestrator{o: o, env: environment(os.Environ())}
	var err error
	if h.names, err = namesOf(o.Providers); err != nil {
		return nil, err
	}
	switch {
	case o.Settings == nil:
		if h.source, err = config.NewSource(o.ConfigFile, h.parse); err != nil {
			return nil, err
		}
		h.watch = &hostpath.Watch{}
		h.source.Watch(h.watch)
	case o.ConfigFile != "":
		return nil, &sandbox.Error{
			Code: sandbox.CodeValidation, Op: "open orchestrator", Field: "ConfigFile", Message: "settings in Go and a settings file exclude each other", Hint: "leave one out",
		}
	default:
		given := *o.Settings
		given.Environment, given.Coding = config.FromEnvironment(h.env), h.codingLayer()
		h.o.Settings = &given
	}
	layer := h.codingLayer()
	if given := config.FromEnvironment(h.env); given != nil || len(h.names) > 0 || layer != nil {
		h.bare = &config.Settings{Environment: given, Providers: h.names, Coding: layer}
	}
	if h.settings, err = h.Settings(); err != nil {
		return nil, err
	}
	if h.source != nil {
		h.file = h.source.Path()
	}
	if h.state, err = OpenState(o.StateDir); err != nil {
		return nil, err
	}
	if err = h.keepAgentSettings(layer); err != nil {
		return nil, err
	}
	h.engine = connect(h.state, h.o.Progress)
	h.records = h.newRecords()
	h.violations = newRecorder(h.state.Violations(), o.Violations)
	h.exit = h.newExit()
	h.queue = manager.NewApprovalQueue(manager.ApprovalQueueOptions{Front: o.Approver})
	h.world, err = h.look()
	h.writable = config.Following(h.current, func(s *config.Settings) ([]string, error) {
		return config.WritableFolders(s, h.world.Home, h.env)
	})
	if err == nil {
		h.providers, err = h.makeProviders()
	}
	if err != nil {
		h.end()
		return nil, err
	}
	h.manager = sync.OnceValues(h.newManager)
	h.browsers.open = sync.OnceValues(h.newDisplay)
	return h, nil
}

// Manager returns the manager, the same one each time. It ends with the Orchestrator.
func (h *Orchestrator) Manager() (*manager.Manager, error) {
	h.made.Store(true)
	return h.manager()
}

// Settings are those in force now; with an error, the last good ones.
func (h *Orchestrator) Settings() (*config.Settings, error) {
	if h.source == nil {
		return h.o.Settings, nil
	}
	s, err := h.source.Current()
	if s == nil {
		s = h.bare
	}
	return s, err
}

// parse reads a settings file, over what the environment gives.
func (h *Orchestrator) parse(name string, data []byte) (*config.Settings, error) {
	s, err := config.ParseWith(name, data, h.names)
	if err == nil {
		s.Environment, s.Coding = config.FromEnvironment(h.env), h.codingLayer()
	}
	return s, err
}

// current are the settings in force now, the last good ones where they cannot be
// read again.
func (h *Orchestrator) current() *config.Settings {
	s, _ := h.Settings() // the manager tells of the error
	return s
}

// State is the state folder.
func (h *Orchestrator) State() *statedir.Dir { return h.state }

// Providers returns the providers.
func (h *Orchestrator) Providers() *provider.Set { return h.providers }

// Approvals is where questions about permissions wait for an answer.
func (h *Orchestrator) Approvals() *manager.ApprovalQueue { return h.queue }

// World is what no sandbox may see, with the folders that sandboxes can write, as
// they lead now.
func (h *Orchestrator) World() hardening.World { return h.worldNow() }

// Violations opens the record of violations, the same one each time. It ends with the Orchestrator.
func (h *Orchestrator) Violations() (*violation.Store, error) { return h.violations.store() }

// endSandboxes ends every sandbox that ends with us. It may be called again; a provider
// of the program's own is closed once.
func (h *Orchestrator) endSandboxes() {
	if h.providers == nil {
		return
	}
	again := h.ended.Swap(true)
	for _, name := range h.providers.Names() {
		if again && slices.Contains(h.names, name) {
			continue
		}
		p, _ := h.providers.Get(name)
		if c, ok := p.(io.Closer); ok {
			c.Close()
		}
	}
}

// end lets go of every sandbox that ends with us, and of the engine.
func (h *Orchestrator) end() {
	h.endSandboxes()
	h.records.close() // a repeat after Close, which logs its errors
	h.engine.close()
}

// Close ends what the manager runs, every sandbox that ends with this program
// and every egress proxy, and writes the records that are still pending.
// Containers stay. Close logs what it could not write.
func (h *Orchestrator) Close() {
	h.once.Do(func() {
		if err := h.browsers.close(); err != nil {
			h.o.Log.WithError(err).Warn("a way into a browser has not ended in order")
		}
		h.endSandboxes() // first: otherwise guests receive reports of sessions that end with them anyway
		if h.made.Load() {
			if m, err := h.manager(); err == nil { // an earlier error was reported when the manager was made
				m.Close()
			}
		}
		if err := h.exit.close(); err != nil {
			h.o.Log.WithError(err).Warn("not everything that passed the way out is recorded")
		}
		if err := h.records.close(); err != nil {
			h.o.Log.WithError(err).Warn("not everything that was done is recorded")
		}
		if err := h.violations.Close(); err != nil {
			h.o.Log.WithError(err).Warn("violations that were counted are not recorded")
		}
		h.end()
	})
}

func (h *Orchestrator) newManager() (*manager.Manager, error) {
	o := manager.Options{
		Settings:     h.settings,
		CommandFlags: h.o.CommandFlags,
		Reload:       h.Settings,
		Watch:        h.watch,
		State:        h.state,
		Providers:    h.providers,
		Provider:     h.o.Provider,
		Images:       h.engine.source(),
		Begin:        h.o.Begin,
		Control:      h.records.control,
		Host: manager.Host{
			Home: h.world.Home, Env: h.env, WSL: launch.IsWSL(launch.Release()), CPUs: runtime.NumCPU(), Memory: hostMemory(), Sensitive: h.world.Sensitive,
			Guest: sync.OnceValues(h.guest), Trust: h.state.Trust, TrustWith: h.trusted, CanBound: h.canBound,
			Lookup: func(ctx context.Context, name string) ([]netip.Addr, error) {
				return (&net.Resolver{PreferGo: true}).LookupNetIP(ctx, "ip", name) // as package reach does
			},
		},
		Log:        h.o.Log,
		Violations: h.violations,
		Observer:   h.o.Observe,
		Approver:   h.queue,
	}
	if h.source != nil {
		o.Permanent = func(agent string, g sandbox.Grant) error {
			return config.AllowPermanent(h.o.ConfigFile, agent, g, h.names...)
		}
	}
	if h.o.Accounting != nil {
		var err error
		if o.Accounting, err = h.o.Accounting(); err != nil {
			return nil, err
		}
	}
	if h.exit != nil {
		o.Out = h.exit.proxy
	}
	return manager.New(o)
}

// local returns the provider of sandboxes without an engine.
func (h *Orchestrator) local() sandbox.Provider {
	return local.New(h.localOptions())
}

func (h *Orchestrator) landlock() sandbox.Provider { return local.NewLandlock(h.localOptions()) }

func (h *Orchestrator) localOptions() local.Options {
	return local.Options{
		State: h.state.Path(),
		World: h.worldNow,
		Warn:  func(name, warning string) { h.o.Log.WithField("sandbox", name).Warn(warning) },
	}
}

// guest finds the guest binary and installs it into the state folder.
func (h *Orchestrator) guest() (sandbox.GuestRef, error) {
	path, err := statedir.FindGuest()
	if err != nil {
		return sandbox.GuestRef{}, err
	}
	return h.state.InstallGuest(path)
}

// noImages stands for images where no engine can hold any.
type noImages struct{ why error }

func (n noImages) Volumes(context.Context, string) ([]string, error)         { return nil, n.why }
func (n noImages) Current(context.Context, string, []string) (string, error) { return "", n.why }
func (n noImages) Ensure(context.Context, string, []string) (string, error)  { return "", n.why }

// look finds out what of this host no sandbox may see, and where our own
// workspaces lie. Of settings somewhere else than in our own folder the file
// counts and not the folder, which may well be a project's.
func (h *Orchestrator) look() (hardening.World, error) {
	w := hardening.World{Canonical: hostpath.Canonical}
	var err error
	if w.Home, err = home(); err != nil {
		return w, err
	}
	sensitive := []string{h.state.Path()}
	if h.file != "" {
		sensitive = append(sensitive, h.file)
	}
	if dir, err := os.UserConfigDir(); err == nil {
		sensitive = append(sensitive, filepath.Join(dir, "sandbox"))
	}
	sockets := []string{about.DefaultEngine}
	if address := h.engine.address(); address != "" {
		sockets = append(sockets, address)
	}
	for _, s := range sockets {
		if path, ok := strings.CutPrefix(s, "unix://"); ok && filepath.IsAbs(path) {
			sensitive = append(sensitive, path)
		}
	}
	if w.Sensitive, err = canonical(sensitive); err != nil {
		return w, err
	}
	roots := []string{h.state.Workspaces()}
	for _, root := range config.WorkspaceRoots(h.settings) {
		path, err := hostpath.Expand(root, w.Home, h.env)
		if err != nil {
			return w, err
		}
		roots = append(roots, path)
	}
	w.Workspaces, err = canonical(roots)
	return w, err
}

// canBound returns why folders of sandboxes cannot be bounded here, or nil. An
// engine on another machine sees no mount of this one.
func (h *Orchestrator) canBound() error {
	if address := h.engine.address(); address != "" && !strings.HasPrefix(address, "unix://") {
		return errors.New("the engine may be on another machine")
	}
	return workspace.CanBound()
}

// worldNow is the world with the sockets at which a daemon listens and the
// folders that sandboxes can write, as they lead now: links change. Where
// they cannot be found out every mount is refused.
func (h *Orchestrator) worldNow() hardening.World {
	w := h.world
	var err error
	if w.Listening, err = h.state.Listening(); err != nil {
		w.Listening = []string{"/"} // refuses every mount
	}
	dirs, err := h.writable()
	if err == nil {
		w.Exposed, err = canonical(dirs)
	}
	if err != nil {
		w.Exposed = []string{"/"}
	}
	return w
}

func canonical(paths []string) ([]string, error) {
	out := make([]string, len(paths))
	for i, p := range paths {
		var err error
		if out[i], err = hostpath.Canonical(p); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func environment(list []string) map[string]string {
	env := make(map[string]string, len(list))
	for _, kv := range list {
		if name, value, ok := strings.Cut(kv, "="); ok {
			env[name] = value
		}
	}
	return env
}
