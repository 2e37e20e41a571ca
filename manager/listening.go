package manager

import (
	"context"
	"errors"
	"slices"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/registry"
)

// listening are the sockets at which a daemon of the state folder listens.
func (d *describer) listening() ([]string, error) { return d.m.state.Listening() }

// CheckListen refuses to have a daemon listen at a canonical path that lies in a
// folder which a sandbox shows, or which settings let sandboxes write: code inside
// could connect there, or put a socket of its own in its place.
func (m *Manager) CheckListen(ctx context.Context, path string) error {
	refuse := func(resource, message string) error {
		return &sandbox.Error{
			Code: sandbox.CodeCapabilityBlocked, Op: "listen", Field: "listen", Resource: resource, Message: "the socket " + path + " " + message,
			Hint: "name a path outside of every folder that sandboxes see, such as one below $XDG_RUNTIME_DIR",
		}
	}
	writable, err := m.stager.inSandboxes(m.current())
	if err != nil {
		return err
	}
	for _, dir := range writable {
		if hostpath.Within(path, dir) {
			return refuse(dir, "would lie in a folder that sandboxes can write: "+dir)
		}
	}
	records, _, err := m.records.List("")
	if err != nil {
		return err
	}
	for _, r := range records {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		rec, err := m.records.Get(r.Kind, r.Name)
		if sandbox.IsNotFound(err) || errors.Is(err, registry.ErrCorrupt) || err == nil && rec.Spec == nil {
			continue
		}
		if err != nil {
			return err
		}
		if slices.ContainsFunc(rec.Spec.Mounts, func(mount sandbox.Mount) bool { return shows(mount.Source, path) }) {
			return refuse(r.Name, "would lie in a folder that the sandbox "+r.Name+" shows")
		}
		if slices.ContainsFunc(rec.Spec.Filesystem.AllowUnixSockets, func(s string) bool { return shows(s, path) }) {
			return refuse(r.Name, "is one that the sandbox "+r.Name+" may connect to")
		}
	}
	return nil
}

// shows reports whether the host path source is at or above the canonical path p.
func shows(source, p string) bool {
	if canonical, err := hostpath.Canonical(source); err == nil {
		source = canonical
	}
	return hostpath.Within(p, source)
}
