package kubernetes

import (
	"context"
	"net"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/provider"
)

// handle is an open pod.
type handle struct {
	info  sandbox.Info
	spec  sandbox.Spec
	guest *client.Client
	way   wayTaken // by which guest is reached
	trust *trust
}

var (
	_ sandbox.Sandbox     = (*handle)(nil)
	_ sandbox.FileServer  = (*handle)(nil)
	_ sandbox.Dialer      = (*handle)(nil)
	_ sandbox.Listener    = (*handle)(nil)
	_ sandbox.PortLister  = (*handle)(nil)
	_ sandbox.Snapshotter = (*handle)(nil)
)

func (h *handle) Info() sandbox.Info { return h.info }

// Start implements [sandbox.Sandbox].
func (h *handle) Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	c = provider.Command(c, h.spec)
	var err error
	if c.Env, err = h.trust.within(ctx, h.guest, h.spec, c.Env); err != nil {
		return nil, err
	}
	return h.guest.Start(ctx, c)
}

// OpenShell implements [sandbox.Sandbox].
func (h *handle) OpenShell(ctx context.Context, o sandbox.ShellOptions) (sandbox.Shell, error) {
	o, limits := provider.Shell(o, h.spec)
	var err error
	if o.Env, err = h.trust.within(ctx, h.guest, h.spec, o.Env); err != nil {
		return nil, err
	}
	return h.guest.OpenShell(ctx, o, limits)
}

// Snapshot implements [sandbox.Snapshotter].
func (h *handle) Snapshot(ctx context.Context) (sandbox.Snapshot, error) {
	return h.guest.Snapshot(ctx)
}

// Usage implements [sandbox.Sandbox]: pods have no metrics without a further server
// in the cluster.
func (h *handle) Usage(context.Context) (sandbox.Usage, error) {
	return sandbox.Usage{}, &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "usage", Resource: h.spec.Name, Message: "the provider kubernetes does not measure sandboxes"}
}

// Files implements [sandbox.FileServer]. Paths are absolute ones inside, and each is
// confined to its mount of the Spec.
func (h *handle) Files(context.Context) (sandbox.Files, error) {
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
func (h *handle) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return h.guest.Dial(ctx, network, addr)
}

// Listen implements [sandbox.Listener].
func (h *handle) Listen(ctx context.Context, network, addr string) (net.Listener, error) {
	return h.guest.Listen(ctx, network, addr)
}

// Ports implements [sandbox.PortLister].
func (h *handle) Ports(ctx context.Context) ([]sandbox.ListeningPort, error) {
	return h.guest.Ports(ctx)
}

// Ping reports whether the guest answers.
func (h *handle) Ping(ctx context.Context) error { return h.guest.Ping(ctx) }

// Connected reports whether the connection to the guest is open, without a word to
// it.
func (h *handle) Connected() bool {
	select {
	case <-h.guest.Done():
		return false
	default:
		return true
	}
}

// Close implements [sandbox.Sandbox].
func (h *handle) Close() error { return h.guest.Close() }

// Cut ends the connection at once, without waiting until the guest has ended what
// was begun over it.
func (h *handle) Cut() { h.guest.Cut() }
