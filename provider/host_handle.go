//go:build linux

package provider

import (
	"context"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
)

// handle is a guest on the host.
type hostHandle struct {
	info  sandbox.Info
	spec  sandbox.Spec
	guest *client.Client
	ended chan struct{} // closed when the guest's process has ended
}

var (
	_ sandbox.Sandbox     = (*hostHandle)(nil)
	_ sandbox.Snapshotter = (*hostHandle)(nil)
)

// Info implements [sandbox.Sandbox].
func (h *hostHandle) Info() sandbox.Info { return h.info }

// Start implements [sandbox.Sandbox].
func (h *hostHandle) Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	if c.Detach {
		return nil, h.lacks("start", "what runs without a sandbox ends with the call and cannot be detached")
	}
	c, err := command(c, h.spec)
	if err != nil {
		return nil, err
	}
	return h.guest.Start(ctx, c)
}

// OpenShell implements [sandbox.Sandbox].
func (h *hostHandle) OpenShell(ctx context.Context, o sandbox.ShellOptions) (sandbox.Shell, error) {
	c, err := command(sandbox.Command{Env: o.Env, Dir: o.Dir}, h.spec)
	if err != nil {
		return nil, err
	}
	return h.guest.OpenShell(ctx, sandbox.ShellOptions{ID: o.ID, Env: c.Env, Dir: c.Dir, From: o.From}, c.Limits)
}

// Snapshot implements [sandbox.Snapshotter].
func (h *hostHandle) Snapshot(ctx context.Context) (sandbox.Snapshot, error) {
	return h.guest.Snapshot(ctx)
}

// Usage implements [sandbox.Sandbox]: nothing tells our processes apart from
// others of the host.
func (h *hostHandle) Usage(context.Context) (sandbox.Usage, error) {
	return sandbox.Usage{}, h.lacks("usage", "without a sandbox nothing is measured as a whole")
}

// Close implements [sandbox.Sandbox]. The end of the connection ends the guest
// and everything that it started; Close waits for that.
func (h *hostHandle) Close() error {
	err := h.guest.Close()
	<-h.ended
	return err
}

func (h *hostHandle) lacks(op, message string) error {
	return &sandbox.Error{Code: sandbox.CodeUnsupported, Op: op, Resource: h.spec.Name, Message: message}
}
