//go:build linux

// This file makes the one hardened sandbox that the benchmarks measure, opens
// it over every transport, and removes everything again.

package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/container"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/policy/hardening"
	"github.com/bulkhead-dev/sandbox/provider/docker"
)

// Options of a Rig.
type Options struct {
	Image string // what the sandbox is made from; it must be there
	Guest string // path of the guest binary
	Dir   string // folder in which the state folder is made; empty is the system's for temporary files
	// Log receives a line for people now and then; nil drops them.
	Log func(format string, args ...any)
}

// A Rig is one sandbox with open handles to it. Close removes it.
type rig struct {
	Spec      sandbox.Spec
	Info      sandbox.Info
	Provider  *docker.Provider
	Plain     *plainEngine // the yardstick
	Posture   container.Posture
	Socket    sandbox.Sandbox // the sandbox over the guest's socket
	Relay     sandbox.Sandbox // the same one over a relay, after OpenRelay
	Workspace *os.Root        // the workspace on the host

	engine   *container.Engine
	state    *statedir.Dir
	load     string           // path of the program that fetches, after BuildLoad
	outside  *rigOutside      // after OpenOutside
	browsers *rigBrowsers     // after OpenBrowsers
	within   *manager.Manager // after OpenManager
	pool     *rigPool         // after OpenPool
	daemon   *rigDaemon       // after OpenDaemon
	log      func(format string, args ...any)
	keep     bool                              // the state folder stays: not all sandboxes with a home in it are gone
	undo     []func(ctx context.Context) error // in the order of making
}

// New makes the sandbox. With an error nothing is left behind.
func New(ctx context.Context, o Options) (*rig, error) {
	if os.Geteuid() != 0 {
		return nil, &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: "prepare the benchmark",
			Message: "only root can give the sandbox a user id of its own and read the memory of its processes", Hint: "run it with sudo"}
	}
	r := &rig{log: o.Log}
	if r.log == nil {
		r.log = func(string, ...any) {}
	}
	if err := r.build(ctx, o); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (r *rig) build(ctx context.Context, o Options) error {
	if err := r.dial(ctx); err != nil {
		return err
	}
	if err := r.makeState(o); err != nil {
		return err
	}
	session := make([]byte, 4)
	if _, err := rand.Read(session); err != nil {
		return err
	}
	var err error
	if r.Spec, err = r.NewSpec(o.Image, "bench-"+hex.EncodeToString(session)); err != nil {
		return err
	}
	r.log("making the container %s", r.Spec.Name)
	if r.Info, err = r.Provider.Create(ctx, r.Spec); err != nil {
		return err
	}
	if r.Socket, err = r.open(ctx, r.Spec); err != nil {
		return err
	}
	r.Workspace, err = os.OpenRoot(r.workspace(r.Spec.Name))
	if err == nil {
		r.later(func(context.Context) error { return r.Workspace.Close() })
	}
	return err
}

// dial connects to the engine and asks it about itself.
func (r *rig) dial(ctx context.Context) error {
	api, err := container.Dial()
	if err != nil {
		return err
	}
	r.engine = container.New(api, container.Deadlines{})
	r.later(func(context.Context) error { return r.engine.Close() })
	if r.Posture, err = r.engine.Posture(ctx); err != nil {
		return err
	}
	if r.Plain, err = Dial(); err != nil {
		return err
	}
	r.later(func(context.Context) error { return r.Plain.Close() })
	return nil
}

// makeState makes a state folder and the provider on it, and sees to it that
// every container with the folder's label is removed before the folder is.
func (r *rig) makeState(o Options) error {
	dir, err := os.MkdirTemp(o.Dir, "sandbox-bench-")
	if err != nil {
		return statedir.Unavailable("prepare the benchmark", o.Dir, err)
	}
	r.later(func(context.Context) error {
		if r.keep {
			return sandbox.Errorf(sandbox.CodeUnavailable, "remove the state", "sandboxes are left, whose homes are mounted below %s: it stays", dir)
		}
		return os.RemoveAll(dir)
	})
	if r.state, err = statedir.Open(filepath.Join(dir, "state")); err != nil {
		return err
	}
	r.later(r.removeContainers)
	r.Provider = docker.New(r.engine, docker.Options{
		Sockets: r.state, Instance: r.state.Instance(), Protection: filepath.Join(r.state.Path(), "docker"),
		World: func() hardening.World {
			return hardening.World{
				Canonical:  hostpath.Canonical,
				Sensitive:  []string{r.state.Path(), "/run/docker.sock"},
				Workspaces: []string{r.state.Workspaces()},
			}
		},
		Warn: func(name, warning string) { r.log("%s: %s", name, warning) },
	})
	return r.installGuest(o.Guest)
}

// open opens a handle that Close lets go of.
func (r *rig) open(ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
	sb, err := r.Provider.Open(ctx, s)
	if err == nil {
		r.later(func(context.Context) error { return sb.Close() })
	}
	return sb, err
}

// OpenRelay opens the sandbox once more, over a relay. It is a step of its
// own because the relay is a process inside, which takes memory.
func (r *rig) OpenRelay(ctx context.Context) (err error) {
	r.Relay, err = r.open(ctx, withoutSocket(r.Spec))
	return err
}

// Files returns the file bridge over sb's own file server. A sandbox that
// serves no files is [sandbox.CodeUnsupported]: the scripts that stand in
// for it then are not what is measured here.
func (r *rig) Files(ctx context.Context, sb sandbox.Sandbox) (*fsbridge.Bridge, error) {
	b, err := fsbridge.Open(ctx, sb, r.Spec.Mounts, r.Spec.Tmpfs)
	if err != nil {
		return nil, err
	}
	if b.Transport().Name != fsbridge.TransportGuest {
		return nil, &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "open files", Resource: r.Spec.Name, Message: b.Transport().Note}
	}
	return b, nil
}

// Remove removes the container name and waits until it is gone.
func (r *rig) Remove(ctx context.Context, name string) error { return r.engine.Remove(ctx, name) }

// later registers what Close has to do.
func (r *rig) later(f func(ctx context.Context) error) { r.undo = append(r.undo, f) }

// Close removes every container and file of the rig, within a minute or so
// (hundreds of containers may take longer), in the opposite order of their
// making. All is tried, whatever fails.
func (r *rig) Close() error {
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	var errs []error
	for len(r.undo) > 0 {
		last := len(r.undo) - 1
		errs = append(errs, r.undo[last](ctx))
		r.undo = r.undo[:last]
	}
	return errors.Join(errs...)
}

func (r *rig) removeContainers(ctx context.Context) error {
	infos, err := r.engine.List(ctx, sandbox.Filter{Instance: r.state.Instance()})
	errs := []error{err}
	for _, info := range infos {
		errs = append(errs, r.engine.Remove(ctx, info.ID))
	}
	return errors.Join(errs...)
}
