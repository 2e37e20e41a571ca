//go:build linux

package main

import (
	"context"
	"os"
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/policy/hardening"
	"github.com/bulkhead-dev/sandbox/provider/local"
)

// A Local is a sandbox of the local provider, beside the container.
type rigLocal struct {
	Spec     sandbox.Spec
	Provider *local.Provider
	Sandbox  sandbox.Sandbox // an open handle
	// Hand is the same sandbox typed by hand: bubblewrap and /bin/true.
	Hand []string
}

// OpenLocal makes a sandbox of the local provider; Close removes it. It has the
// limits and mounts of the container, as far as the provider supports them.
func (r *rig) OpenLocal(ctx context.Context) (*rigLocal, error) {
	spec, err := r.LocalSpec(strings.TrimPrefix(r.Spec.Owner.Session, "bench-") + "-local")
	if err != nil {
		return nil, err
	}
	l := &rigLocal{Spec: spec, Provider: r.LocalProvider()}
	if _, err := l.Provider.Create(ctx, spec); err != nil {
		return nil, err
	}
	r.later(func(ctx context.Context) error { return l.Provider.Remove(ctx, spec.Name) })
	if l.Sandbox, err = l.Provider.Open(ctx, spec); err != nil {
		return nil, err
	}
	r.later(func(context.Context) error { return l.Sandbox.Close() })
	byHand := spec
	byHand.Workdir = "/" // the workspace is its user's, which root without capabilities is not
	l.Hand, err = l.Provider.Command(ctx, byHand, "/bin/true")
	return l, err
}

// LocalProvider returns a local provider that Close ends.
func (r *rig) LocalProvider() *local.Provider {
	home, _ := os.UserHomeDir() // one less place to keep out of the sandboxes
	p := local.New(local.Options{
		State: r.state.Path(),
		World: func() hardening.World {
			return hardening.World{
				Canonical: hostpath.Canonical, Sensitive: []string{r.state.Path()}, Workspaces: []string{r.state.Workspaces()}, Home: home,
			}
		},
		Warn: func(name, warning string) { r.log("%s: %s", name, warning) },
	})
	r.later(func(context.Context) error { return p.Close() })
	return p
}

// LocalSpec describes a sandbox of the local provider.
func (r *rig) LocalSpec(session string) (sandbox.Spec, error) {
	s, err := r.NewSpec("", "bench-"+session)
	if err != nil {
		return s, err
	}
	s.Provider, s.ImageID, s.Security.Seccomp = "local", "", ""
	s.Mounts = slices.DeleteFunc(s.Mounts, func(m sandbox.Mount) bool { return m.Role == sandbox.RoleSocket })
	return s, nil
}

// StateDir is the state folder, for programs that are to share it.
func (r *rig) StateDir() string { return r.state.Path() }
