package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/approve"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/egress/outlet"
	"github.com/bulkhead-dev/sandbox/hardening"
	"github.com/bulkhead-dev/sandbox/hostpath"
	"github.com/bulkhead-dev/sandbox/internal/cli"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/provider/host"
	"github.com/bulkhead-dev/sandbox/provider/local"
	"github.com/bulkhead-dev/sandbox/provider/local/preflight"
	"github.com/bulkhead-dev/sandbox/settingsfile"
	"github.com/bulkhead-dev/sandbox/statedir"
	"github.com/bulkhead-dev/sandbox/violation/store"
)

// A backend wires the parts together. This file is the one place that knows
// which providers there are.
type backend struct{}

var _ cli.Backend = backend{}

// A house holds the parts that commands share.
type house struct {
	source   *settingsfile.Source
	settings *config.Settings // when we began
	file     string           // the settings file, canonical; empty when there is none
	state    *statedir.Dir
	world    hardening.World
	env      map[string]string // ours
	engine   engine
	walls    *provider.Set
	records  *recordHouse

	// writable are the folders that settings let sandboxes write to, as they
	// are spelled. Not to be changed.
	writable func() ([]string, error)
}

// open makes the parts. Nothing talks to the engine yet, and a bad address of
// one is nobody's failure but those who want it.
func open(o cli.Options) (*house, error) {
	h := &house{env: environment(os.Environ())}
	var err error
	if h.source, err = settingsfile.NewSource(o.ConfigFile, config.Parse); err != nil {
		return nil, err
	}
	if h.settings, err = h.source.Current(); err != nil {
		return nil, err
	}
	h.file = h.source.Path()
	if h.state, err = openState(o.StateDir); err != nil {
		return nil, err
	}
	h.engine = connect(h.state)
	h.records = h.newRecords(o)
	h.world, err = h.look()
	h.writable = sync.OnceValues(func() ([]string, error) { return config.WritableFolders(h.settings, h.world.Home, h.env) })
	if err == nil {
		h.walls, err = provider.New(h.containers(o), h.local(o), host.New(os.Environ()))
	}
	if err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

// endWalls ends every wall that ends with us. It may be called again.
func (h *house) endWalls() {
	if h.walls == nil {
		return
	}
	for _, name := range h.walls.Names() {
		p, _ := h.walls.Get(name)
		if c, ok := p.(io.Closer); ok {
			c.Close()
		}
	}
}

// close lets go of every wall that ends with us, and of the engine.
func (h *house) close() {
	h.endWalls()
	h.records.close() // again, where there was somebody to tell of its errors
	h.engine.close()
}

// Conductor implements cli.Backend.
func (backend) Conductor(o cli.Options) (cli.Conductor, func(), error) {
	if o.Host.Remote() {
		return remote(o.Host)
	}
	h, err := open(o)
	if err != nil {
		return nil, nil, err
	}
	violations := newRecorder(h.state.Violations())
	out := h.newExit(o, violations)
	m, err := h.manager(o, violations, out)
	if err != nil {
		h.close()
		return nil, nil, err
	}
	return conductorOf(m), func() {
		h.endWalls() // first, or their guests were told of sessions that end with them anyway
		m.Close()
		if err := out.close(); err != nil {
			o.Log.WithError(err).Warn("not everything that passed the way out is recorded")
		}
		if err := h.records.close(); err != nil {
			o.Log.WithError(err).Warn("not everything that was done is recorded")
		}
		if err := violations.Close(); err != nil {
			o.Log.WithError(err).Warn("violations that were counted are not recorded")
		}
		h.close()
	}, nil
}

func (h *house) manager(o cli.Options, violations store.Recorder, out *exit) (*manager.Manager, error) {
	var way func() (outlet.Outlet, error)
	var trust func() (string, error)
	if out != nil {
		way, trust = out.outlet, out.trust
	}
	return manager.New(manager.Options{
		Settings:  h.settings,
		Reload:    h.source.Current,
		State:     h.state,
		Providers: h.walls,
		Provider:  o.Provider,
		Images:    h.engine.source(o),
		Begin:     h.begin(),
		Control:   h.records.control,
		Host: manager.Host{
			Home: h.world.Home, Env: h.env, WSL: preflight.IsWSL(preflight.Release()), CPUs: runtime.NumCPU(), Memory: hostMemory(), Sensitive: h.world.Sensitive,
			Guest: sync.OnceValues(h.guest), Trust: trust,
		},
		Log:        o.Log,
		Violations: violations,
		Out:        way,
		Approver:   approve.New(approve.Options{Front: o.Approver}),
		Permanent:  func(agent string, g sandbox.Grant) error { return settingsfile.AllowPermanent(o.ConfigFile, agent, g) },
	})
}

// local returns the provider of walls without an engine.
func (h *house) local(o cli.Options) sandbox.Provider {
	return local.New(local.Options{
		State: h.state.Path(),
		World: h.worldNow,
		Warn:  func(name, warning string) { o.Log.WithField("sandbox", name).Warn(warning) },
	})
}

// guest finds the guest binary and installs it into the state folder.
func (h *house) guest() (sandbox.GuestRef, error) {
	path, err := statedir.FindGuest()
	if err != nil {
		return sandbox.GuestRef{}, err
	}
	return h.state.InstallGuest(path)
}

// noImages stands for images where no engine can hold any.
type noImages struct{ why error }

func (n noImages) Current(context.Context, string, []string) (string, error) { return "", n.why }
func (n noImages) Ensure(context.Context, string, []string) (string, error)  { return "", n.why }

// look finds out what of this host no sandbox may see, and where our own
// workspaces lie. Of settings somewhere else than in our own folder the file
// counts and not the folder, which may well be a project's.
func (h *house) look() (hardening.World, error) {
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
	sockets := []string{"unix:///var/run/docker.sock"}
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

// worldNow is the world with the folders that sandboxes can write, as they
// lead now: links change. One that cannot be told makes every mount below
// the root suspect, which refuses them all.
func (h *house) worldNow() hardening.World {
	w := h.world
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

// home returns the canonical home folder of the user that runs us; a user
// without one gets the empty path.
func home() (string, error) {
	dir, err := os.UserHomeDir()
	if err != nil || !filepath.IsAbs(dir) {
		return "", nil
	}
	return hostpath.Canonical(dir)
}

// stateFolder returns the absolute path of the state folder; dir is the
// flag's, or empty.
func stateFolder(dir string) (string, error) {
	if dir == "" {
		var err error
		if dir, err = statedir.Default(); err != nil {
			return "", err
		}
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", statedir.Unavailable("open state folder", dir, err)
	}
	return abs, nil
}

func openState(dir string) (*statedir.Dir, error) {
	path, err := stateFolder(dir)
	if err != nil {
		return nil, err
	}
	return statedir.Open(path)
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
