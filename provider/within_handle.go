package provider

import (
	"context"
	"net"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/guest/client"
)

// handle is an open sandbox of a [Provider].
type withinHandle struct {
	p     *Within
	spec  sandbox.Spec
	guest *client.Client
}

var (
	_ sandbox.Sandbox    = (*withinHandle)(nil)
	_ sandbox.FileServer = (*withinHandle)(nil)
	_ sandbox.Dialer     = (*withinHandle)(nil)
	_ sandbox.Listener   = (*withinHandle)(nil)

	_ sandbox.Snapshotter = (*withinHandle)(nil)
)

// Info implements [sandbox.Sandbox]. Of one that was removed it says what it was.
func (h *withinHandle) Info() sandbox.Info {
	h.p.mu.Lock()
	defer h.p.mu.Unlock()
	if b := h.p.boxes[h.spec.Name]; b != nil {
		return b.now()
	}
	return sandbox.Info{Name: h.spec.Name, Kind: h.spec.Kind, Provider: h.p.o.Name, Owner: h.spec.Owner, Status: sandbox.StatusMissing}
}

// Start implements [sandbox.Sandbox].
func (h *withinHandle) Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	return h.guest.Start(ctx, Command(c, h.spec))
}

// OpenShell implements [sandbox.Sandbox].
func (h *withinHandle) OpenShell(ctx context.Context, o sandbox.ShellOptions) (sandbox.Shell, error) {
	o, limits := Shell(o, h.spec)
	return h.guest.OpenShell(ctx, o, limits)
}

// Snapshot implements [sandbox.Snapshotter].
func (h *withinHandle) Snapshot(ctx context.Context) (sandbox.Snapshot, error) {
	return h.guest.Snapshot(ctx)
}

// Usage implements [sandbox.Sandbox]: a guest does not measure the machine.
func (h *withinHandle) Usage(context.Context) (sandbox.Usage, error) {
	return sandbox.Usage{}, &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "usage", Resource: h.spec.Name, Message: "the provider " + h.p.o.Name + " does not measure sandboxes"}
}

// Files implements [sandbox.FileServer]. Paths are absolute ones inside, and each
// is kept to its mount of the Spec.
func (h *withinHandle) Files(context.Context) (sandbox.Files, error) {
	table, err := fsbridge.NewMountTable(h.spec.Mounts, h.spec.Tmpfs)
	if err != nil {
		return nil, err
	}
	files, err := h.guest.Files(func(path string) (client.Spot, error) {
		at, err := table.Inside(path)
		return client.Spot{Root: at.Root.Target, Rel: at.Rel, ReadOnly: at.Root.ReadOnly}, err
	})
	if err != nil {
		return nil, err
	}
	return files, nil
}

// Dial implements [sandbox.Dialer].
func (h *withinHandle) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return h.guest.Dial(ctx, network, addr)
}

// Listen implements [sandbox.Listener].
func (h *withinHandle) Listen(ctx context.Context, network, addr string) (net.Listener, error) {
	return h.guest.Listen(ctx, network, addr)
}

// Ports implements [sandbox.PortLister].
func (h *withinHandle) Ports(ctx context.Context) ([]sandbox.ListeningPort, error) {
	return h.guest.Ports(ctx)
}

// Ping reports whether the guest answers.
func (h *withinHandle) Ping(ctx context.Context) error { return h.guest.Ping(ctx) }

// Cut ends the session at once.
func (h *withinHandle) Cut() { h.guest.Cut() }

// Close implements [sandbox.Sandbox].
func (h *withinHandle) Close() error { return h.guest.Close() }
